#include "gpu_collectives.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "stepcast/base/diagnostics.h"

namespace stepcast::interop {
namespace {

// nccl-tests' name of an element type.
std::string type_name(job::DType t) {
  switch (t) {
    case job::DType::fp32:
    case job::DType::tf32:
      return "float";
    case job::DType::fp16:
      return "half";
    case job::DType::bf16:
      return "bfloat16";
    case job::DType::fp8:
    case job::DType::fp8_block:
    case job::DType::mxfp8:
      return "f8e4m3";
    case job::DType::int8:
    case job::DType::nvfp4:
    case job::DType::mxfp4:
      return "int8";
  }
  return "";
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

bool is_json_lines(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

CollectiveLog collectives_of(const GpuMeasurements& all) {
  CollectiveLog log;
  log.file = all.file;
  using Key = std::tuple<int, int, int, std::string, std::string>;
  std::map<Key, std::size_t> runs;  // index into log.runs
  for (const GpuMeasurement& m : all.measurements) {
    const auto* c = std::get_if<CollectiveCase>(&m.what);
    if (c == nullptr || !m.skipped.empty()) {
      continue;
    }
    const Key key{m.session, c->ranks, c->nodes, c->algo, c->proto};
    const auto [at, fresh] = runs.try_emplace(key, log.runs.size());
    if (fresh) {
      const GpuSession& s = all.sessions[static_cast<std::size_t>(m.session)];
      CollectiveRun run;
      run.line = m.line;
      if (c->ranks % c->nodes == 0) {
        run.ranks_per_node.assign(static_cast<std::size_t>(c->nodes), c->ranks / c->nodes);
      }
      run.devices = {s.gpu};
      run.nccl_version = s.nccl;
      run.date = s.date.substr(0, 10);
      run.algorithm = lower(c->algo);
      run.protocol = lower(c->proto);
      log.runs.push_back(std::move(run));
    }
    log.runs[at->second].points.push_back(
        {c->op, c->bytes, m.time.median, false, m.line, type_name(c->dtype), std::nullopt});
  }
  if (log.runs.empty()) {
    throw InputError(Fault{{all.file, 1, 1},
                           "holds no collectives; expected nccl-tests output, "
                           "CSV, or a file of calibrate-gpu that measured them"});
  }
  return log;
}

}  // namespace stepcast::interop
