#include "stepcast/validate/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "stepcast/base/interval.h"
#include "stepcast/config/config.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/published.h"

namespace stepcast::validate {
namespace {

using result::ValidationRow;

constexpr std::size_t kMostFaults = 20;
constexpr double kLongestMicroseconds = 1e9;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr const char* kMetric = "time";

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c == '-' || c == '_' || c == ' ') {
      out += '-';
    }
  }
  return out;
}

// The `gpu` column against the device asked for. A name that configs/ does not know is believed to
// be it where the file has no other.
class Owner {
 public:
  Owner(const job::Device& device, const text::Table& table, int column) {
    std::set<std::string> names;
    for (const auto& row : table.rows) {
      names.insert(row[static_cast<std::size_t>(column)]);
    }
    const auto known = config::list("devices");
    for (const std::string& name : names) {
      ours_[name] = names.size() == 1;
      for (const std::string& stem : spellings(name)) {
        if (std::find(known.begin(), known.end(), stem) != known.end()) {
          ours_[name] = config::device(stem).name == device.name;
          break;
        }
      }
    }
  }
  bool ours(const std::string& name) const { return ours_.at(name); }

 private:
  // "NVIDIA H100 SXM" and "a100-sxm-80g" as configs/ would write them.
  static std::vector<std::string> spellings(const std::string& name) {
    std::string base = plain(name);
    if (base.starts_with("nvidia-")) {
      base.erase(0, 7);
    }
    std::vector<std::string> out{base};
    for (const std::string_view unit : {"gb", "g"}) {
      if (base.ends_with(unit)) {
        out.push_back(base.substr(0, base.size() - unit.size()));
      }
    }
    return out;
  }

  std::map<std::string, bool> ours_;
};

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// The cells of one row by column name; what is wrong is collected.
class Cells {
 public:
  Cells(const text::Table& table, std::size_t row, std::vector<Fault>& faults)
      : table_(table), row_(row), faults_(faults) {}

  bool has(const char* column) const { return table_.column(column) >= 0; }
  const std::string& text(const char* column) const {
    return table_.rows[row_][static_cast<std::size_t>(table_.column(column))];
  }
  std::int64_t size(const char* column) {
    const auto value = number<std::int64_t>(text(column));
    if (!value || *value < 1 || *value > kLargestSize) {
      fault(fmt::format("{} is '{}'; expected a whole number from 1", column, text(column)));
      return 1;
    }
    return *value;
  }
  double positive(const char* column, double most) {
    const auto value = number<double>(text(column));
    if (!value || !(*value > 0) || *value > most) {
      fault(fmt::format("{} is '{}'; expected a positive number", column, text(column)));
      return 1;
    }
    return *value;
  }
  void fault(std::string message) {
    good_ = false;
    if (faults_.size() < kMostFaults) {
      faults_.push_back({{table_.file, static_cast<int>(row_) + 2, 1}, std::move(message)});
    }
  }
  bool good() const { return good_; }

 private:
  const text::Table& table_;
  std::size_t row_;
  std::vector<Fault>& faults_;
  bool good_ = true;
};

const char* attention_name(job::AttentionKernel kernel) {
  constexpr const char* kNames[] = {"unfused", "flash1", "flash2", "flash3", "cudnn"};
  return kNames[static_cast<int>(kernel)];
}

class Comparison {
 public:
  Comparison(const job::Device& device, const std::string& library,
             const std::filesystem::path& calibration, const text::Table& table)
      : device_(device),
        kernels_(device, library, calibration, {}, curves_),
        table_(table),
        owner_(device, table, table.column("gpu")) {}

  result::Validation run(bool attention) {
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      Cells cells(table_, i, faults_);
      attention ? attention_row(cells) : gemm_row(cells);
    }
    if (!faults_.empty()) {
      throw InputError(std::move(faults_));
    }
    if (out_.rows.empty()) {
      throw InputError(
          Fault{{table_.file, 1, 1}, "there are no rows; expected one measurement each"});
    }
    out_.summary = summarize(out_.rows);
    std::vector<ValidationRow> named = out_.rows;
    for (std::size_t i = 0; i < named.size(); ++i) {
      named[i].metric = classes_[i];
    }
    if (std::set<std::string>(classes_.begin(), classes_.end()).size() > 1) {
      for (auto& summary : summarize(named)) {
        out_.summary.push_back(std::move(summary));
      }
    }
    return std::move(out_);
  }

 private:
  void add(const std::string& id, const std::string& shape_class, double measured,
           const std::optional<cost::Priced>& priced, const std::string& why_not) {
    ValidationRow row;
    row.id = id;
    row.source = std::filesystem::path(table_.file).stem().string();
    row.file = table_.file;
    row.metric = kMetric;
    row.published = measured;
    if (priced) {
      row.predicted = to_seconds(priced->time);
      const double half = kDeviations90 * curves_.curves()[priced->curve].residual * row.predicted;
      row.low = std::max(0.0, row.predicted - half);
      row.high = row.predicted + half;
      row.error = (row.predicted - measured) / measured;
    } else {
      row.status = "skipped";
      row.reason = why_not;
    }
    out_.rows.push_back(std::move(row));
    classes_.push_back(shape_class);
  }

  void gemm_row(Cells& cells) {
    const model::Gemm shape{cells.size("m"), cells.size("n"), cells.size("k"), cells.size("batch")};
    const double seconds = cells.positive("time_us", kLongestMicroseconds) * 1e-6;
    if (!cells.good()) {
      return;
    }
    const std::string& name = cells.text("dtype");
    const auto dtype = dtype_named(name);
    const std::string shown = dtype ? job::to_string(*dtype) : name;
    const std::string id =
        fmt::format("{} {}{}x{}x{}", shown, shape.batch > 1 ? fmt::format("{}x", shape.batch) : "",
                    shape.m, shape.n, shape.k);
    // Where launches and waves stop mattering; the fits are judged on the same side.
    constexpr double kLarge = 1e9;
    const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                         static_cast<double>(shape.k) * static_cast<double>(shape.batch);
    const std::string shape_class =
        fmt::format("{} gemm {} 1 GFLOP", shown, flops < kLarge ? "below" : "from");
    std::string why;
    if (!owner_.ours(cells.text("gpu"))) {
      why = fmt::format("measured on {}", cells.text("gpu"));
    } else if (!dtype) {
      why = fmt::format("the format {} is not modelled", name);
    }
    std::optional<cost::Priced> priced;
    if (why.empty()) {
      priced = kernels_.gemm(shape, *dtype, cost::Layout::forward);
    }
    add(id, shape_class, seconds, priced, why);
  }

  void attention_row(Cells& cells) {
    const std::string& kernel_name = cells.text("kernel");
    const std::string& dtype_name = cells.text("dtype");
    const auto kernel = attention_named(kernel_name);
    const auto dtype = dtype_named(dtype_name);
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
      add(id, "not modelled", 0, std::nullopt, why);
      return;
    }
    model::AttentionShape shape;
    shape.sequences = cells.size("batch");
    shape.query_length = shape.key_length = cells.size("seqlen");
    shape.qk_dim = shape.v_dim = static_cast<int>(cells.size("head_dim"));
    // "2048/d": as many heads as make a width of 2048.
    const std::string& heads = cells.text("heads");
    if (heads.ends_with("/d")) {
      const auto width = number<std::int64_t>(heads.substr(0, heads.size() - 2));
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
      add(id,
          fmt::format("{} {} {} {} tokens", job::to_string(*dtype), attention_name(*kernel), way,
                      shape.query_length < kLong ? "below 4096" : "from 4096"),
          seconds,
          // vLLM's rows hold writing its paged cache.
          kernel_name.starts_with("vllm") && !backward
              ? kernels_.paged_attention(shape, *kernel, *dtype)
              : kernels_.attention(shape, *kernel, *dtype, backward),
          "");
    };
    if (cells.has("time_us")) {
      const double seconds = cells.positive("time_us", kLongestMicroseconds) * 1e-6;
      if (cells.good()) {
        one(false, seconds);
      }
      return;
    }
    // Published rates count 4 b h s^2 d forward, half of it causal, and 2.5 times as much backward
    // (flash-attention: benchmarks/benchmark_flash_attention.py).
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

  job::Device device_;
  cost::CurveTable curves_;
  cost::Kernels kernels_;
  const text::Table& table_;
  Owner owner_;
  std::vector<Fault> faults_;
  std::vector<std::string> classes_;  // of each row
  result::Validation out_;
};

}  // namespace

std::optional<job::DType> dtype_named(std::string_view name) {
  using job::DType;
  static const std::map<std::string, DType> known{
      {"bf16", DType::bf16},   {"bfloat16", DType::bf16},       {"fp16", DType::fp16},
      {"half", DType::fp16},   {"float16", DType::fp16},        {"fp32", DType::fp32},
      {"float", DType::fp32},  {"float32", DType::fp32},        {"tf32", DType::tf32},
      {"fp8", DType::fp8},     {"fp8-block", DType::fp8_block}, {"float8-e4m3fn", DType::fp8},
      {"mxfp8", DType::mxfp8}, {"nvfp4", DType::nvfp4},         {"int8", DType::int8}};
  const auto found = known.find(plain(name));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

std::optional<job::AttentionKernel> attention_named(std::string_view name) {
  using job::AttentionKernel;
  // Prefill in FlashInfer's TensorRT-LLM kernels is what the Blackwell curves call cudnn
  // (calibration/sources.yaml).
  static const std::map<std::string, AttentionKernel> known{
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

result::Validation compare_kernels(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& data_directory,
                                   const std::filesystem::path& csv) {
  const text::Table table = text::read_csv(csv);
  const bool attention = table.column("seqlen") >= 0;
  const std::vector<const char*> needed =
      attention ? std::vector<const char*>{"gpu",    "kernel", "dtype",    "batch",
                                           "seqlen", "heads",  "head_dim", "causal"}
                : std::vector<const char*>{"gpu", "dtype", "m", "n", "k", "batch", "time_us"};
  for (const char* column : needed) {
    if (table.column(column) < 0) {
      throw InputError(Fault{
          {table.file, 1, 1},
          fmt::format("column '{}' is missing; expected {}", column, fmt::join(needed, ", "))});
    }
  }
  if (attention && table.column("time_us") < 0 && table.column("fwd_tflops") < 0) {
    throw InputError(
        Fault{{table.file, 1, 1}, "there is no measured column; expected time_us or fwd_tflops"});
  }
  return Comparison(device, library, data_directory / "calibration", table).run(attention);
}

}  // namespace stepcast::validate
