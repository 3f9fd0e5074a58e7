// The job of a run, and what its quantities are.
#include "stepcast/runs/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "stepcast/base/statistics.h"
#include "stepcast/input/input.h"

namespace stepcast::runs {
namespace {

constexpr const char* kMicroBatch = "workload.micro_batch";
constexpr const char* kRecompute = "memory.recompute";

bool assumes(const Run& run, std::string_view key) {
  return std::any_of(run.assumed.begin(), run.assumed.end(),
                     [&](const Assumption& a) { return a.key == key; });
}

template <std::size_t N>
bool one_of(Quantity q, const std::array<Quantity, N>& list) {
  return std::find(list.begin(), list.end(), q) != list.end();
}

void write(const text::Value& v, std::string& out) {
  using Kind = text::Value::Kind;
  if (v.kind == Kind::map) {
    out += '{';
    for (const text::Value::Entry& entry : v.entries) {
      out += entry.key + ": ";
      write(entry.value, out);
      out += ", ";
    }
    out += '}';
  } else if (v.kind == Kind::sequence) {
    out += '[';
    for (const text::Value& item : v.items) {
      write(item, out);
      out += ", ";
    }
    out += ']';
  } else {
    out += v.quoted ? '"' + v.scalar + '"' : v.scalar;
  }
}

text::Value without(text::Value map, const std::string& key) {
  std::erase_if(map.entries, [&](const text::Value::Entry& entry) { return entry.key == key; });
  return map;
}

}  // namespace

bool is_rate(Quantity q) {
  return one_of(q,
                std::array{Quantity::tokens_per_second, Quantity::tokens_per_second_per_gpu,
                           Quantity::sequences_per_second, Quantity::sequences_per_second_per_gpu,
                           Quantity::model_flops_per_second_per_gpu, Quantity::mfu, Quantity::hfu});
}

bool is_of_experts(Quantity q) {
  return one_of(q, std::array{Quantity::experts_time, Quantity::experts_forward_time,
                              Quantity::experts_backward_time});
}

bool is_of_layer(Quantity q) {
  return is_of_experts(q) ||
         one_of(q, std::array{Quantity::layer_time, Quantity::layer_forward_time,
                              Quantity::layer_backward_time});
}

bool is_of_memory(Quantity q) {
  return one_of(q, std::array{Quantity::peak_memory, Quantity::steady_memory, Quantity::outcome});
}

double Measurement::value() const { return median(values); }

bool Run::micro_batch_open() const {
  const text::Value* workload = document ? document->find("workload") : nullptr;
  return workload != nullptr && workload->find("micro_batch") == nullptr &&
         assumes(*this, kMicroBatch);
}

bool Run::recompute_open() const { return assumes(*this, kRecompute); }

namespace {

// Calls `read`. A fault of `set` has no line of its own: it gets the run's.
template <class Read>
config::Loaded at_its_place(const Run& run, const Read& read) {
  try {
    return read();
  } catch (const InputError& error) {
    std::vector<Fault> faults = error.faults();
    for (Fault& f : faults) {
      if (f.where.line == 0) {
        f.where = run.job_origin;
      }
    }
    throw InputError(std::move(faults));
  }
}

}  // namespace

config::Loaded stated_job(const Run& run, const std::vector<std::string>& more_overrides) {
  std::vector<std::string> overrides;
  if (run.micro_batch_open()) {
    overrides.push_back(fmt::format("{}=1", kMicroBatch));
  }
  overrides.insert(overrides.end(), run.overrides.begin(), run.overrides.end());
  overrides.insert(overrides.end(), more_overrides.begin(), more_overrides.end());
  return at_its_place(run, [&] {
    config::Loaded out = run.document ? config::parse(*run.document, overrides)
                                      : config::load(run.config, overrides);
    std::vector<std::string>& assumed = out.job.assumed;
    for (const Assumption& one : run.assumed) {
      if (std::find(assumed.begin(), assumed.end(), one.key) == assumed.end()) {
        assumed.push_back(one.key);
      }
    }
    return out;
  });
}

config::Loaded job_of(const Run& run, const std::vector<std::string>& more_overrides) {
  return at_its_place(run, [&] { return input::judged(stated_job(run, more_overrides)); });
}

std::string text_of(const Run& run, bool machine) {
  std::string out;
  if (run.document) {
    write(machine ? *run.document : without(*run.document, "cluster"), out);
  } else {
    out = run.config;
  }
  for (const std::string& one : run.overrides) {
    if (machine || !one.starts_with("cluster")) {
      out += ' ' + one;
    }
  }
  return out;
}

}  // namespace stepcast::runs
