// Reading and profiling one trace of two gigabytes: bytes of text a second, and the peak of
// resident memory (README.md has figures).
//
//     bench_profile --benchmark_filter=plain     # alone: the peak is that of the process
#include "stepcast/trace/profile.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace stepcast;

constexpr std::int64_t kBytes = 2'000'000'000;

// Events in the proportions of a real step: operators, calls of the runtime, flows, a kernel. Times
// and identities go on.
std::string launch(std::int64_t i) {
  const double ts = 4458676000000.0 + 9.0 * static_cast<double>(i);
  return fmt::format(
      R"(  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 4515, "tid": 4515,
    "ts": {0:.3f}, "dur": 7.301,
    "args": {{
      "External id": {1},"Record function id": {1}, "Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16", "c10::BFloat16", ""], "Input Strides": [[8192, 1], [8192, 1], []], "Input Dims": [[4096, 8192], [28672, 8192], []], "Ev Idx": {1}
    }}
  }},
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4515, "tid": 4515,
    "ts": {0:.3f}, "dur": 6.101,
    "args": {{
      "External id": {1},"Record function id": {1}, "Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[8192, 1], [1, 8192]], "Input Dims": [[4096, 8192], [8192, 28672]], "Ev Idx": {1}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaEventQuery", "pid": 4515, "tid": 4515,
    "ts": {2:.3f}, "dur": 0.501,
    "args": {{
      "External id": {1}, "cbid": 138, "correlation": {3}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4515, "tid": 4515,
    "ts": {2:.3f}, "dur": 3.101,
    "args": {{
      "External id": {1}, "cbid": 211, "correlation": {1}
    }}
  }},
  {{
    "ph": "s", "id": {1}, "pid": 4515, "tid": 4515, "ts": {2:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", "pid": 0, "tid": 7,
    "ts": {4:.3f}, "dur": 8.512,
    "args": {{
      "External id": {1}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {1}, "registers per thread": 168, "shared memory": 213184, "blocks per SM": 1.0, "warps per SM": 12.0, "grid": [132, 1, 1], "block": [384, 1, 1], "est. achieved occupancy %": 19
    }}
  }},
  {{
    "ph": "f", "id": {1}, "pid": 0, "tid": 7, "ts": {4:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }})",
      ts, i, ts + 1.1, i + 1'000'000'000, ts + 40.5);
}

// A file that is made once and removed at the end.
class Made {
 public:
  explicit Made(bool compressed)
      : path(std::filesystem::temp_directory_path() /
             (compressed ? "stepcast-bench.json.gz" : "stepcast-bench.json")) {
    gzFile file = ::gzopen(path.c_str(), compressed ? "wb6" : "wbT");
    std::string text = "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n";
    for (std::int64_t i = 0; bytes < kBytes; ++i) {
      text += (i > 0 ? ",\n" : "") + launch(i);
      if (text.size() > (1U << 20U)) {
        write(file, text);
      }
    }
    text += "\n]}\n";
    write(file, text);
    ::gzclose(file);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  std::filesystem::path path;
  std::int64_t bytes = 0;

 private:
  void write(gzFile file, std::string& text) {
    if (::gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == 0) {
      std::abort();
    }
    bytes += static_cast<std::int64_t>(text.size());
    text.clear();
  }
};

void profile(benchmark::State& state, bool compressed) {
  const Made made(compressed);
  for (auto _ : state) {
    benchmark::DoNotOptimize(trace::profile_files({made.path}));
  }
  state.SetBytesProcessed(state.iterations() * made.bytes);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) * 1024e-6;
}
BENCHMARK_CAPTURE(profile, plain, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(profile, gzip, true)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
