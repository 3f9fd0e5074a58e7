#include "evaluation.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <utility>

#include "explain.h"
#include "stepcast/text/document.h"

namespace stepcast::search {
namespace {

using result::Estimate;
using result::Strategy;

// Infinities have no JSON: every number that is none stands as text.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string estimate(const Estimate& e) {
  const auto& [value, low, high] = e;
  return fmt::format("[{}, {}, {}]", number(value), number(low), number(high));
}

// The bindings name every field: one that is added must be written too, or this does not compile.
std::string strategy(const Strategy& s) {
  const auto& [overrides, step_time, peak, capacity, mfu, gpus, objective, bubble_fraction, fits,
               compute, recompute, exposed, bubble, other] = s;
  return fmt::format(
      "{{\"step_time\": {}, \"peak\": {}, \"capacity\": {}, \"mfu\": {}, \"gpus\": {}, "
      "\"objective\": {}, \"bubble_fraction\": {}, \"fits\": {}, \"compute\": {}, "
      "\"recompute\": {}, \"exposed\": {}, \"bubble\": {}, \"other\": {}}}",
      estimate(step_time), estimate(peak), capacity.count(), number(mfu), number(gpus),
      number(objective), number(bubble_fraction), fits, compute.count(), recompute.count(),
      exposed.count(), bubble.count(), other.count());
}

const text::Value& field(const text::Value& v, const char* key) {
  if (const text::Value* found = v.find(key)) {
    return *found;
  }
  throw InputError(Fault{v.origin, fmt::format("lacks '{}'", key)});
}

double to_double(const text::Value& v) { return std::strtod(v.scalar.c_str(), nullptr); }
std::int64_t to_count(const text::Value& v) { return std::strtoll(v.scalar.c_str(), nullptr, 10); }

Estimate to_estimate(const text::Value& v) {
  if (v.items.size() != 3) {
    throw InputError(Fault{v.origin, "expected three numbers"});
  }
  return {to_double(v.items[0]), to_double(v.items[1]), to_double(v.items[2])};
}

Strategy to_strategy(const text::Value& v, const std::vector<std::string>& overrides) {
  const auto time = [&](const char* key) { return Time{to_count(field(v, key))}; };
  return {overrides,
          to_estimate(field(v, "step_time")),
          to_estimate(field(v, "peak")),
          Bytes(to_count(field(v, "capacity"))),
          to_double(field(v, "mfu")),
          to_double(field(v, "gpus")),
          to_double(field(v, "objective")),
          to_double(field(v, "bubble_fraction")),
          text::to_bool(field(v, "fits")),
          time("compute"),
          time("recompute"),
          time("exposed"),
          time("bubble"),
          time("other")};
}

}  // namespace

bool Evaluation::enough(double limit, double memory) const {
  return impossible || exact || (rule && (rule->objective >= limit || least_peak() > memory));
}

Answer evaluate(const Order& order, Objective objective, const JobLoader& loader,
                forecast::Forecaster& forecaster) {
  Answer out;
  out.id = order.id;
  Evaluation& e = out.found;
  try {
    auto loaded = loader(order.overrides);
    if (auto* why = std::get_if<Infeasible>(&loaded)) {
      e.impossible = *why;
      return out;
    }
    const auto& job = std::get<job::Job>(loaded);
    while (!e.enough(order.limit, order.memory)) {
      const bool exact = order.replay_only || e.ran();
      forecast::Options options;
      options.allocator = exact ? forecast::Allocator::replay : forecast::Allocator::rule;
      auto outcome = forecaster.forecast(job, options);
      if (auto* why = std::get_if<Infeasible>(&outcome)) {
        e = {};
        e.impossible = *why;
        return out;
      }
      (exact ? e.exact : e.rule) =
          strategy_of(std::get<result::Report>(outcome), job, order.overrides, objective, exact);
    }
  } catch (const std::exception& error) {
    out.error = error.what();
  }
  return out;
}

std::string to_json(const Evaluation& e) {
  if (e.impossible) {
    return fmt::format("{{\"key\": {}, \"reason\": {}}}", quoted(e.impossible->key),
                       quoted(e.impossible->reason));
  }
  std::string out;
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
  if (const text::Value* rule = v.find("rule")) {
    e.rule = to_strategy(*rule, overrides);
  }
  if (const text::Value* exact = v.find("exact")) {
    e.exact = to_strategy(*exact, overrides);
  }
  return e;
}

}  // namespace stepcast::search
