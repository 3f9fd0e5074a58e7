#include "gpu_cases.h"

#include <map>

#include "gpu_names.h"
#include "stepcast/interop/nccl_log.h"

namespace stepcast::interop {
namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;

GpuCase gemm(Record& r) {
  GemmCase c;
  c.dtype = r.dtype();
  c.layout = static_cast<GemmLayout>(r.choice("layout", kLayoutNames));
  c.m = r.whole("m", 1, kMaxDimension);
  c.n = r.whole("n", 1, kMaxDimension);
  c.k = r.whole("k", 1, kMaxDimension);
  c.batch = r.whole_or("batch", 1, kMaxDimension);
  c.groups = static_cast<int>(r.whole_or("groups", 1, 1 << 20));
  c.accumulate_fp32 = r.flag("accumulate_fp32", false);
  c.sustained = r.flag("sustained", false);
  return c;
}

GpuCase attention(Record& r) {
  AttentionCase c;
  c.kernel = kAttentionNames[r.choice("kernel", kAttentionNames)];
  c.dtype = r.dtype();
  c.sequences = r.whole("sequences", 1, kMaxDimension);
  c.length = r.whole("length", 1, kMaxDimension);
  c.heads = r.count("heads", 1 << 20);
  c.kv_heads = r.count("kv_heads", 1 << 20);
  c.head_dim = r.count("head_dim", 1 << 16);
  if (r.good() && c.heads % c.kv_heads != 0) {
    r.fault(r.origin(), fmt::format("{} heads do not share {} kv_heads evenly; expected a multiple",
                                    c.heads, c.kv_heads));
  }
  c.causal = r.flag("causal");
  c.backward = r.flag("backward");
  return c;
}

GpuCase memory(Record& r) {
  MemoryCase c;
  c.op = kMemoryNames[r.choice("op", kMemoryNames)];
  c.dtype = r.dtype();
  c.bytes = r.whole("bytes", 1, kMaxBytes);
  c.backward = r.flag("backward");
  return c;
}

GpuCase copy(Record& r) {
  CopyCase c;
  c.direction = kDirectionNames[r.choice("direction", kDirectionNames)];
  c.pinned = r.flag("pinned");
  c.bytes = r.whole("bytes", 1, kMaxBytes);
  return c;
}

GpuCase launch(Record& r) {
  return LaunchCase{std::string(kLaunchNames[r.choice("what", kLaunchNames)])};
}

std::string collective_op(Record& r) {
  const std::string op = r.text("op");
  const auto& names = collective_names();
  if (!op.empty() && std::find(names.begin(), names.end(), op) == names.end()) {
    r.fault(r.origin(), fmt::format("op is '{}'; expected one of {}", op, listed(names)));
  }
  return op;
}

GpuCase collective(Record& r) {
  CollectiveCase c;
  c.op = collective_op(r);
  c.dtype = r.dtype();
  c.bytes = r.whole("bytes", 1, kMaxBytes);
  c.ranks = r.count("ranks", kMaxGpus);
  c.nodes = r.count("nodes", kMaxGpus);
  if (r.good() && c.ranks < c.nodes) {
    r.fault(r.origin(),
            fmt::format("{} ranks on {} nodes; expected at least one on each", c.ranks, c.nodes));
  }
  c.algo = r.has("algo") ? r.text("algo") : "";
  c.proto = r.has("proto") ? r.text("proto") : "";
  r.get("algo", false);
  r.get("proto", false);
  return c;
}

GpuCase overlap(Record& r) {
  OverlapCase c;
  c.kernel = r.text("kernel");
  if (c.kernel == "gemm") {
    c.m = r.whole("m", 1, kMaxDimension);
    c.n = r.whole("n", 1, kMaxDimension);
    c.k = r.whole("k", 1, kMaxDimension);
  } else {
    if (!c.kernel.empty() &&
        std::find(kMemoryNames.begin(), kMemoryNames.end(), c.kernel) == kMemoryNames.end()) {
      r.fault(r.origin(),
              fmt::format("kernel is '{}'; expected gemm, {}", c.kernel, listed(kMemoryNames)));
    }
    c.bytes = r.whole("bytes", 1, kMaxBytes);
  }
  if (r.has("op") == r.has("direction")) {
    r.fault(r.origin(), "an overlap is beside a collective or a copy; expected op or direction");
  }
  if (r.has("op")) {
    c.op = collective_op(r);
    c.ranks = r.count("ranks", kMaxGpus);
    c.channels = static_cast<int>(r.whole_or("channels", 0, 1024));
  } else if (r.has("direction")) {
    c.direction = kDirectionNames[r.choice("direction", kDirectionNames)];
    c.ranks = static_cast<int>(r.whole_or("ranks", 0, kMaxGpus));
    c.channels = static_cast<int>(r.whole_or("channels", 0, 1024));
  }
  r.get("op", false);
  r.get("direction", false);
  c.other_bytes = r.whole("other_bytes", 1, kMaxBytes);
  return c;
}

GpuCase layer(Record& r) {
  LayerCase c;
  c.model = r.text("model");
  c.dtype = r.dtype();
  c.sequences = r.whole("sequences", 1, kMaxDimension);
  c.length = r.whole("length", 1, kMaxDimension);
  c.tensor = r.count("tensor", kMaxGpus);
  c.backward = r.flag("backward");
  return c;
}

}  // namespace

CaseReader case_reader(std::string_view record) {
  static const std::map<std::string_view, CaseReader> readers{
      {"gemm", gemm},     {"attention", attention},   {"memory", memory},   {"copy", copy},
      {"launch", launch}, {"collective", collective}, {"overlap", overlap}, {"layer", layer}};
  const auto at = readers.find(record);
  return at == readers.end() ? nullptr : at->second;
}

}  // namespace stepcast::interop
