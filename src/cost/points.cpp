#include "points.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <initializer_list>

#include "stepcast/text/document.h"

namespace stepcast::cost {
namespace {

// Times of one shape that differ by more than this factor are a fault.
constexpr double kContradiction = 2;
constexpr double kLongestSeconds = 1e3;
constexpr std::size_t kMaxFaults = 20;

// Rows of a table by named columns: the first is text, the others positive numbers, the last a time
// in microseconds.
class Rows {
 public:
  Rows(const std::filesystem::path& file, std::initializer_list<const char*> columns)
      : table_(text::read_csv(file)) {
    for (const char* name : columns) {
      const int column = table_.column(name);
      if (column < 0) {
        throw InputError(Fault{{table_.file, 1, 0}, fmt::format("column '{}' is missing", name)});
      }
      columns_.push_back(column);
    }
  }

  // Calls use(key, numbers) for every row; throws when rows were at fault.
  template <class Use>
  void each(Use use) {
    std::map<std::pair<std::string, std::vector<double>>, double> seen;
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      const auto& row = table_.rows[r];
      std::vector<double> numbers;
      for (std::size_t i = 1; i < columns_.size(); ++i) {
        numbers.push_back(number(row[columns_[i]]));
        if (!(numbers.back() > 0)) {
          fault(r, fmt::format("'{}' is not a positive number", row[columns_[i]]));
        }
      }
      if (!(numbers.back() > 0 && numbers.back() < kLongestSeconds * 1e6)) {
        continue;
      }
      const double time = numbers.back();
      const std::string& key = row[columns_[0]];
      std::vector<double> shape(numbers.begin(), numbers.end() - 1);
      const auto [it, is_new] = seen.try_emplace({key, shape}, time);
      if (!is_new && shape.size() > 1 &&
          std::abs(std::log(it->second / time)) > std::log(kContradiction)) {
        fault(r, fmt::format("the shape has {} us in an earlier row and {} us here", it->second,
                             time));
      }
      use(key, numbers);
    }
    if (!faults_.empty()) {
      throw InputError(faults_);
    }
  }

 private:
  static double number(const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && next == end && std::isfinite(value) ? value : 0;
  }

  void fault(std::size_t row, std::string message) {
    if (faults_.size() < kMaxFaults) {
      faults_.push_back({{table_.file, static_cast<int>(row) + 2, 0}, std::move(message)});
    }
  }

  text::Table table_;
  std::vector<int> columns_;
  std::vector<Fault> faults_;
};

std::int64_t rounded(double x) { return std::llround(x); }

}  // namespace

std::map<std::string, std::vector<GemmPoint>> read_gemm_points(const std::filesystem::path& file) {
  std::map<std::string, std::vector<GemmPoint>> points;
  Rows(file, {"dtype", "m", "n", "k", "batch", "time_us"})
      .each([&](const auto& key, const auto& x) {
        points[key].push_back(
            {rounded(x[0]), rounded(x[1]), rounded(x[2]), rounded(x[3]), x[4] * 1e-6});
      });
  return points;
}

std::map<std::string, std::vector<ExpertPoint>> read_expert_points(
    const std::filesystem::path& file) {
  std::map<std::string, std::vector<ExpertPoint>> points;
  Rows(file,
       {"dtype", "tokens", "hidden", "inter", "topk", "experts", "tensor", "parallel", "time_us"})
      .each([&](const auto& key, const auto& x) {
        ExpertLayer l{rounded(x[0]), rounded(x[1]), rounded(x[2])};
        l.topk = static_cast<int>(rounded(x[3]));
        l.experts = static_cast<int>(rounded(x[4]));
        l.tensor = static_cast<int>(rounded(x[5]));
        l.parallel = static_cast<int>(rounded(x[6]));
        points[key].push_back({l, x[7] * 1e-6});
      });
  return points;
}

std::map<std::string, std::vector<AttentionPoint>> read_attention_points(
    const std::filesystem::path& file, std::int64_t shortest, bool causal) {
  std::map<std::string, std::vector<AttentionPoint>> points;
  Rows(file, {"kernel", "sequences", "length", "heads", "kv_heads", "head_dim", "time_us"})
      .each([&](const auto& key, const auto& x) {
        AttentionPoint p;
        p.shape.sequences = rounded(x[0]);
        p.shape.query_length = p.shape.key_length = rounded(x[1]);
        p.shape.heads = static_cast<int>(rounded(x[2]));
        p.shape.kv_heads = static_cast<int>(rounded(x[3]));
        p.shape.qk_dim = p.shape.v_dim = static_cast<int>(rounded(x[4]));
        p.shape.causal = causal;
        p.seconds = x[5] * 1e-6;
        if (p.shape.query_length >= shortest) {
          points[key].push_back(p);
        }
      });
  return points;
}

std::map<std::string, std::vector<MemoryPoint>> read_memory_points(
    const std::filesystem::path& file) {
  std::map<std::string, std::vector<MemoryPoint>> points;
  if (text::read_csv(file).column("row") < 0) {
    Rows(file, {"op", "bytes", "time_us"}).each([&](const auto& key, const auto& x) {
      points[key].push_back({x[0], x[1] * 1e-6});
    });
    return points;
  }
  Rows(file, {"op", "bytes", "row", "time_us"}).each([&](const auto& key, const auto& x) {
    points[key].push_back({x[0], x[2] * 1e-6, x[1] > 1 ? x[1] : 0});
  });
  return points;
}

std::map<std::string, std::vector<MemoryPoint>> read_copy_points(
    const std::filesystem::path& file) {
  std::map<std::string, std::vector<MemoryPoint>> points;
  Rows(file, {"kind", "bytes", "time_us"}).each([&](const auto& key, const auto& x) {
    points[key].push_back({x[0], x[1] * 1e-6});
  });
  return points;
}

}  // namespace stepcast::cost
