// Reading a file of measured runs. The format is in this folder's README.
#include "stepcast/runs/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "measured.h"
#include "stepcast/text/map.h"

namespace stepcast::runs {
namespace {

using text::fault;
using text::Value;

const text::Keys kRunKeys = {{"id", "source", "date", "notes", "job", "config", "operator", "set",
                              "measured", "flops", "assumed"},
                             "; expected a key of a measured run"};
const text::Keys kOperatorKeys = {{"kernel", "provider", "mode", "device", "dtype", "sizes"},
                                  " of a measured operator"};
constexpr const char* kExample =
    R"(expected {"config": "job.yaml", "measured": {"step_time": 8.5}})";

std::string text_at(const Value& map, const char* key) {
  const Value* v = map.find(key);
  return v == nullptr || v->kind == Value::Kind::null ? "" : text::to_string(*v);
}

// A job file in the folder of the file of runs, or a name in configs/.
std::string config_of(const Value& v, const std::filesystem::path& file) {
  const std::string& named = text::to_string(v);
  std::error_code error;
  const std::filesystem::path near = file.parent_path() / named;
  return std::filesystem::is_regular_file(near, error) ? near.string() : named;
}

DType number_format(const Value& v) {
  if (const auto found = parse<DType>(text::to_string(v))) {
    return *found;
  }
  const auto words = words_of<DType>();
  fault(v.origin, fmt::format("dtype is '{}'; expected {}", v.scalar,
                              one_of_words({words.begin(), words.end()})));
}

OperatorCase operator_of(const Value& map) {
  text::expect_map(map, R"(expected {"kernel": "swiglu", "sizes": {"T": 4096}})");
  text::expect_keys(map, kOperatorKeys);
  OperatorCase out;
  out.kernel = text::to_string(text::need(map, "kernel"));
  out.provider = text_at(map, "provider");
  out.mode = text_at(map, "mode");
  out.device = text_at(map, "device");
  if (const Value* dtype = map.find("dtype")) {
    out.dtype = number_format(*dtype);
  }
  const Value& sizes = text::need(map, "sizes");
  for (const Value::Entry& entry :
       text::expect_map(sizes, "expected sizes such as {\"T\": 4096}").entries) {
    out.sizes[entry.key] = text::to_integer(entry.value);
  }
  return out;
}

// Exactly one of `job`, `config` and `operator`.
void read_job(const Value& line, const std::filesystem::path& file, Run& run) {
  const Value* job = line.find("job");
  const Value* config = line.find("config");
  const Value* op = line.find("operator");
  const int given = (job != nullptr) + (config != nullptr) + (op != nullptr);
  if (given != 1) {
    fault(line.origin,
          given == 0
              ? fmt::format("no job; expected 'config' (a job file) or 'job' (the job itself): {}",
                            kExample)
              : "more than one of 'job', 'config' and 'operator'; expected one");
  }
  if (job != nullptr) {
    run.document = text::expect_map(*job, "expected a job as in a job file");
    run.job_origin = job->origin;
  } else if (config != nullptr) {
    run.config = config_of(*config, file);
    run.job_origin = config->origin;
  } else {
    run.op = operator_of(*op);
    run.job_origin = op->origin;
  }
}

void read_flops(const Value& line, Run& run) {
  const Value* v = line.find("flops");
  if (v == nullptr) {
    return;
  }
  const auto found = parse<model::FlopConvention>(text::to_string(*v));
  if (!found) {
    const auto words = words_of<model::FlopConvention>();
    fault(v->origin, fmt::format("flops is '{}'; expected {}", v->scalar,
                                 one_of_words({words.begin(), words.end()})));
  }
  run.flops = *found;
}

void read_assumed(const Value& line, text::Faults& faults, Run& run) {
  if (const Value* assumed = line.find("assumed")) {
    faults.named(*assumed, "assumed", [&](const Value::Entry& entry) {
      run.assumed.push_back({entry.key, text::to_string(entry.value)});
    });
  }
}

void read_overrides(const Value& line, Run& run) {
  const Value* set = line.find("set");
  if (set == nullptr) {
    return;
  }
  for (const Value& one :
       text::expect_list(*set, R"(expected a list such as ["workload.global_batch=512"])").items) {
    run.overrides.push_back(text::to_string(one));
  }
}

// Adds every fault of the line.
Run run_of(const Value& line, const std::filesystem::path& file, text::Faults& faults) {
  Run run;
  run.file = file.string();
  run.origin = line.origin;
  faults.guarded([&] { text::expect_keys(line, kRunKeys); });
  faults.guarded([&] {
    run.id = text_at(line, "id");
    run.source = text_at(line, "source");
    run.date = text_at(line, "date");
  });
  if (run.id.empty()) {
    run.id = fmt::format("line {}", line.origin.line);
  }
  faults.guarded([&] { read_job(line, file, run); });
  faults.guarded([&] { read_overrides(line, run); });
  faults.guarded([&] { read_flops(line, run); });
  read_assumed(line, faults, run);
  if (const Value* measured = line.find("measured")) {
    const std::size_t before = faults.count();
    run.measured = measured_of(*measured, line.find("operator") != nullptr, faults);
    if (run.measured.empty() && faults.count() == before) {
      faults.add(measured->origin, "nothing was measured; expected a quantity such as step_time");
    }
  } else {
    faults.add(line.origin, fmt::format("key 'measured' is missing; {}", kExample));
  }
  return run;
}

}  // namespace

std::vector<Run> read(const std::filesystem::path& file) {
  std::vector<Run> out;
  text::Faults faults;
  for (const Value& line : text::read_json_lines(file)) {
    if (line.kind == Value::Kind::map) {
      out.push_back(run_of(line, file, faults));
    } else {
      faults.add(line.origin, fmt::format("not a measured run; {}", kExample));
    }
  }
  faults.done();
  if (out.empty()) {
    fault({file.string(), 1, 1}, fmt::format("holds no measured run; {}", kExample));
  }
  return out;
}

Run find(const std::filesystem::path& file, const std::string& id) {
  std::vector<Run> all = read(file);
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Run& run) { return run.id == id; });
  if (at == all.end()) {
    throw InputError(Fault{{file.string(), 0, 0}, fmt::format("no run '{}'", id)});
  }
  return std::move(*at);
}

}  // namespace stepcast::runs
