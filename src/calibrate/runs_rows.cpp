// Reads rows that users write of their own runs.
#include <fmt/format.h>

#include <cmath>

#include "stepcast/calibrate/runs.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::calibrate {
namespace {

using text::Value;

using text::fault;

const text::Keys kRunKeys = {
    {"config", "step_time", "tokens_per_second_per_gpu", "id", "date", "source", "notes", "set"},
    "; expected a key of a measured run"};

// One value, or a list of repeats.
std::vector<double> positive(const Value& v, const char* key) {
  std::vector<double> out;
  const auto add = [&](const Value& one) {
    const double x = text::to_number(one);
    if (!(x > 0)) {
      fault(one.origin, fmt::format("{} is {}; expected a number above 0", key, x));
    }
    out.push_back(x);
  };
  if (v.kind == Value::Kind::sequence) {
    for (const Value& one : v.items) {
      add(one);
    }
    if (out.empty()) {
      fault(v.origin, fmt::format("{} is an empty list; expected measured values", key));
    }
  } else {
    add(v);
  }
  return out;
}

std::string text_of(const Value& row, const char* key) {
  const Value* v = row.find(key);
  return v == nullptr || v->kind == Value::Kind::null ? "" : text::to_string(*v);
}

std::vector<std::string> overrides_of(const Value& row) {
  std::vector<std::string> out;
  if (const Value* set = row.find("set")) {
    for (const Value& one :
         text::expect_list(*set, "expected a list such as [\"workload.global_batch=512\"]").items) {
      out.push_back(text::to_string(one));
    }
  }
  return out;
}

// A fault of an option has no line, so it gets the line of its row.
job::Job load(const std::string& config, const std::vector<std::string>& overrides,
              const Origin& row) {
  try {
    return input::load(config, overrides).job;
  } catch (const InputError& error) {
    std::vector<Fault> faults = error.faults();
    for (Fault& f : faults) {
      if (f.where.line == 0) {
        f.where = row;
      }
    }
    throw InputError(std::move(faults));
  }
}

result::MeasuredStep own_run(const Value& row, const std::filesystem::path& file) {
  text::expect_keys(row, kRunKeys);
  const Value* time = row.find("step_time");
  const Value* tokens = row.find("tokens_per_second_per_gpu");
  if ((time == nullptr) == (tokens == nullptr)) {
    fault(row.origin,
          time == nullptr
              ? "no measured value; expected step_time in seconds, or tokens_per_second_per_gpu"
              : "step_time and tokens_per_second_per_gpu are both given; expected one");
  }
  result::MeasuredStep step;
  step.file = file.string();
  step.line = row.origin.line;
  step.id = text_of(row, "id");
  if (step.id.empty()) {
    step.id = fmt::format("line {}", step.line);
  }
  step.date = text_of(row, "date");
  const std::string& config = text::to_string(*row.find("config"));
  std::error_code error;
  const std::filesystem::path beside = file.parent_path() / config;
  step.job = load(std::filesystem::is_regular_file(beside, error) ? beside.string() : config,
                  overrides_of(row), row.find("config")->origin);
  if (time != nullptr) {
    step.seconds = positive(*time, "step_time");
  } else {
    step.seconds = positive(*tokens, "tokens_per_second_per_gpu");
    const double each = static_cast<double>(step.job.workload.global_batch) *
                        static_cast<double>(step.job.workload.sequence_length) /
                        step.job.cluster.ranks();
    for (double& x : step.seconds) {
      x = each / x;
    }
  }
  return step;
}

}  // namespace

std::vector<RunRow> read_runs(const std::filesystem::path& file) {
  std::vector<RunRow> rows;
  text::Faults faults;
  for (const Value& row : text::read_json_lines(file)) {
    faults.guarded([&] {
      if (row.kind == Value::Kind::map && row.find("config") != nullptr) {
        rows.emplace_back(own_run(row, file));
      } else if (row.kind == Value::Kind::map && row.find("metric") == nullptr) {
        fault(row.origin,
              "neither 'config' (a job file) nor 'metric' (a row of published data) is given; "
              "expected "
              "{\"config\": \"job.yaml\", \"step_time\": 8.5}");
      } else {
        rows.emplace_back(interop::take_apart(row, file.string()));
      }
    });
  }
  faults.done();
  return rows;
}

}  // namespace stepcast::calibrate
