// Reads published tables of kernels. A faulty row is an error; a row of a kernel that is not
// modelled is left out and reported.
#include "stepcast/interop/gpu_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu_names.h"
#include "stepcast/text/cells.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

namespace fs = std::filesystem;
using text::Cells;
using text::number;
using text::plain;

constexpr double kLongestKernelMicroseconds = 1e9;
constexpr double kFastest = 1e6;  // TFLOP/s
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
// flash-attention counts 4 b h s^2 d forward, half of it causal, and 2.5 times as much backward
// (benchmarks/benchmark_flash_attention.py).
constexpr double kBackwardFlops = 2.5;

bool is_true(const std::string& text) {
  const std::string word = plain(text);
  return word == "1" || word == "true" || word == "yes";
}

class TableReader {
 public:
  explicit TableReader(const fs::path& file) : table_(text::read_csv(file)) {
    out_.file = table_.file;
    out_.source = source_beside(file);
  }

  KernelTable run() {
    const auto take = taker();
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      cells_.emplace(table_, row, faults_);
      if (has("gpu")) {
        if (cell("gpu").empty()) {
          fault("gpu is empty; expected its name");
        } else {
          out_.gpus.try_emplace(cell("gpu"), line());
        }
      }
      (this->*take)();
    }
    if (table_.rows.empty()) {
      faults_.push_back({{out_.file, 1, 1}, "there are no rows; expected one measurement each"});
    }
    if (!faults_.empty()) {
      throw InputError(std::move(faults_));
    }
    return std::move(out_);
  }

 private:
  using Taker = void (TableReader::*)();

  bool has(const char* column) const { return table_.column(column) >= 0; }
  const std::string& cell(const char* column) const { return cells_->text(column); }
  std::string cell_or(const char* column, const char* otherwise) const {
    return has(column) ? cell(column) : otherwise;
  }
  int line() const { return cells_->line(); }

  // The kind of table, by its columns.
  Taker taker() {
    const auto all = [&](std::initializer_list<const char*> columns) {
      return std::all_of(columns.begin(), columns.end(), [&](const char* c) { return has(c); });
    };
    if (all({"m", "n", "k"})) {
      need({"dtype", "time_us"});
      return &TableReader::gemm;
    }
    if (all({"num_tokens", "experts"})) {
      need({"dtype", "hidden", "inter", "topk", "time_us"});
      return &TableReader::grouped;
    }
    if (has("seqlen") || (has("length") && has("head_dim"))) {
      need({"kernel", "heads", "head_dim", has("sequences") ? "sequences" : "batch"});
      if (!has("time_us") && !has("fwd_tflops")) {
        refuse("there is no measured column; expected time_us or fwd_tflops");
      }
      return &TableReader::attention;
    }
    if (has("op") && (has("bytes_moved") || has("bytes") || all({"tokens", "hidden"}))) {
      need({"time_us"});
      return &TableReader::memory;
    }
    refuse(fmt::format(
        "no table of kernels: the columns are {}; expected m, n, k and time_us (GEMM), seqlen, "
        "heads, head_dim and time_us (attention), or op, bytes_moved and time_us (memory-bound)",
        fmt::join(table_.columns, ", ")));
  }

  [[noreturn]] void refuse(std::string message) const {
    throw InputError(Fault{{out_.file, 1, 1}, std::move(message)});
  }
  void need(std::initializer_list<const char*> columns) const {
    for (const char* c : columns) {
      if (!has(c)) {
        refuse(fmt::format("column '{}' is missing; expected {}", c, fmt::join(columns, ", ")));
      }
    }
  }

  std::int64_t whole(const char* column, std::int64_t most = Cells::kLargestSize) {
    return cells_->size(column, most);
  }
  double positive(const char* column, double most) { return cells_->positive(column, most); }
  double seconds() { return positive("time_us", kLongestKernelMicroseconds) * 1e-6; }

  void fault(std::string message) { cells_->fault(std::move(message)); }
  bool good() const { return cells_->good(); }
  void leave_out(const std::string& why) {
    for (LeftOut& l : out_.left_out) {
      if (l.why == why) {
        ++l.rows;
        return;
      }
    }
    out_.left_out.push_back({why, 1, line()});
  }
  void add(const std::string& library, GpuCase what, double time) {
    GpuMeasurement m;
    m.what = std::move(what);
    m.time = {time, time, time, 1};
    m.line = line();
    out_.measurements[library].push_back(std::move(m));
  }

  // The library of a kernel named in a table's `kernel` column.
  static std::string library_of(const std::string& kernel) {
    const std::string word = plain(kernel);
    const auto within = [&](const char* part) { return word.find(part) != std::string::npos; };
    // vLLM without quantisation calls torch's linear, which is cuBLAS.
    if (word == "torchnnfunctionallinear" || word == "vllm-default" || within("cublas")) {
      return "cublas";
    }
    if (word == "torch-flow") {
      return "trtllm";
    }
    // TensorRT-LLM calls DeepGEMM for block-scaled fp8, and its tables name that.
    if (word == "deepgemm") {
      return "trtllm";
    }
    for (const char* name : {"trtllm", "sglang"}) {
      if (word == name) {
        return name;
      }
    }
    for (const char* part : {"vllm", "cutlass", "deepgemm", "flashinfer", "triton"}) {
      if (within(part)) {
        return "vllm";
      }
    }
    return "";
  }

  std::optional<job::DType> dtype() {
    const auto known = dtype_named(cell("dtype"));
    if (!known) {
      leave_out(fmt::format("the format {} is not modelled", cell("dtype")));
    }
    return known;
  }

  void gemm() {
    GemmCase c;
    c.m = whole("m");
    c.n = whole("n");
    c.k = whole("k");
    c.batch = has("batch") ? whole("batch") : 1;
    const double time = seconds();
    if (has("layout")) {
      const std::string layout = plain(cell("layout"));
      if (layout == "nn") {
        c.layout = GemmLayout::input_grad;
      } else if (layout == "nt") {
        // The table has outputs x inputs; the record's shape is inputs x outputs.
        c.layout = GemmLayout::weight_grad;
        std::swap(c.m, c.n);
      } else if (layout != "tn") {
        fault(fmt::format("layout is '{}'; expected TN, NN or NT", cell("layout")));
      }
    }
    const bool fp32_out = dtype_named(cell_or("out_dtype", "")) == job::DType::fp32;
    c.accumulate_fp32 = fp32_out && is_true(cell_or("accumulate", "false"));
    const auto type = good() ? dtype() : std::nullopt;
    if (!type) {
      return;
    }
    if (c.layout == GemmLayout::weight_grad && !c.accumulate_fp32 &&
        is_true(cell_or("accumulate", "false"))) {
      leave_out("accumulation in 16 bit is not modelled");
      return;
    }
    c.dtype = *type;
    add(library_of(cell_or("kernel", "")), c, time);
  }

  // A fused layer of experts: up and gate in one grouped GEMM, down in another, and the kernels
  // between. Each GEMM gets the part of the time of its share of the FLOPs, which is also that of
  // the weights' bytes.
  void grouped() {
    const std::int64_t tokens = whole("num_tokens");
    const std::int64_t hidden = whole("hidden");
    std::int64_t inter = whole("inter");
    const std::int64_t topk = whole("topk");
    const std::int64_t experts = whole("experts");
    const std::int64_t tensor = has("tp") ? whole("tp") : 1;
    const std::int64_t expert = has("ep") ? whole("ep") : 1;
    const double time = seconds();
    const auto type = good() ? dtype() : std::nullopt;
    if (!type) {
      return;
    }
    if (has("distribution") && cell("distribution") != "balanced") {
      leave_out("experts of unequal load");
      return;
    }
    const std::int64_t rows = tokens * topk / experts;
    if (expert > 1) {
      // Few rows remain on the GPU, while sorting and summing are work on all tokens.
      leave_out("experts spread over GPUs: the time includes work on the tokens of all GPUs");
      return;
    }
    if (inter % tensor != 0 || rows < 1 || experts < 2) {
      leave_out(
          "the experts' size does not divide, an expert has no tokens, or there is only one "
          "expert");
      return;
    }
    inter /= tensor;
    GemmCase c;
    c.dtype = *type;
    c.groups = static_cast<int>(experts);
    c.m = rows;
    c.n = 2 * inter;
    c.k = hidden;
    const std::string library = library_of(cell_or("kernel", ""));
    add(library, c, time * 2 / 3);
    c.n = hidden;
    c.k = inter;
    add(library, c, time / 3);
  }

  void attention() {
    const char* batch = has("sequences") ? "sequences" : "batch";
    const char* length = has("seqlen") ? "seqlen" : "length";
    const auto open = [&](const char* column) {
      return cell(column) == "?" || cell(column).empty();
    };
    const auto kernel = attention_named(cell("kernel"));
    const auto type = has("dtype") ? dtype_named(cell("dtype")) : std::optional(job::DType::bf16);
    std::string why;
    if (!kernel) {
      why = fmt::format("the kernel {} is not modelled", cell("kernel"));
    } else if (!type || job::bytes_per_element(*type) != 2) {
      why = fmt::format("attention in {} is not modelled", cell("dtype"));
    } else if (has("kv_dtype") && dtype_named(cell("kv_dtype")) != type) {
      why = fmt::format("keys and values in {} are not modelled", cell("kv_dtype"));
    } else if (has("window") && cell("window") != "0") {
      why = "sliding windows are not modelled";
    } else if (open(length) || open(batch) || open("heads")) {
      why = "batch, length or heads are not stated";
    }
    if (!why.empty()) {
      leave_out(why);
      return;
    }
    AttentionCase c;
    c.kernel = to_string(*kernel);
    c.dtype = *type;
    c.sequences = whole(batch);
    c.length = whole(length);
    constexpr std::int64_t kMaxHeads = 1 << 20;
    c.head_dim = static_cast<int>(whole("head_dim", 1 << 16));
    // "2048/d": the number of heads that makes a width of 2048.
    const std::string& heads = cell("heads");
    if (heads.ends_with("/d")) {
      const auto width = number<std::int64_t>(heads.substr(0, heads.size() - 2));
      if (!width || *width < c.head_dim || *width > kMaxHeads) {
        fault(fmt::format("heads is '{}'; expected a whole number, or such as 2048/d", heads));
        return;
      }
      c.heads = static_cast<int>(*width / c.head_dim);
    } else {
      c.heads = static_cast<int>(whole("heads", kMaxHeads));
    }
    c.kv_heads = has("kv_heads") ? static_cast<int>(whole("kv_heads", kMaxHeads)) : c.heads;
    const std::string causal = cell_or("causal", "1");
    if (causal != "0" && causal != "1") {
      fault(fmt::format("causal is '{}'; expected 0 or 1", causal));
    }
    c.causal = causal == "1";
    if (good() && c.heads % c.kv_heads != 0) {
      fault(fmt::format("{} heads do not share {} kv_heads evenly", c.heads, c.kv_heads));
    }
    if (has("time_us")) {
      const double time = seconds();
      if (good()) {
        add("", c, time);
      }
      return;
    }
    const double s = static_cast<double>(c.length);
    const double forward = 4.0 * static_cast<double>(c.sequences) * c.heads * s * s * c.head_dim *
                           (c.causal ? 0.5 : 1.0);
    for (const bool backward : {false, true}) {
      const char* column = backward ? "bwd_tflops" : "fwd_tflops";
      if (has(column) && !cell(column).empty()) {
        const double rate = positive(column, kFastest) * 1e12;
        if (good()) {
          c.backward = backward;
          add("", c, forward * (backward ? kBackwardFlops : 1.0) / rate);
        }
      }
    }
  }

  void memory() {
    MemoryCase c;
    c.op = memory_operator_named(cell("op"));
    const bool known =
        std::find(kMemoryNames.begin(), kMemoryNames.end(), c.op) != kMemoryNames.end();
    const double time = seconds();
    const auto type = has("dtype") ? dtype_named(cell("dtype")) : std::optional(job::DType::bf16);
    if (has("bytes_moved")) {
      c.bytes = whole("bytes_moved", kMaxBytes);
    } else if (has("bytes")) {
      c.bytes = whole("bytes", kMaxBytes);
    } else {
      const std::int64_t elements = whole("tokens", 1 << 24) * whole("hidden", 1 << 24);
      // An addition reads two tensors and writes one. A norm may be one kernel or the several of
      // eager PyTorch (Vidur's take the time of six tensors).
      constexpr double kOfAddition = 3;
      if (good() && c.op != "add") {
        leave_out(fmt::format("{}: the table does not state its bytes", cell("op")));
        return;
      }
      c.bytes = static_cast<std::int64_t>(kOfAddition * static_cast<double>(elements) *
                                          job::bytes_per_element(type.value_or(job::DType::bf16)));
    }
    if (!good()) {
      return;
    }
    if (!known) {
      leave_out(fmt::format("the operator {} is not modelled", cell("op")));
      return;
    }
    if (!type) {
      leave_out(fmt::format("the format {} is not modelled", cell("dtype")));
      return;
    }
    c.dtype = *type;
    add("", c, time);
  }

  static std::string source_beside(const fs::path& path) {
    fs::path yaml = path;
    yaml.replace_extension(".yaml");
    std::error_code error;
    if (yaml == path || !fs::is_regular_file(yaml, error)) {
      return "";
    }
    const text::Value doc = text::read_yaml(yaml);
    // A calibration file beside the points is not a description of them.
    if (doc.kind != text::Value::Kind::map || doc.find("kind") == nullptr ||
        doc.find("devices") == nullptr) {
      const text::Value* v = doc.kind == text::Value::Kind::map ? doc.find("source") : nullptr;
      return v != nullptr && v->kind == text::Value::Kind::scalar ? v->scalar : "";
    }
    return "";
  }

  text::Table table_;
  KernelTable out_;
  std::vector<Fault> faults_;
  std::optional<Cells> cells_;  // of the present row
};

}  // namespace

KernelTable read_kernel_csv(const fs::path& file) { return TableReader(file).run(); }

std::string memory_operator_named(std::string_view name) {
  static const std::map<std::string, const char*> known{{"ln", "norm"},
                                                        {"input-layernorm", "norm"},
                                                        {"post-attention-layernorm", "norm"},
                                                        {"gelu", "activation"},
                                                        {"relu", "activation"},
                                                        {"tanh", "activation"},
                                                        {"addu", "add"},
                                                        {"mul", "add"},
                                                        {"mulu", "add"},
                                                        {"div", "add"},
                                                        {"divu", "add"},
                                                        {"elementwise", "add"}};
  std::string word = plain(name);
  if (const auto at = known.find(word); at != known.end()) {
    return at->second;
  }
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

std::optional<job::DType> dtype_named(std::string_view name) {
  using job::DType;
  static const std::map<std::string, DType> known{
      {"bf16", DType::bf16},   {"bfloat16", DType::bf16},       {"fp16", DType::fp16},
      {"half", DType::fp16},   {"float16", DType::fp16},        {"fp32", DType::fp32},
      {"float", DType::fp32},  {"float32", DType::fp32},        {"tf32", DType::tf32},
      {"fp8", DType::fp8},     {"fp8-block", DType::fp8_block}, {"float8-e4m3fn", DType::fp8},
      {"mxfp8", DType::mxfp8}, {"nvfp4", DType::nvfp4},         {"mxfp4", DType::mxfp4},
      {"int8", DType::int8}};
  const auto found = known.find(plain(name));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

std::optional<job::AttentionKernel> attention_named(std::string_view name) {
  using job::AttentionKernel;
  // The Blackwell curves named cudnn are those of prefill in FlashInfer's TensorRT-LLM kernels
  // (calibration/sources.yaml).
  static const std::map<std::string, AttentionKernel> known{
      {"unfused", AttentionKernel::unfused},
      {"fa1", AttentionKernel::flash1},
      {"flash1", AttentionKernel::flash1},
      {"fa2", AttentionKernel::flash2},
      {"flash2", AttentionKernel::flash2},
      {"vllm-flash-attn", AttentionKernel::flash2},
      {"fa3", AttentionKernel::flash3},
      {"flash3", AttentionKernel::flash3},
      {"vllm-flash-attn-fa3", AttentionKernel::flash3},
      {"cudnn", AttentionKernel::cudnn},
      {"vllm-flashinfer-trtllmprefill", AttentionKernel::cudnn}};
  const auto found = known.find(plain(name));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace stepcast::interop
