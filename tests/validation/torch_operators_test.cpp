// Operators that PyTorch runs kernel by kernel, against those measured by themselves
// (calibration/*/torch-operators.csv).
#include <algorithm>
#include <cmath>
#include <regex>

#include "../unit/cost_kernels/devices.h"
#include "catch.hpp"
#include "stepcast/cost/kernels.h"
#include "stepcast/model/pieces.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using namespace stepcast::test;

namespace {

// Of sizes such as "tokens=4096 width=4096".
std::int64_t size_of(const std::string& sizes, const std::string& name) {
  std::smatch found;
  REQUIRE(std::regex_search(sizes, found, std::regex(name + "=([0-9]+)")));
  return std::stoll(found[1]);
}

// A norm or a rotation as HuggingFace's Python has it.
model::Operator in_python(model::Piece piece, const std::string& sizes) {
  job::Model m;
  m.norm = job::Norm::rms;
  m.hidden = piece == model::Piece::norm ? size_of(sizes, "width") : 128;
  m.heads = piece == model::Piece::norm ? 1 : static_cast<int>(size_of(sizes, "heads"));
  m.kv_heads = 0;  // the queries alone
  m.head_dim = 128;
  model::Shard shard;
  shard.sequence_length = size_of(sizes, "tokens");
  model::Style style;
  style.fused_norm = style.fused_rotary = false;
  return model::build_piece(piece, m, shard, style).operators.front();
}

double seconds_of(const cost::Kernels& kernels, const model::Operator& op, bool backward) {
  const auto kind = cost::MemoryOp::elementwise;
  const Bytes moved = backward ? op.backward_moved : op.forward_moved;
  const int all = backward ? op.backward_kernels : op.forward_kernels;
  const int launches = op.kind == model::OpKind::rotary ? all / 2 : all;  // of the queries alone
  const model::SingleElements& singles = backward ? op.backward_singles : op.forward_singles;
  return to_seconds(
      kernels.memory_operator(kind, moved, launches, backward).time +
      kernels.single_elements(kind, singles.elements, Bytes(singles.moved), backward));
}

}  // namespace

TEST_CASE(
    "FlashAttention-2 lasts as long as on an H100, and an H200 that no fit saw, within 10 %") {
  int compared = 0;
  for (const auto& [device, folder] : {std::pair{h100(), "h100-sxm"}, {h200(), "h200-sxm"}}) {
    cost::CurveTable curves;
    const cost::Kernels kernels(device, "cublas", kCalibration, {}, curves);
    const text::Table table = text::read_csv(kCalibration / folder / "torch-operators.csv");
    for (const auto& row : table.rows) {
      const std::string& sizes = row[table.column("sizes")];
      if (row[table.column("operator")] != "attention flash") {
        continue;
      }
      cost::AttentionQuery query;
      query.backward = row[table.column("direction")] == "backward";
      query.shape.sequences = size_of(sizes, "batch");
      query.shape.heads = static_cast<int>(size_of(sizes, "heads"));
      query.shape.kv_heads = static_cast<int>(size_of(sizes, "kv_heads"));
      query.shape.query_length = query.shape.key_length = size_of(sizes, "length");
      query.shape.qk_dim = query.shape.v_dim = static_cast<int>(size_of(sizes, "width"));
      query.shape.causal = sizes.ends_with("True");
      const double forecast = to_seconds(kernels.attention(query).time);
      INFO(folder << " " << sizes << " " << row[table.column("direction")]);
      CHECK(forecast / (1e-6 * std::stod(row[table.column("time_us")])) == Approx(1).margin(0.1));
      ++compared;
    }
  }
  CHECK(compared == 52);
}

TEST_CASE("Norms and rotations in Python last as long as on an H100 and an H200, within 15 %") {
  int compared = 0;
  for (const auto& [device, folder] : {std::pair{h100(), "h100-sxm"}, {h200(), "h200-sxm"}}) {
    cost::CurveTable curves;
    const cost::Kernels kernels(device, "cublas", kCalibration, {}, curves);
    const text::Table table = text::read_csv(kCalibration / folder / "torch-operators.csv");
    for (const auto& row : table.rows) {
      const std::string& name = row[table.column("operator")];
      const std::string& sizes = row[table.column("sizes")];
      const bool norm = name == "rms norm of transformers";
      if ((!norm && name != "rotary of transformers") || sizes.ends_with("float32")) {
        continue;
      }
      const model::Operator op = in_python(norm ? model::Piece::norm : model::Piece::rotary, sizes);
      const double forecast = seconds_of(kernels, op, row[table.column("direction")] == "backward");
      INFO(folder << " " << name << " " << sizes << " " << row[table.column("direction")]);
      CHECK(forecast / (1e-6 * std::stod(row[table.column("time_us")])) == Approx(1).margin(0.15));
      ++compared;
    }
  }
  CHECK(compared == 24);
}

TEST_CASE("Grouped products last as long as PyTorch's on an H100 and an H200, within 18 %") {
  int compared = 0;
  std::vector<double> ratios;
  for (const auto& [device, folder] : {std::pair{h100(), "h100-sxm"}, {h200(), "h200-sxm"}}) {
    cost::CurveTable curves;
    const cost::Kernels kernels(device, "cublas", kCalibration, {}, curves);
    const text::Table table = text::read_csv(kCalibration / folder / "torch-operators.csv");
    for (const auto& row : table.rows) {
      if (row[table.column("operator")] != "grouped_mm") {
        continue;
      }
      const std::string& sizes = row[table.column("sizes")];
      const int experts = static_cast<int>(size_of(sizes, "experts"));
      const std::int64_t rows = size_of(sizes, "rows") / experts;
      const std::int64_t k = size_of(sizes, " k");
      const std::int64_t n = size_of(sizes, " n");
      const auto priced = [&](const model::Gemm& shape, cost::Layout layout) {
        cost::GemmQuery each;
        each.shape = shape;
        each.layout = layout;
        return to_seconds(kernels.grouped_gemm(each, experts).time);
      };
      const double forecast = row[table.column("direction")] == "forward"
                                  ? priced({rows, n, k, 1}, cost::Layout::forward)
                                  : priced({rows, k, n, 1}, cost::Layout::input_grad) +
                                        priced({k, n, rows, 1}, cost::Layout::weight_grad);
      INFO(folder << " " << sizes << " " << row[table.column("direction")]);
      ratios.push_back(forecast / (1e-6 * std::stod(row[table.column("time_us")])));
      CHECK(ratios.back() == Approx(1).margin(0.18));
      ++compared;
    }
  }
  CHECK(compared == 24);
  std::sort(ratios.begin(), ratios.end());
  CHECK(ratios[ratios.size() / 2] == Approx(1).margin(0.05));
}

// Maximum, difference, exponential, sum and quotient; back, one product. The difference, the
// quotient and the product have an operand that is broadcast along rows.
TEST_CASE("A loss over a part of the vocabulary lasts as long as on A100 and GH200, within 17 %") {
  const text::Table table = text::read_csv(std::filesystem::path(STEPCAST_SOURCE_DIR) /
                                           "tests/validation/kernels/vocab-parallel-loss.csv");
  int compared = 0;
  for (const auto& device : {a100(), test::device("gh200", 9.0, 132, 989, 67, 4000, 50)}) {
    cost::CurveTable curves;
    const cost::Kernels kernels(device, "cublas", kCalibration, {}, curves);
    for (const auto& row : table.rows) {
      if (row[table.column("device")] != device.name) {
        continue;
      }
      const std::int64_t logits = std::stoll(row[table.column("logits")]);
      const bool backward = row[table.column("direction")] == "backward";
      constexpr std::int64_t kHalf = 2;  // bytes of fp16
      const Bytes moved((backward ? 2 : 1 + 2 + 2 + 1 + 2) * kHalf * logits);
      const std::int64_t singles = (backward ? 1 : 2) * logits;
      const auto kind = cost::MemoryOp::elementwise;
      const double forecast =
          to_seconds(kernels.memory_operator(kind, moved, backward ? 1 : 5, backward).time +
                     kernels.single_elements(kind, singles, Bytes(2 * kHalf * singles), backward));
      INFO(device.name << " " << logits << " " << row[table.column("direction")]);
      CHECK(forecast / (1e-6 * std::stod(row[table.column("time_us")])) == Approx(1).margin(0.17));
      ++compared;
    }
  }
  CHECK(compared == 34);
}

// FlashAttention-2 computes tiles whose width is a multiple of 32; forward on the same chip.
TEST_CASE(
    "FlashAttention-2 on H100 takes other head dimensions as GH200 does, mostly within 15 %") {
  cost::CurveTable curves;
  const cost::Kernels kernels(h100(), "cublas", kCalibration, {}, curves);
  const text::Table table = text::read_csv(kCalibration / "gh200" / "attention-full-points.csv");
  std::vector<double> ratios;
  for (const auto& row : table.rows) {
    const auto number = [&](const char* name) { return std::stoi(row[table.column(name)]); };
    const int width = number("head_dim");
    const bool few = number("sequences") * number("heads") < 32;  // tiles for every multiprocessor
    if (width == 64 || width == 128 || width == 256 || number("length") < 2048 || few) {
      continue;
    }
    cost::AttentionQuery query;
    query.shape.sequences = number("sequences");
    query.shape.heads = query.shape.kv_heads = number("heads");
    query.shape.query_length = query.shape.key_length = number("length");
    query.shape.qk_dim = query.shape.v_dim = width;
    query.shape.causal = false;
    ratios.push_back(to_seconds(kernels.attention(query).time) /
                     (1e-6 * std::stod(row[table.column("time_us")])));
  }
  REQUIRE(ratios.size() > 100);
  std::sort(ratios.begin(), ratios.end());
  CHECK(ratios[ratios.size() / 2] == Approx(1).margin(0.1));
  CHECK(ratios[ratios.size() / 10] > 0.85);
  CHECK(ratios[ratios.size() - ratios.size() / 10] < 1.15);
}
