// Writes records of measurements as text: keys in a fixed order, numbers as the shortest text that
// reads back exactly.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gpu_names.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::interop {
namespace {

std::string quoted(const std::string& text) {
  // A driver's string that is not UTF-8 must not end a run.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Writes one JSON object key by key.
class ObjectWriter {
 public:
  ObjectWriter& text(const char* key, const std::string& value) { return put(key, quoted(value)); }
  ObjectWriter& number(const char* key, double value) {
    STEPCAST_CHECK(std::isfinite(value), "a measured number is finite");
    return put(key, fmt::format("{}", value));
  }
  ObjectWriter& whole(const char* key, std::int64_t value) {
    return put(key, fmt::format("{}", value));
  }
  ObjectWriter& flag(const char* key, bool value) { return put(key, value ? "true" : "false"); }
  ObjectWriter& object(const char* key, const ObjectWriter& value) {
    return put(key, value.closed());
  }

  std::string closed() const { return "{" + out_ + "}"; }

 private:
  ObjectWriter& put(const char* key, const std::string& value) {
    out_ += fmt::format("{}\"{}\": {}", out_.empty() ? "" : ", ", key, value);
    return *this;
  }
  std::string out_;
};

std::string way(bool backward) { return backward ? "backward" : "forward"; }

std::string shape_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return fmt::format("{}x{}x{}", m, n, k);
}

// Keys with their usual value are left out: batch 1, one group, no algorithm forced.
struct Keys {
  ObjectWriter& out;

  void operator()(const GemmCase& c) const {
    out.text("record", "gemm").text("dtype", job::to_string(c.dtype));
    out.text("layout", std::string(kLayoutNames[static_cast<std::size_t>(c.layout)]));
    out.whole("m", c.m).whole("n", c.n).whole("k", c.k);
    if (c.batch != 1) {
      out.whole("batch", c.batch);
    }
    if (c.groups != 1) {
      out.whole("groups", c.groups);
    }
    if (c.accumulate_fp32) {
      out.flag("accumulate_fp32", true);
    }
    if (c.sustained) {
      out.flag("sustained", true);
    }
  }
  void operator()(const AttentionCase& c) const {
    out.text("record", "attention").text("kernel", c.kernel);
    out.text("dtype", job::to_string(c.dtype));
    out.whole("sequences", c.sequences).whole("length", c.length);
    out.whole("heads", c.heads).whole("kv_heads", c.kv_heads).whole("head_dim", c.head_dim);
    out.flag("causal", c.causal).flag("backward", c.backward);
  }
  void operator()(const MemoryCase& c) const {
    out.text("record", "memory").text("op", c.op).text("dtype", job::to_string(c.dtype));
    out.whole("bytes", c.bytes).flag("backward", c.backward);
  }
  void operator()(const CopyCase& c) const {
    out.text("record", "copy").text("direction", c.direction);
    out.flag("pinned", c.pinned).whole("bytes", c.bytes);
  }
  void operator()(const LaunchCase& c) const { out.text("record", "launch").text("what", c.what); }
  void operator()(const CollectiveCase& c) const {
    out.text("record", "collective").text("op", c.op).text("dtype", job::to_string(c.dtype));
    out.whole("bytes", c.bytes).whole("ranks", c.ranks).whole("nodes", c.nodes);
    if (!c.algo.empty()) {
      out.text("algo", c.algo);
    }
    if (!c.proto.empty()) {
      out.text("proto", c.proto);
    }
  }
  void operator()(const OverlapCase& c) const {
    out.text("record", "overlap").text("kernel", c.kernel);
    if (c.kernel == "gemm") {
      out.whole("m", c.m).whole("n", c.n).whole("k", c.k);
    } else {
      out.whole("bytes", c.bytes);
    }
    if (!c.op.empty()) {
      out.text("op", c.op);
    }
    if (!c.direction.empty()) {
      out.text("direction", c.direction);
    }
    out.whole("other_bytes", c.other_bytes);
    if (c.ranks != 0) {
      out.whole("ranks", c.ranks);
    }
    if (c.channels != 0) {
      out.whole("channels", c.channels);
    }
  }
  void operator()(const LayerCase& c) const {
    out.text("record", "layer").text("model", c.model).text("dtype", job::to_string(c.dtype));
    out.whole("sequences", c.sequences).whole("length", c.length).whole("tensor", c.tensor);
    out.flag("backward", c.backward);
  }
};

struct Name {
  std::string operator()(const GemmCase& c) const {
    return fmt::format("gemm {} {} {}{}{}{}{}", job::to_string(c.dtype),
                       kLayoutNames[static_cast<std::size_t>(c.layout)],
                       c.batch > 1 ? fmt::format("{}x", c.batch) : "", shape_of(c.m, c.n, c.k),
                       c.groups > 1 ? fmt::format(" {} groups", c.groups) : "",
                       c.accumulate_fp32 ? " accumulate" : "", c.sustained ? " sustained" : "");
  }
  std::string operator()(const AttentionCase& c) const {
    return fmt::format("attention {} {} {} {}x{} {}/{} heads of {}{}", c.kernel,
                       job::to_string(c.dtype), way(c.backward), c.sequences, c.length, c.heads,
                       c.kv_heads, c.head_dim, c.causal ? " causal" : "");
  }
  std::string operator()(const MemoryCase& c) const {
    return fmt::format("memory {} {} {} {}", c.op, job::to_string(c.dtype), way(c.backward),
                       c.bytes);
  }
  std::string operator()(const CopyCase& c) const {
    return fmt::format("copy {} {} {}", c.direction, c.pinned ? "pinned" : "pageable", c.bytes);
  }
  std::string operator()(const LaunchCase& c) const { return "launch " + c.what; }
  std::string operator()(const CollectiveCase& c) const {
    return fmt::format("collective {} {} {} {} ranks{}{}{}", c.op, job::to_string(c.dtype), c.bytes,
                       c.ranks, c.nodes > 1 ? fmt::format(" {} nodes", c.nodes) : "",
                       c.algo.empty() ? "" : " algo " + c.algo,
                       c.proto.empty() ? "" : " proto " + c.proto);
  }
  std::string operator()(const OverlapCase& c) const {
    return fmt::format("overlap {} {} beside {}{} {}{}{}", c.kernel,
                       c.kernel == "gemm" ? shape_of(c.m, c.n, c.k) : fmt::format("{}", c.bytes),
                       c.op, c.direction, c.other_bytes,
                       c.ranks > 0 ? fmt::format(" {} ranks", c.ranks) : "",
                       c.channels > 0 ? fmt::format(" {} channels", c.channels) : "");
  }
  std::string operator()(const LayerCase& c) const {
    return fmt::format("layer {} {} {} {}x{} tensor {}", c.model, job::to_string(c.dtype),
                       way(c.backward), c.sequences, c.length, c.tensor);
  }
};

}  // namespace

std::string to_string(const GpuCase& what) { return std::visit(Name{}, what); }

std::string to_json_line(const GpuSession& s) {
  ObjectWriter gpu;
  gpu.text("name", s.gpu).whole("count", s.gpus);
  gpu.number("compute_capability", s.compute_capability);
  if (!s.architecture.empty()) {
    gpu.text("architecture", s.architecture);
  }
  gpu.whole("sms", s.sms);
  gpu.whole("memory", s.memory).whole("l2", s.l2);
  gpu.number("sm_clock", s.sm_clock).number("memory_clock", s.memory_clock);
  gpu.number("power_limit", s.power_limit);
  ObjectWriter out;
  out.text("record", "session").whole("schema", kMeasurementSchema);
  out.text("harness", s.harness).text("date", s.date).object("gpu", gpu);
  out.text("driver", s.driver).text("cuda", s.cuda).text("cublas", s.cublas);
  out.text("cudnn", s.cudnn).text("nccl", s.nccl);
  return out.closed() + "\n";
}

std::string to_json_line(const GpuMeasurement& m) {
  ObjectWriter out;
  std::visit(Keys{out}, m.what);
  if (!m.skipped.empty()) {
    return out.text("skipped", m.skipped).closed() + "\n";
  }
  ObjectWriter time;
  time.number("median", m.time.median).number("p10", m.time.p10).number("p90", m.time.p90);
  out.object("time", time.whole("samples", m.time.samples));
  if (std::holds_alternative<OverlapCase>(m.what)) {
    out.number("alone", m.alone).number("other_alone", m.other_alone);
    out.number("other_together", m.other_together);
  }
  // Values that no sensor reported are left out.
  if (m.sm_clock > 0) {
    out.number("sm_clock", m.sm_clock);
  }
  if (m.power > 0) {
    out.number("power", m.power);
  }
  if (m.temperature > 0) {
    out.number("temperature", m.temperature);
  }
  return out.closed() + "\n";
}

}  // namespace stepcast::interop
