// What kernels are, by their names: one table, of which the first line that fits a name counts. To
// know a kernel, add a line where no earlier one takes it.
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "stepcast/trace/trace.h"

namespace stepcast::trace {
namespace {

struct Line {
  std::array<std::string_view, 2> words;  // all occur in the name, which is in small letters
  Kind kind;
  std::string_view operation = {};
};

constexpr Line kLines[] = {
    // NCCL and RCCL: ncclDevKernel_AllReduce_Sum_bf16_RING_LL, ncclKernel_SendRecv_RING_SIMPLE_...
    {{"nccl", "allreduce"}, Kind::communication, "all_reduce"},
    {{"nccl", "allgather"}, Kind::communication, "all_gather"},
    {{"nccl", "reducescatter"}, Kind::communication, "reduce_scatter"},
    {{"nccl", "alltoall"}, Kind::communication, "all_to_all"},
    {{"nccl", "sendrecv"}, Kind::communication, "send_recv"},
    {{"nccl", "broadcast"}, Kind::communication, "broadcast"},
    {{"nccl", "onerank"}, Kind::communication, "one_rank"},
    {{"nccl", "reduce"}, Kind::communication, "reduce"},
    {{"ncclkernel"}, Kind::communication, "generic"},
    {{"nccldevkernel"}, Kind::communication, "generic"},
    {{"nccldev"}, Kind::communication, "generic"},
    {{"rccl"}, Kind::communication, "generic"},
    // DeepEP, under its own and its authors' name, and HybridEP. What prepares an exchange comes
    // first, since its names hold the exchange's: get_dispatch_layout counts the tokens of each
    // rank, notify_dispatch and cached_notify_combine tell them to the others and wait for theirs.
    // No operator of the model has these kernels, so they count with the exchange.
    {{"get_dispatch_layout"}, Kind::communication, "dispatch_layout"},
    {{"deep_ep::", "notify"}, Kind::communication, "notify"},
    {{"deep_ep::", "combine"}, Kind::communication, "combine"},
    {{"deep_ep::", "dispatch"}, Kind::communication, "dispatch"},
    {{"deep_ep::"}, Kind::communication, "expert"},
    {{"::ep::", "notify"}, Kind::communication, "notify"},
    {{"::ep::", "combine"}, Kind::communication, "combine"},
    {{"::ep::", "dispatch"}, Kind::communication, "dispatch"},
    {{"hybrid_ep", "combine"}, Kind::communication, "combine"},
    {{"hybrid_ep", "dispatch"}, Kind::communication, "dispatch"},
    // Others that move data between GPUs.
    {{"userbuffers"}, Kind::communication, "userbuffers"},
    {{"nvshmem"}, Kind::communication, "nvshmem"},
    {{"rocshmem"}, Kind::communication, "rocshmem"},
    {{"cross_device_reduce"}, Kind::communication, "all_reduce"},
    {{"oneshotallreduce"}, Kind::communication, "all_reduce"},
    {{"twoshotallreduce"}, Kind::communication, "all_reduce"},
    {{"multimem_", "all_reduce"}, Kind::communication, "all_reduce"},
    {{"multimem_", "all_gather"}, Kind::communication, "all_gather"},
    {{"one_shot_all_reduce"}, Kind::communication, "all_reduce"},
    {{"two_shot_all_reduce"}, Kind::communication, "all_reduce"},

    // Attention. Its helpers (sums over dO O, conversion of dQ) count with it.
    {{"flash_fwd"}, Kind::attention},
    {{"flash_bwd"}, Kind::attention},
    {{"flash::"}, Kind::attention},
    {{"flashattn"}, Kind::attention},
    {{"flash_attn"}, Kind::attention},
    {{"flash_attention"}, Kind::attention},
    {{"flashmla"}, Kind::attention},
    {{"fmha"}, Kind::attention},
    {{"sdpa"}, Kind::attention},
    {{"attn_fwd"}, Kind::attention},
    {{"attn_bwd"}, Kind::attention},
    {{"attention_kernel"}, Kind::attention},
    {{"attentionkernel"}, Kind::attention},
    {{"attentionbackward"}, Kind::attention},
    {{"attention_forward"}, Kind::attention},
    {{"attention_backward"}, Kind::attention},
    {{"triton_tem", "flex_attention"}, Kind::attention},

    // Grouped products of experts. Helpers within the same namespaces come first.
    {{"grouped_gemm", "::utils::transpose"}, Kind::layout},
    {{"grouped_gemm", "fill_tensormaps"}, Kind::layout},
    {{"grouped_gemm", "::m_grouped"}, Kind::grouped_gemm},
    {{"grouped_gemm", "::k_grouped"}, Kind::grouped_gemm},
    {{"grouped_gemm", "cuda::fp8_"}, Kind::gemm},  // the same library's dense products
    {{"deep_gemm", "gemmtype)1"}, Kind::grouped_gemm},
    {{"deep_gemm", "gemmtype)2"}, Kind::grouped_gemm},
    {{"deep_gemm", "grouped"}, Kind::grouped_gemm},
    {{"grouped_gemm"}, Kind::grouped_gemm},
    {{"groupedgemm"}, Kind::grouped_gemm},
    {{"gemmgrouped"}, Kind::grouped_gemm},
    {{"gemm_grouped"}, Kind::grouped_gemm},
    {{"groupproblemshape"}, Kind::grouped_gemm},
    {{"ptrarraytma"}, Kind::grouped_gemm},
    {{"grouped_mm"}, Kind::grouped_gemm},
    {{"moe_gemm"}, Kind::grouped_gemm},
    {{"moefcgemm"}, Kind::grouped_gemm},
    {{"fused_moe_kernel"}, Kind::grouped_gemm},

    // Convolutions, and the changes of layout around cuDNN's.
    {{"nchwtonhwc"}, Kind::layout},
    {{"nhwctonchw"}, Kind::layout},
    {{"cutlass_cudnn"}, Kind::convolution},
    {{"implicit_gemm"}, Kind::convolution},
    {{"implicitgemm"}, Kind::convolution},
    {{"implicit_convolve"}, Kind::convolution},
    {{"convolve"}, Kind::convolution},
    {{"winograd"}, Kind::convolution},
    {{"scudnn"}, Kind::convolution},
    {{"hcudnn"}, Kind::convolution},
    {{"cudnn::cnn"}, Kind::convolution},
    {{"cask_cudnn"}, Kind::convolution},
    {{"conv1d"}, Kind::convolution},
    {{"conv2d"}, Kind::convolution},
    {{"conv_depthwise"}, Kind::convolution},
    {{"miopen", "conv"}, Kind::convolution},

    // Products: cuBLAS and CUTLASS (ampere_sgemm, sm90_xmma_gemm, nvjet_), rocBLAS and hipBLASLt
    // (Cijk_), with the kernels that complete them.
    {{"nvjet"}, Kind::gemm},
    {{"cijk_"}, Kind::gemm},
    {{"splitkreduce"}, Kind::gemm},
    {{"splitk_reduce"}, Kind::gemm},
    {{"cublaslt"}, Kind::gemm},
    {{"epilogue::impl::globalkernel"}, Kind::gemm},
    {{"gemm"}, Kind::gemm},
    {{"gemv"}, Kind::gemm},
    {{"gemk1"}, Kind::gemm},
    {{"xmma"}, Kind::gemm},
    {{"matmul"}, Kind::gemm},
    {{"triton_mm"}, Kind::gemm},
    {{"triton_tem"}, Kind::gemm},
    {{"cublas"}, Kind::gemm},
    {{"cutlass"}, Kind::gemm},

    // Triton's by PyTorch's compiler, named by all operators that they fuse.
    {{"triton_"}, Kind::generated},

    // What memory bounds. Specific words first.
    {{"embedding"}, Kind::embedding},
    {{"pooled_embs"}, Kind::embedding},
    {{"multi_tensor_apply"}, Kind::optimizer},
    {{"fused_adam"}, Kind::optimizer},
    {{"fusedadam"}, Kind::optimizer},
    {{"adamw"}, Kind::optimizer},
    {{"lamb_"}, Kind::optimizer},
    {{"kernel_optimizer"}, Kind::optimizer},
    {{"koptimizer"}, Kind::optimizer},
    {{"layer_norm"}, Kind::norm},
    {{"layernorm"}, Kind::norm},
    {{"rms_norm"}, Kind::norm},
    {{"rmsnorm"}, Kind::norm},
    {{"batch_norm"}, Kind::norm},
    {{"batchnorm"}, Kind::norm},
    {{"group_norm"}, Kind::norm},
    {{"groupnorm"}, Kind::norm},
    {{"gammabeta"}, Kind::norm},
    {{"rowwisemoments"}, Kind::norm},
    {{"::bn_"}, Kind::norm},
    {{"ln_fwd"}, Kind::norm},
    {{"ln_bwd"}, Kind::norm},
    {{"ln_parallel_residual"}, Kind::norm},
    {{"softmax"}, Kind::softmax},
    {{"cross_entropy"}, Kind::softmax},
    {{"crossentropy"}, Kind::softmax},
    {{"nll_loss"}, Kind::softmax},
    {{"nllloss"}, Kind::softmax},
    {{"logsumexp"}, Kind::softmax},
    {{"swiglu"}, Kind::elementwise},
    {{"per_token_cast"}, Kind::cast},
    {{"per_channel_cast"}, Kind::cast},
    {{"cast_transpose"}, Kind::cast},
    {{"cast_back"}, Kind::cast},
    {{"cast_to"}, Kind::cast},
    {{"cast_fp8"}, Kind::cast},
    {{"cast_kernel"}, Kind::cast},
    {{"fp8_cast"}, Kind::cast},
    {{"quantize"}, Kind::cast},
    {{"quantise"}, Kind::cast},
    {{"amax"}, Kind::cast},
    {{"mxfp8"}, Kind::cast},
    {{"_to_hfp8"}, Kind::cast},
    {{"hfp8_to_"}, Kind::cast},
    {{"fp8rowwise"}, Kind::cast},
    {{"fp8_qparam"}, Kind::cast},
    {{"radixsort"}, Kind::indexing},
    {{"sort"}, Kind::indexing},
    {{"topk"}, Kind::indexing},
    {{"scatter"}, Kind::indexing},
    {{"gather"}, Kind::indexing},
    {{"devicescan"}, Kind::indexing},
    {{"scan"}, Kind::indexing},
    {{"deviceselect"}, Kind::indexing},
    {{"compact"}, Kind::indexing},
    {{"reducebykey"}, Kind::indexing},
    {{"runlength"}, Kind::indexing},
    {{"histogram"}, Kind::indexing},
    {{"bincount"}, Kind::indexing},
    {{"index"}, Kind::indexing},
    {{"indices"}, Kind::indexing},
    {{"nonzero"}, Kind::indexing},
    {{"unique"}, Kind::indexing},
    {{"permut"}, Kind::indexing},
    {{"permute_2d"}, Kind::indexing},
    {{"bucketize"}, Kind::indexing},
    {{"searchsorted"}, Kind::indexing},
    {{"expand_to_fused"}, Kind::indexing},
    {{"fused_mapping"}, Kind::indexing},
    {{"count_expert"}, Kind::indexing},
    {{"segment_sum"}, Kind::indexing},
    {{"catarray"}, Kind::layout},
    {{"transpose"}, Kind::layout},
    {{"copy"}, Kind::layout},
    {{"contiguous"}, Kind::layout},
    {{"fillfunctor"}, Kind::elementwise},
    {{"memset"}, Kind::elementwise},
    {{"reduce"}, Kind::reduction},
    {{"reduction"}, Kind::reduction},
    {{"_sum_"}, Kind::reduction},
    {{"elementwise"}, Kind::elementwise},
    {{"distribution_"}, Kind::elementwise},
    {{"dropout"}, Kind::elementwise},
    {{"rotary"}, Kind::elementwise},
    {{"rope_"}, Kind::elementwise},
    {{"gelu"}, Kind::elementwise},
    {{"silu"}, Kind::elementwise},
    {{"relu"}, Kind::elementwise},
    {{"activation"}, Kind::elementwise},
    {{"bias"}, Kind::elementwise},
    {{"fill"}, Kind::elementwise},
    {{"pool"}, Kind::reduction},
};

// Kernels that only carry another: what they do is in their first argument.
constexpr std::string_view kWrappers[] = {
    "cutlass::Kernel",
    "cutlass::Kernel2",
    "cutlass::device_kernel",
    "elementwise_kernel",
    "unrolled_elementwise_kernel",
    "vectorized_elementwise_kernel",
    "reduce_kernel",
    "multi_tensor_apply_kernel",
    "index_elementwise_kernel",
};

std::string small(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string demangled(std::string_view name) {
  std::string plain(name);
  if (!plain.starts_with("_Z")) {
    return plain;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(plain.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : plain;
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;) {
    text.erase(at, part.size());
  }
}

// "ampere::Thing" of "ampere::Thing<float>(int)".
std::string_view stem(std::string_view text) { return text.substr(0, text.find_first_of("<(")); }
std::string_view unqualified(std::string_view text) {
  const auto at = text.rfind("::");
  return at == text.npos ? text : text.substr(at + 2);
}

// The last part of a name, with the one before it where the last is as general as "GemmKernel".
std::string_view telling(std::string_view text) {
  constexpr std::size_t kGeneral = 12;
  const auto last = text.rfind("::");
  if (last == text.npos || text.size() - last - 2 > kGeneral) {
    return unqualified(text);
  }
  const auto before = text.rfind("::", last - 1);
  return last == 0 || before == text.npos ? text : text.substr(before + 2);
}

// What a wrapper carries: the first name after its '<' that says something.
std::string carried(std::string_view arguments) {
  constexpr std::string_view kSays[] = {"Functor", "_kernel", "Ops<",        "gemm",
                                        "Gemm",    "Flash",   "func_wrapper"};
  while (!arguments.empty()) {
    const auto end = arguments.find_first_of("<,()>");
    std::string_view word = arguments.substr(0, end);
    while (!word.empty() && word.front() == ' ') {
      word.remove_prefix(1);
    }
    // "Functor_add<float>": the first argument of a general functor says more still.
    const std::string_view name = unqualified(word);
    if (name != "gpu_kernel_impl" && name != "gpu_kernel_impl_nocast" &&
        std::any_of(std::begin(kSays), std::end(kSays), [&](std::string_view says) {
          return name.find(says) != name.npos || (says == "Ops<" && name.ends_with("Ops"));
        })) {
      if (!name.ends_with("AUnaryFunctor") && !name.ends_with("BUnaryFunctor") &&
          !name.ends_with("BinaryFunctor") && name != "func_wrapper_t") {
        return std::string(telling(word));
      }
    }
    if (end == arguments.npos) {
      break;
    }
    arguments.remove_prefix(end + 1);
  }
  return "";
}

std::string shown_name(const std::string& full) {
  std::string text = full;
  erase_all(text, "(anonymous namespace)::");
  erase_all(text, "<unnamed>::");
  if (text.starts_with("void ")) {
    text.erase(0, 5);
  }
  const std::string_view base = stem(text);
  std::string out(base);
  for (const std::string_view wrapper : kWrappers) {
    if (base == wrapper || unqualified(base) == wrapper ||
        (wrapper == "cutlass::Kernel" && base.starts_with("cutlass_cudnn"))) {
      const std::string inner = carried(std::string_view(text).substr(base.size()));
      if (inner.empty()) {
        return std::string(unqualified(base));
      }
      return wrapper.starts_with("cutlass") ? inner : std::string(unqualified(base)) + " " + inner;
    }
  }
  if (out.starts_with("at::native::")) {
    out.erase(0, 12);
  }
  return out.empty() ? text : out;
}

}  // namespace

KernelName kernel_name(std::string_view name) {
  KernelName out;
  const std::string full = demangled(name);
  std::string text = small(full);
  erase_all(text, "fbgemm");  // a library of sparse operators, few of which are products
  for (const Line& line : kLines) {
    if (std::all_of(line.words.begin(), line.words.end(),
                    [&](std::string_view word) { return text.find(word) != std::string::npos; })) {
      out.kind = line.kind;
      out.operation = line.operation;
      break;
    }
  }
  out.shown = shown_name(full);
  return out;
}

KernelName copy_name(std::string_view name) {
  constexpr std::pair<std::string_view, Kind> kDirections[] = {
      {"HtoD", Kind::copy_to_device},       {"HostToDevice", Kind::copy_to_device},
      {"DtoH", Kind::copy_to_host},         {"DeviceToHost", Kind::copy_to_host},
      {"DtoD", Kind::copy_on_device},       {"DeviceToDevice", Kind::copy_on_device},
      {"PtoP", Kind::copy_between_devices}, {"Peer", Kind::copy_between_devices},
  };
  KernelName out{Kind::copy_other, "", std::string(name)};
  if (name.starts_with("Memset")) {
    out.kind = Kind::memset;
    return out;
  }
  for (const auto& [word, kind] : kDirections) {
    if (name.find(word) != name.npos) {
      out.kind = kind;
      break;
    }
  }
  return out;
}

}  // namespace stepcast::trace
