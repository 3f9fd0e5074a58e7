#include "evaluation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "stepcast/search/strategy.h"
#include "stepcast/store/payload.h"
#include "stepcast/store/store.h"
#include "stepcast/text/document.h"

namespace stepcast::search {
namespace {

using result::Estimate;
using result::Strategy;
using store::count_of;
using store::field;
using store::json_number;
using store::json_text;
using store::number_of;

std::string estimate(const Estimate& e) {
  const auto& [value, low, high] = e;
  return fmt::format("[{}, {}, {}]", json_number(value), json_number(low), json_number(high));
}

// The structured binding names every field, so this does not compile until an added field is
// written too.
std::string strategy(const Strategy& s) {
  const auto& [overrides, step_time, peak, capacity, mfu, gpus, objective, bubble_fraction, fits,
               compute, recompute, exposed, bubble, other] = s;
  return fmt::format(
      "{{\"step_time\": {}, \"peak\": {}, \"capacity\": {}, \"mfu\": {}, \"gpus\": {}, "
      "\"objective\": {}, \"bubble_fraction\": {}, \"fits\": {}, \"compute\": {}, "
      "\"recompute\": {}, \"exposed\": {}, \"bubble\": {}, \"other\": {}}}",
      estimate(step_time), estimate(peak), capacity.count(), json_number(mfu), json_number(gpus),
      json_number(objective), json_number(bubble_fraction), store::json_fit(fits), compute.count(),
      recompute.count(), exposed.count(), bubble.count(), other.count());
}

Estimate to_estimate(const text::Value& v) {
  if (v.items.size() != 3) {
    throw InputError(Fault{v.origin, "expected three numbers"});
  }
  return {number_of(v.items[0]), number_of(v.items[1]), number_of(v.items[2])};
}

Strategy to_strategy(const text::Value& v, const std::vector<std::string>& overrides) {
  const auto time = [&](const char* key) { return Time{count_of(field(v, key))}; };
  return {overrides,
          to_estimate(field(v, "step_time")),
          to_estimate(field(v, "peak")),
          Bytes(count_of(field(v, "capacity"))),
          number_of(field(v, "mfu")),
          number_of(field(v, "gpus")),
          number_of(field(v, "objective")),
          number_of(field(v, "bubble_fraction")),
          store::fit_of(field(v, "fits")),
          time("compute"),
          time("recompute"),
          time("exposed"),
          time("bubble"),
          time("other")};
}

}  // namespace

bool Evaluation::enough(double limit, double room) const {
  return impossible || exact || ((rule || memory) && least_peak() > room) ||
         (rule && rule->objective >= limit);
}

std::string packed(const Order& o) {
  std::string out = fmt::format("{} {} {}", o.limit, o.memory, o.replay_only ? 1 : 0);
  for (const std::string& text :
       o.overrides) {  // Overrides come from a command line, so none contains a zero byte.
    out += '\0' + text;
  }
  return out;
}

Order order_of(const std::string& text) {
  Order o;
  char* next = nullptr;
  o.limit = std::strtod(text.c_str(), &next);
  o.memory = std::strtod(next, &next);
  o.replay_only = std::strtol(next, nullptr, 10) == 1;
  for (std::size_t at = text.find('\0'); at != std::string::npos;) {
    const std::size_t end = text.find('\0', ++at);
    o.overrides.push_back(text.substr(at, end - at));
    at = end;
  }
  return o;
}

Evaluation evaluate(const Order& order, Objective objective, const JobLoader& loader,
                    forecast::Forecaster& forecaster, const Stop* stop) {
  Evaluation e;
  check(stop);
  auto loaded = loader(order.overrides);
  if (auto* why = std::get_if<Infeasible>(&loaded)) {
    e.impossible = *why;
    return e;
  }
  const auto& job = std::get<job::Job>(loaded);
  forecast::Options options;
  options.stop = stop;
  bool exact = true;
  if (!order.replay_only) {
    options.run_if = [&](const result::Report& by_rule) {
      e.memory = peak_by_rule(by_rule);
      exact = !e.enough(order.limit, order.memory);
      return exact;
    };
    options.replay_if = [&](const result::Report& by_rule) {
      e.memory.reset();
      e.rule = strategy_of(by_rule, job, order.overrides, objective, false);
      exact = !e.enough(order.limit, order.memory);
      return exact;
    };
  }
  auto outcome = forecaster.forecast(job, options);
  if (auto* why = std::get_if<Infeasible>(&outcome)) {
    e = {};
    e.impossible = *why;
  } else if (exact) {
    e.exact = strategy_of(std::get<result::Report>(outcome), job, order.overrides, objective, true);
  }
  return e;
}

MakeWork evaluator(const JobLoader& loader, const std::filesystem::path& data_directory,
                   std::shared_ptr<const Stop> stop) {
  return [loader, data_directory, stop = std::move(stop)](const std::string& start) -> Work {
    const auto objective = static_cast<Objective>(std::strtol(start.c_str(), nullptr, 10));
    auto forecaster = std::make_shared<forecast::Forecaster>(data_directory);
    return [=](const std::string& order) {
      return to_json(evaluate(order_of(order), objective, loader, *forecaster, stop.get()));
    };
  };
}

std::string start_of(Objective objective) { return fmt::format("{}", static_cast<int>(objective)); }

void follow(World& world, int threads, const JobLoader& loader,
            const std::filesystem::path& data_directory) {
  if (world.size() > 1) {
    serve(world, threads_of(threads, &world), evaluator(loader, data_directory));
  }
}

std::string to_json(const Evaluation& e) {
  if (e.impossible) {
    return fmt::format("{{\"key\": {}, \"reason\": {}}}", json_text(e.impossible->key),
                       json_text(e.impossible->reason));
  }
  std::string out;
  if (e.memory) {
    out = fmt::format("\"memory\": {}", estimate(*e.memory));
  }
  for (const auto& [name, s] : {std::pair{"rule", &e.rule}, std::pair{"exact", &e.exact}}) {
    if (*s) {
      out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", name, strategy(**s));
    }
  }
  return "{" + out + "}";
}

Evaluation evaluation_of(const std::string& text, const std::vector<std::string>& overrides) {
  const text::Value v = text::parse_json(text, "a stored evaluation");
  Evaluation e;
  if (v.find("reason") != nullptr) {
    e.impossible = Infeasible{field(v, "key").scalar, field(v, "reason").scalar};
    return e;
  }
  if (const text::Value* memory = v.find("memory")) {
    e.memory = to_estimate(*memory);
  }
  if (const text::Value* rule = v.find("rule")) {
    e.rule = to_strategy(*rule, overrides);
  }
  if (const text::Value* exact = v.find("exact")) {
    e.exact = to_strategy(*exact, overrides);
  }
  return e;
}

}  // namespace stepcast::search
