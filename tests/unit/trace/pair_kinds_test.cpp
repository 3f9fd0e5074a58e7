// Kernels of a pair of DeepSeek-V3's chunks under DualPipe: sums by kind are those of the raw
// events, and what runs of the experts' exchange beside the backward pass is said.
//
// Names, counts and sums are those of the profile "training" in deepseek-ai/profile-data (read Nov
// 2026), of all kernels that take 0.5 ms or more, and of DeepEP's get_dispatch_layout. The profile
// itself may not be copied, so its kernels are set out here on its two streams, in an order of our
// own: products and attention on one, DeepEP's on the other, layer by layer.
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "catch.hpp"
#include "made_trace.h"
#include "profiled.h"
#include "stepcast/text/json_stream.h"
#include "stepcast/trace/profile.h"

using namespace stepcast;
using test::profiled;

namespace {

struct Row {
  const char* name;
  std::int64_t count, microseconds;  // of all of them
  trace::Kind kind;
  const char* operation = "";
  bool backward = false;  // launched within the backward pass
};

using trace::Kind;
constexpr Row kRows[] = {
    {"void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*)", 8,
     49448, Kind::communication, "combine"},
    {"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_dptp128c_acc::GemmKernel>(int)", 60,
     32756, Kind::gemm, "", true},
    {"void dpsk::ep::internode::cached_notify<false>(int, int)", 12, 23610, Kind::communication,
     "notify"},
    {"void "
     "cutlass::device_kernel<dpsk::grouped_gemm::cuda::m_grouped_fp8_ptp128c::GemmKernel>(int)",
     16, 22926, Kind::grouped_gemm},
    {"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>(int)", 64,
     18838, Kind::gemm},
    {"void dpsk::ep::internode::dispatch<false, 8, false, 8>(int4*, float*)", 4, 17383,
     Kind::communication, "dispatch"},
    {"void cutlass::device_kernel<flash::FlashAttnBwd<flash::CollectiveMainloopBwd<2>>>(int)", 4,
     15115, Kind::attention, "", true},
    {"void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)", 4, 13621,
     Kind::communication, "dispatch"},
    {"void dpsk::ep::internode::notify_dispatch<false, 8>(int const*)", 4, 8968,
     Kind::communication, "notify"},
    {"void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16, 128, false, 128, false>(int)",
     76, 5914, Kind::cast},
    {"void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128, 12, 2>, true>(int)", 4,
     4948, Kind::attention},
    {"void cuda::reduce_fused_impl<__nv_bfloat16, false, false>(int4 const*)", 8, 2644,
     Kind::reduction},
    {"void cuda::per_channel_cast_and_transpose<256, 128, true, true, true, false, true>(int)", 8,
     2311, Kind::cast, "", true},
    {"void cuda::per_channel_cast_and_transpose<256, 128, false, false, false, false, false>(int)",
     40, 1893, Kind::cast, "", true},
    {"void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<__nv_bfloat16, 7168u>>(int)", 16,
     1845, Kind::norm},
    {"_copy_tensor_kernel", 16, 1575, Kind::layout},
    {"rotary_kernel", 24, 1512, Kind::elementwise},
    {"cuda::expand_to_fused_with_scales_impl(int4 const*)", 8, 1459, Kind::indexing},
    {"void cuda::swiglu_forward_backward_with_weight_impl<__nv_bfloat16>(int)", 4, 1327,
     Kind::elementwise, "", true},
    {"void cuda::batched_transpose<512, 128, 1, 1>(unsigned char const*)", 36, 1317, Kind::layout},
    {"void layer_norm::ln_bwd_kernel<layer_norm::Kernel_traits<__nv_bfloat16, 7168u>>(int)", 8,
     1173, Kind::norm, "", true},
    {"void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<64>>>>(int)", 4,
     1025, Kind::attention, "", true},
    {"void cuda::per_channel_cast_and_transpose<256, 128, false, false, true, false, false>(int)",
     8, 1016, Kind::cast, "", true},
    {"void cuda::cast_back_impl<__nv_fp8x2_e4m3>(void const*)", 12, 966, Kind::cast},
    {"void "
     "cutlass::device_kernel<flash::FlashAttnBwdPostprocessConvertdQ<cute::tuple<cute::C<64>>>>("
     "int)",
     4, 877, Kind::attention, "", true},
    {"void at::native::elementwise_kernel<128, 4, "
     "at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(int)>>(int)",
     28, 812, Kind::layout},
    {"void cuda::per_token_cast_to_fp8_with_fp8_special_fmt<__nv_bfloat16, 128, 3>(int)", 4, 742,
     Kind::cast},
    {"void cuda::get_fused_mapping<512>(long const*)", 4, 683, Kind::indexing},
    {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)", 8, 564,
     Kind::indexing},
    {"void cuda::per_token_cast_back_special_fmt_impl<3>(void const*)", 4, 562, Kind::cast},
    {"void "
     "cuda::swiglu_forward_with_weight_and_per_token_cast_to_fp8_with_channels_impl<__nv_bfloat16, "
     "true>(int)",
     4, 557, Kind::elementwise},
    {"void cuda::per_channel_cast_and_transpose<256, 128, false, false, false, false, true>(int)",
     8, 542, Kind::cast, "", true},
    {"void dpsk::grouped_gemm::cuda::utils::transpose<512, 128, 4, 4>(unsigned char const*)", 64,
     501, Kind::layout},
    {"void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)", 4, 410,
     Kind::communication, "dispatch_layout"},
};
constexpr int kLayers = 4;
constexpr int kCompute = 7, kExchange = 27;

struct Interval {
  std::int64_t from = 0, to = 0;
};
struct Pair {
  test::MadeTrace made;
  std::vector<Interval> backward,
      dispatch;  // kernels of the backward pass that compute; dispatches
};

Pair pair_of_chunks() {
  Pair out;
  std::int64_t begin = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    std::int64_t compute = begin + 100, exchange = begin + 100;
    out.made.events.push_back(fmt::format(
        R"x({{"ph": "X", "cat": "user_annotation", "name": "attn(B)", "pid": 1, "tid": 1, "ts": {}, "dur": 10}})x",
        1'000'000 + begin + 20));
    for (const Row& row : kRows) {
      const bool exchanges = row.kind == Kind::communication;
      std::int64_t& at = exchanges ? exchange : compute;
      const std::int64_t here = row.count / kLayers;
      for (std::int64_t i = layer * here; i < (layer + 1) * here; ++i) {
        const std::int64_t length =
            row.microseconds / row.count + (i < row.microseconds % row.count ? 1 : 0);
        out.made.kernel(row.name, static_cast<double>(at), static_cast<double>(length),
                        exchanges ? kExchange : kCompute,
                        static_cast<double>(begin + (row.backward ? 25 : 15)));
        if (row.backward && !exchanges) {
          out.backward.push_back({at, at + length});
        } else if (std::string_view(row.operation) == "dispatch") {
          out.dispatch.push_back({at, at + length});
        }
        at += length;
      }
    }
    begin = std::max(compute, exchange);
  }
  out.made.step(1, 0, static_cast<double>(begin));
  return out;
}

constexpr std::int64_t kPicoseconds = 1'000'000;  // of a microsecond

}  // namespace

TEST_CASE("kinds of a pair of DeepSeek-V3's chunks are the sums over its raw events") {
  if (!text::have_json_stream()) {
    return;
  }
  const Pair pair = pair_of_chunks();
  // The raw events by the table's own line for their name; what the profile sums up in
  // microseconds.
  std::map<std::string, Kind> kind_of_name;
  std::map<std::string, std::int64_t> stated, stated_operations;
  for (const Row& row : kRows) {
    kind_of_name[row.name] = row.kind;
    stated[to_string(row.kind)] += row.microseconds;
    stated_operations[row.operation] += row.microseconds;
  }
  std::map<std::string, std::int64_t> raw;
  const auto parsed = nlohmann::json::parse(pair.made.text());
  for (const auto& event : parsed["traceEvents"]) {
    if (event.value("cat", "") == "kernel") {
      raw[to_string(kind_of_name.at(event["name"]))] += event["dur"].get<std::int64_t>();
    }
  }
  const result::TraceRank rank = profiled(pair.made);
  REQUIRE(rank.devices.size() == 1);
  std::map<std::string, std::int64_t> found;
  for (const result::TraceKind& kind : rank.devices[0].kinds) {
    found[kind.kind] = kind.time.count() / kPicoseconds;
  }
  CHECK(found == raw);
  CHECK(found == stated);
  CHECK(found["attention"] == 21965);
  CHECK(found["gemm"] == 51594);
  CHECK(found["grouped_gemm"] == 22926);
  CHECK(found["communication"] == 113440);
  for (const result::TraceCommunication& row : rank.communication) {
    CHECK(row.time.count() / kPicoseconds == stated_operations[row.operation]);
    stated_operations.erase(row.operation);
  }
  stated_operations.erase("");
  CHECK(stated_operations.empty());
}

TEST_CASE("what of a dispatch runs beside the backward pass is told apart") {
  if (!text::have_json_stream()) {
    return;
  }
  const Pair pair = pair_of_chunks();
  std::int64_t beside = 0;
  for (const Interval& d : pair.dispatch) {
    for (const Interval& b : pair.backward) {
      beside += std::max<std::int64_t>(0, std::min(d.to, b.to) - std::max(d.from, b.from));
    }
  }
  CHECK(beside > 0);
  const result::TraceRank rank = profiled(pair.made);
  const auto dispatch = std::find_if(rank.communication.begin(), rank.communication.end(),
                                     [](const auto& row) { return row.operation == "dispatch"; });
  REQUIRE(dispatch != rank.communication.end());
  CHECK(dispatch->beside_backward.count() / kPicoseconds == beside);
  CHECK(dispatch->beside_forward + dispatch->beside_backward + dispatch->exposed == dispatch->time);
}
