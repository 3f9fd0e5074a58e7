#include "stepcast/measured/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "kernel_price.h"
#include "kernel_rows.h"
#include "owner.h"
#include "stepcast/config/config.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/interop/gpu_csv.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/kernels.h"

namespace stepcast::validate {
namespace {

constexpr double kLongestMicroseconds = 1e9;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

// Tables of inference frameworks time short bursts, and their `kernel` column names the library.
// All other tables measure the requested library, in bursts or in long runs.
struct Method {
  std::string library;  // "": the requested library
  bool burst = false;   // false: the table does not say
};

Method method_of(const std::string& kernel, bool library_given) {
  std::string word = text::plain(kernel);
  const auto within = [&](const char* part) { return word.find(part) != std::string::npos; };
  std::string library;
  if (word == "torchnnfunctionallinear" || word == "vllm-default") {
    library = "cublas";  // vLLM without quantisation calls torch's linear function
  } else if (word == "torch-flow" || word == "trtllm") {
    library = "trtllm";
  } else if (within("scaledmm") || within("nvfp4linear") || word.starts_with("vllm-")) {
    library = "vllm";
  } else {
    return {};
  }
  return {library_given ? "" : library, true};
}

enum class TableKind { gemm, attention, experts, memory };

class TableComparison {
 public:
  TableComparison(const job::Device& device, const std::string& library,
                  const std::filesystem::path& calibration, const std::vector<std::string>& own,
                  const text::Table& table)
      : prices_(device, library.empty() ? "cublas" : library, calibration, own),
        library_given_(!library.empty()),
        table_(table),
        owner_(device, table, table.column("gpu")),
        out_(table.file) {}

  result::Validation run(TableKind kind) {
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      text::Cells cells(table_, i, faults_);
      switch (kind) {
        case TableKind::gemm:
          gemm_row(cells);
          break;
        case TableKind::attention:
          attention_row(cells);
          break;
        case TableKind::experts:
          experts_row(cells);
          break;
        case TableKind::memory:
          memory_row(cells);
          break;
      }
    }
    if (!faults_.empty()) {
      throw InputError(std::move(faults_));
    }
    return out_.finish();
  }

 private:
  std::string not_ours(text::Cells& cells, const std::optional<job::DType>& dtype) const {
    if (!owner_.ours(cells.text("gpu"))) {
      return fmt::format("measured on {}", cells.text("gpu"));
    }
    return dtype ? "" : fmt::format("the format {} is not modelled", cells.text("dtype"));
  }
  Method method(text::Cells& cells) const {
    return cells.has("kernel") ? method_of(cells.text("kernel"), library_given_) : Method{};
  }

  // A row of a fused expert layer.
  void experts_row(text::Cells& cells) {
    cost::ExpertLayer layer{cells.size("num_tokens"), cells.size("hidden"), cells.size("inter")};
    layer.topk = static_cast<int>(cells.size("topk"));
    layer.experts = static_cast<int>(cells.size("experts"));
    layer.tensor = cells.has("tp") ? static_cast<int>(cells.size("tp")) : 1;
    layer.parallel = cells.has("ep") ? static_cast<int>(cells.size("ep")) : 1;
    const double seconds = cells.positive("time_us", kLongestMicroseconds) * 1e-6;
    if (!cells.good()) {
      return;
    }
    const auto dtype = interop::dtype_named(cells.text("dtype"));
    const std::string name = dtype ? job::to_string(*dtype) : cells.text("dtype");
    std::string why = not_ours(cells, dtype);
    if (why.empty() && cells.has("distribution") && cells.text("distribution") != "balanced") {
      why = "experts of unequal load";
    }
    const double rows = static_cast<double>(layer.tokens) * layer.topk / layer.experts;
    constexpr double kMany = 128;
    const Shown shown{
        fmt::format("{} experts t{} h{} f{} top{} of {} tp{} ep{}", name, layer.tokens,
                    layer.hidden, layer.inter, layer.topk, layer.experts, layer.tensor,
                    layer.parallel),
        {fmt::format("{} experts", name),
         fmt::format("{} experts {} 128 rows each", name, rows < kMany ? "below" : "from")}};
    std::optional<Price> price;
    if (why.empty()) {
      price = prices_.experts(layer, *dtype, method(cells).library);
    }
    out_.add(shown, seconds, price, why);
  }

  void memory_row(text::Cells& cells) {
    const double seconds = cells.positive("time_us", kLongestMicroseconds) * 1e-6;
    const bool stated = cells.has("bytes_moved");
    const std::int64_t elements =
        stated ? 0
               : std::min(cells.size("tokens"), text::Cells::kLargestSize) * cells.size("hidden");
    std::int64_t bytes = stated ? cells.size("bytes_moved", kMaxBytes) : 0;
    if (!cells.good()) {
      return;
    }
    const auto dtype = interop::dtype_named(cells.text("dtype"));
    const std::string op = interop::memory_operator_named(cells.text("op"));
    std::string why = not_ours(cells, dtype);
    if (why.empty() && !measured::memory_op_named(op)) {
      why = fmt::format("the operator {} is not modelled", cells.text("op"));
    }
    if (why.empty() && !stated) {
      // One tensor is read and one written; an addition reads two.
      const int tensors = op == "norm" ? 2 : op == "add" ? 3 : 0;
      bytes = static_cast<std::int64_t>(static_cast<double>(tensors * elements) *
                                        job::bytes_per_element(*dtype));
      if (tensors == 0) {
        why = "the table does not state its bytes";
      }
    }
    interop::MemoryCase what;
    what.op = op;
    what.bytes = bytes;
    Shown shown = validate::shown(what);
    shown.id = fmt::format("{} {} {} bytes", cells.text("dtype"), cells.text("op"), bytes);
    std::optional<Price> price;
    if (why.empty()) {
      price = prices_.memory(op, bytes, cells.has("row_length") ? cells.size("row_length") : 0);
    }
    out_.add(shown, seconds, price, why);
  }

  void gemm_row(text::Cells& cells) {
    const model::Gemm shape{cells.size("m"), cells.size("n"), cells.size("k"), cells.size("batch")};
    const double seconds = cells.positive("time_us", kLongestMicroseconds) * 1e-6;
    std::string way;
    auto layout = cost::Layout::forward;
    if (cells.has("layout")) {
      const std::string& name = cells.text("layout");
      if (name == "NN") {
        layout = cost::Layout::input_grad;
        way = "input gradient";
      } else if (name == "NT") {
        layout = cost::Layout::weight_grad;
        way = "weight gradient";
      } else if (name != "TN") {
        cells.fault(fmt::format("layout is '{}'; expected TN, NN or NT", name));
      }
    }
    if (!cells.good()) {
      return;
    }
    const std::string& name = cells.text("dtype");
    const auto dtype = interop::dtype_named(name);
    const std::string why = not_ours(cells, dtype);
    std::optional<Price> price;
    std::optional<Price> burst;
    if (why.empty()) {
      const Method how = method(cells);
      const bool accumulate = layout == cost::Layout::weight_grad && cells.has("out_dtype") &&
                              interop::dtype_named(cells.text("out_dtype")) == job::DType::fp32;
      cost::GemmQuery query{.shape = shape,
                            .dtype = *dtype,
                            .layout = layout,
                            .accumulate_fp32 = accumulate,
                            .operands_cast = !how.burst,
                            .pace = how.burst ? cost::Pace::burst : cost::Pace::sustained};
      price = prices_.gemm(query, how.library);
      if (!how.burst) {
        query.pace = cost::Pace::burst;
        burst = prices_.gemm(query, how.library);
      }
    }
    out_.add(shown_gemm(dtype ? job::to_string(*dtype) : name, shape, way), seconds, price, why);
    if (burst) {
      constexpr double kLarge = 1e10;  // FLOPs from which the power limit can have an effect
      out_.or_burst(*burst, 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                                    static_cast<double>(shape.k) *
                                    static_cast<double>(shape.batch) >=
                                kLarge);
    }
  }

  void attention_row(text::Cells& cells) {
    const std::string& kernel_name = cells.text("kernel");
    const std::string& dtype_name = cells.text("dtype");
    const auto kernel = interop::attention_named(kernel_name);
    const auto dtype = interop::dtype_named(dtype_name);
    std::string why;
    if (!owner_.ours(cells.text("gpu"))) {
      why = fmt::format("measured on {}", cells.text("gpu"));
    } else if (!kernel) {
      why = fmt::format("the kernel {} is not modelled", kernel_name);
    } else if (!dtype || job::bytes_per_element(*dtype) < 2) {
      why = fmt::format("attention in {} is not modelled", dtype_name);
    } else if (cells.has("window") && cells.text("window") != "0") {
      why = "sliding windows are not modelled";
    } else if (cells.text("seqlen") == "?" || cells.text("seqlen").empty()) {
      why = "the sequence length is not stated";
    } else if (cells.text("heads") == "?" || cells.text("heads").empty() ||
               cells.text("batch") == "?" || cells.text("batch").empty()) {
      why = "batch or heads are not stated";
    }
    if (!why.empty()) {
      const std::string id =
          fmt::format("{} {} b{} s{} h{} d{}", dtype_name, kernel_name, cells.text("batch"),
                      cells.text("seqlen"), cells.text("heads"), cells.text("head_dim"));
      out_.add({id, {}}, 0, std::nullopt, why);
      return;
    }
    model::AttentionShape shape;
    shape.sequences = cells.size("batch");
    shape.query_length = shape.key_length = cells.size("seqlen");
    shape.qk_dim = shape.v_dim = static_cast<int>(cells.size("head_dim"));
    // "2048/d" means as many heads as give a width of 2048.
    const std::string& heads = cells.text("heads");
    if (heads.ends_with("/d")) {
      const auto width = text::number<std::int64_t>(heads.substr(0, heads.size() - 2));
      if (!width || *width < shape.qk_dim) {
        cells.fault(
            fmt::format("heads is '{}'; expected a whole number, or such as 2048/d", heads));
        return;
      }
      shape.heads = static_cast<int>(*width / shape.qk_dim);
    } else {
      shape.heads = static_cast<int>(cells.size("heads"));
    }
    shape.kv_heads = cells.has("kv_heads") ? static_cast<int>(cells.size("kv_heads")) : shape.heads;
    const std::string& causal = cells.text("causal");
    if (causal != "0" && causal != "1") {
      cells.fault(fmt::format("causal is '{}'; expected 0 or 1", causal));
    }
    shape.causal = causal == "1";
    if (!cells.good()) {
      return;
    }
    const auto one = [&](bool backward, double seconds) {
      const std::string way = backward ? "backward" : "forward";
      const std::string id =
          fmt::format("{} {} {} b{} s{} h{}/{} d{}{}", job::to_string(*dtype), kernel_name, way,
                      shape.sequences, shape.query_length, shape.heads, shape.kv_heads,
                      shape.qk_dim, shape.causal ? " causal" : "");
      constexpr std::int64_t kLong = 4096;
      out_.add({id,
                {fmt::format("{} {} {} {} tokens", to_string(*dtype), to_string(*kernel), way,
                             shape.query_length < kLong ? "below 4096" : "from 4096")}},
               seconds,
               // The times of vLLM's rows include writing its paged cache.
               prices_.attention({.shape = shape,
                                  .kernel = *kernel,
                                  .dtype = *dtype,
                                  .backward = backward,
                                  .paged_cache = kernel_name.starts_with("vllm")}),
               "");
    };
    if (cells.has("time_us")) {
      const double seconds = cells.positive("time_us", kLongestMicroseconds) * 1e-6;
      if (cells.good()) {
        one(false, seconds);
      }
      return;
    }
    // The published rates count 4 b h s^2 d FLOPs for the forward pass, half of that if causal, and
    // 2.5 times as much for the backward pass (flash-attention:
    // benchmarks/benchmark_flash_attention.py).
    const double s = static_cast<double>(shape.query_length);
    const double forward = 4.0 * static_cast<double>(shape.sequences) * shape.heads * s * s *
                           shape.qk_dim * (shape.causal ? 0.5 : 1.0);
    constexpr double kFastest = 1e6;  // TFLOP/s
    for (const bool backward : {false, true}) {
      const char* column = backward ? "bwd_tflops" : "fwd_tflops";
      if (cells.has(column) && !cells.text(column).empty()) {
        const double rate = cells.positive(column, kFastest) * 1e12;
        if (cells.good()) {
          one(backward, forward * (backward ? 2.5 : 1.0) / rate);
        }
      }
    }
  }

  KernelPrices prices_;
  bool library_given_;
  const text::Table& table_;
  Owner owner_;
  std::vector<Fault> faults_;
  Rows out_;
};

bool starts_as_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char first = 0;
  while (in.get(first) && std::isspace(static_cast<unsigned char>(first)) != 0) {
  }
  return in && first == '{';
}

}  // namespace

result::Validation compare_kernels(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& data_directory,
                                   const std::filesystem::path& csv,
                                   const std::vector<std::string>& own) {
  const auto calibration = data_directory / "calibration";
  if (starts_as_json(csv)) {
    return compare_records(device, library, calibration, own, csv);
  }
  const text::Table table = text::read_csv(csv);
  const auto has = [&](const char* column) { return table.column(column) >= 0; };
  const TableKind kind = has("seqlen")                         ? TableKind::attention
                         : has("num_tokens") && has("experts") ? TableKind::experts
                         : has("op") && !has("m")              ? TableKind::memory
                                                               : TableKind::gemm;
  std::vector<const char*> needed;
  switch (kind) {
    case TableKind::attention:
      needed = {"gpu", "kernel", "dtype", "batch", "seqlen", "heads", "head_dim", "causal"};
      break;
    case TableKind::experts:
      needed = {"gpu", "dtype", "num_tokens", "hidden", "inter", "topk", "experts", "time_us"};
      break;
    case TableKind::memory:
      needed = {"gpu", "op", "dtype", "time_us"};
      break;
    case TableKind::gemm:
      needed = {"gpu", "dtype", "m", "n", "k", "batch", "time_us"};
      break;
  }
  if (kind == TableKind::memory && !has("bytes_moved")) {
    needed.insert(needed.end(), {"tokens", "hidden"});
  }
  for (const char* column : needed) {
    if (!has(column)) {
      throw InputError(Fault{
          {table.file, 1, 1},
          fmt::format("column '{}' is missing; expected {}", column, fmt::join(needed, ", "))});
    }
  }
  if (kind == TableKind::attention && !has("time_us") && !has("fwd_tflops")) {
    throw InputError(
        Fault{{table.file, 1, 1}, "there is no measured column; expected time_us or fwd_tflops"});
  }
  return TableComparison(device, library, calibration, own, table).run(kind);
}

}  // namespace stepcast::validate
