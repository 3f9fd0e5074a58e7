#include "calibration_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::fault;
using text::need;

// Limit of a coefficient of overlap: a kernel that loses more than four times the share it gives up
// would be broken.
constexpr double kMaxOverlap = 4;

struct NamedCopy {
  const char* name;
  CopyDirection direction;
  bool pinned;
};
constexpr std::array kCopies = {NamedCopy{"h2d", CopyDirection::host_to_device, true},
                                NamedCopy{"h2d_pageable", CopyDirection::host_to_device, false},
                                NamedCopy{"d2h", CopyDirection::device_to_host, true},
                                NamedCopy{"d2h_pageable", CopyDirection::device_to_host, false},
                                NamedCopy{"both", CopyDirection::both, true},
                                NamedCopy{"both_pageable", CopyDirection::both, false},
                                NamedCopy{"d2d", CopyDirection::device_to_device, true}};

// A map whose keys must all be known.
const text::Value& map_of(const text::Value& v, std::vector<std::string> keys) {
  text::expect_keys(text::expect_map(v, "expected a map"), {std::move(keys)});
  return v;
}

double number_in(const text::Value& map, std::string_view key, double low, double high) {
  const text::Value& v = need(map, key);
  const double x = text::to_number(v);
  if (!(x >= low && x <= high)) {
    fault(v.origin, fmt::format("{} is {}: expected {} to {}", key, x, low, high));
  }
  return x;
}

CorrectionGrid::Axis read_axis(const text::Value& grid, std::string_view key) {
  const text::Value& v = map_of(need(grid, key), {"first", "step", "nodes"});
  CorrectionGrid::Axis axis;
  axis.first = number_in(v, "first", 0, 40);
  axis.step = number_in(v, "step", 0.01, 10);
  axis.nodes = static_cast<int>(number_in(v, "nodes", 2, 200));
  return axis;
}

// Whole thousandths of the logarithm of time, separated by blanks.
std::vector<float> read_correction(const text::Value& v, std::size_t count) {
  const std::string& s = text::to_string(v);
  std::vector<float> values;
  values.reserve(count);
  const char* p = s.data();
  const char* end = p + s.size();
  while (true) {
    while (p != end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
      ++p;
    }
    if (p == end) {
      break;
    }
    int thousandths = 0;
    const auto [next, error] = std::from_chars(p, end, thousandths);
    if (error != std::errc{} || std::abs(thousandths) > 5000) {
      fault(v.origin, fmt::format("value {} of the correction is not a whole number within 5000",
                                  values.size() + 1));
    }
    p = next;
    values.push_back(static_cast<float>(thousandths) * 1e-3F);
  }
  if (values.size() != count) {
    fault(v.origin,
          fmt::format("the correction has {} values; its grid has {} nodes", values.size(), count));
  }
  return values;
}

// The keys grid and correction; absent: no correction.
void read_grid(const text::Value& curve, const std::array<const char*, 3>& names,
               CorrectionGrid& into) {
  const text::Value* grid = curve.find("grid");
  if (grid == nullptr) {
    return;
  }
  map_of(*grid, {names[0], names[1], names[2]});
  std::size_t count = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    into.axes[d] = read_axis(*grid, names[d]);
    count *= static_cast<std::size_t>(into.axes[d].nodes);
  }
  into.values = read_correction(need(curve, "correction"), count);
}

// Whole numbers to numbers, `what` says of what: a head dimension.
std::map<int, double> read_by_number(const text::Value& v, const char* what, double low,
                                     double high) {
  if (v.kind != text::Value::Kind::map || v.entries.empty()) {
    fault(v.origin, fmt::format("expected a map of {} to a number", what));
  }
  std::map<int, double> out;
  for (const auto& entry : v.entries) {
    int dim = 0;
    const auto [next, error] =
        std::from_chars(entry.key.data(), entry.key.data() + entry.key.size(), dim);
    if (error != std::errc{} || *next != '\0' || dim < 1 || dim > 4096) {
      fault(entry.origin, fmt::format("'{}' is not {}", entry.key, what));
    }
    out[dim] = number_in(v, entry.key, low, high);
  }
  return out;
}

// A factor at each power of two of rows, without gaps: a GroupedCurve has no others.
void check_powers_of_two(const text::Value& v, const std::map<int, double>& values) {
  int expected = values.begin()->first;
  for (const auto& [rows, value] : values) {
    if (!std::has_single_bit(static_cast<unsigned>(rows)) || rows != expected) {
      fault(v.origin, fmt::format("{} rows: expected consecutive powers of two", rows));
    }
    expected = 2 * rows;
  }
}

GemmCurve read_gemm(const text::Value& v) {
  map_of(v, {"law", "layout", "sustained", "grouped", "other_library", "residual", "held_out",
             "grid", "correction", "casts", "training"});
  GemmCurve c;
  const text::Value& law =
      map_of(need(v, "law"), {"sms", "fixed", "rate", "bandwidth", "prologue", "tile", "tail",
                              "quantise", "resident", "l2_bandwidth"});
  c.law.sms = static_cast<int>(number_in(law, "sms", 1, 4096));
  c.law.fixed = number_in(law, "fixed", 0, 1e-2);
  c.law.rate = number_in(law, "rate", 1e9, 1e18);
  c.law.bandwidth = number_in(law, "bandwidth", 1e8, 1e15);
  c.law.prologue = number_in(law, "prologue", 0, 1e5);
  c.law.tile = number_in(law, "tile", 0, 1e4);
  c.law.tail = number_in(law, "tail", 0, 1);
  if (law.find("quantise") != nullptr) {
    c.law.quantise = number_in(law, "quantise", 0, 1000);
  }
  if (law.find("resident") != nullptr) {
    c.law.resident = number_in(law, "resident", 1, 1e12);
    c.law.l2_bandwidth = number_in(law, "l2_bandwidth", c.law.bandwidth, 1e16);
  }
  if (const text::Value* layout = v.find("layout")) {
    map_of(*layout, {"input_grad", "weight_grad", "input_grad_residual", "weight_grad_residual",
                     "accumulate", "unaligned", "source"});
    if (layout->find("accumulate") != nullptr) {
      c.accumulate = number_in(*layout, "accumulate", 0, 2);
    }
    if (const text::Value* unaligned = layout->find("unaligned")) {
      c.unaligned = read_by_number(*unaligned, "a number of bytes", 0.5, 50);
    }
    c.input_grad = number_in(*layout, "input_grad", 0.2, 5);
    c.weight_grad = number_in(*layout, "weight_grad", 0.2, 5);
    if (layout->find("input_grad_residual") != nullptr) {
      c.input_grad_residual = number_in(*layout, "input_grad_residual", 0, 2);
    }
    if (layout->find("weight_grad_residual") != nullptr) {
      c.weight_grad_residual = number_in(*layout, "weight_grad_residual", 0, 2);
    }
  }
  const text::Value& sustained =
      map_of(need(v, "sustained"), {"burst", "long_run", "deviation", "source"});
  c.burst = number_in(sustained, "burst", 1e9, 1e18);
  c.long_run = number_in(sustained, "long_run", 0.1 * c.burst, c.burst);
  c.long_run_deviation = number_in(sustained, "deviation", 0, 1);
  c.cap = power_cap(c.burst, c.long_run);
  if (const text::Value* training = v.find("training")) {
    map_of(*training, {"level", "source"});
    c.training = number_in(*training, "level", 0.1 * c.burst, c.burst);
    c.training_cap = power_cap(c.burst, c.training);
  }
  if (const text::Value* grouped = v.find("grouped")) {
    map_of(*grouped, {"factor", "rows", "deviation", "source"});
    if (const text::Value* rows = grouped->find("rows")) {
      c.grouped_rows = read_by_number(*rows, "a number of rows", 0.2, 20);
      check_powers_of_two(*rows, c.grouped_rows);
    } else {
      c.grouped = number_in(*grouped, "factor", 0.2, 20);
    }
    if (grouped->find("deviation") != nullptr) {
      c.grouped_deviation = number_in(*grouped, "deviation", 0, 2);
    }
  }
  if (const text::Value* other = v.find("other_library")) {
    map_of(*other, {"deviation", "source"});
    c.other_library = number_in(*other, "deviation", 0, 2);
  }
  if (const text::Value* casts = v.find("casts")) {
    map_of(*casts, {"bytes", "source"});
    c.casts = number_in(*casts, "bytes", 0, 100);
  }
  c.residual = number_in(v, "residual", 0, 2);
  read_grid(v, {"m", "n", "k"}, c.law.grid);
  return c;
}

GroupedCurve read_grouped(const text::Value& v) {
  map_of(v, {"over", "first", "factor", "fixed", "gather", "residual", "held_out"});
  GroupedCurve c;
  c.over = text::to_string(need(v, "over"));
  c.fixed = number_in(v, "fixed", 0, 1e-2);
  c.gather = number_in(v, "gather", 0, 1000);
  c.first = number_in(v, "first", 0, 40);
  const text::Value& factor = need(v, "factor");
  if (factor.kind != text::Value::Kind::sequence || factor.items.empty()) {
    fault(factor.origin, "expected a list of factors, one for each power of two of rows");
  }
  for (const text::Value& item : factor.items) {
    const double x = text::to_number(item);
    if (!(x >= 0.1 && x <= 100)) {
      fault(item.origin, fmt::format("factor is {}: expected 0.1 to 100", x));
    }
    c.factor.push_back(x);
  }
  c.residual = number_in(v, "residual", 0, 2);
  return c;
}

// The keys of a pass.
void read_pass(const text::Value& v, AttentionPass& c) {
  c.fixed = number_in(v, "fixed", 0, 1e-2);
  c.prologue = number_in(v, "prologue", 0, 1e5);
  c.tail = number_in(v, "tail", 0, 1);
  if (v.find("full") != nullptr) {
    c.full = number_in(v, "full", 0.1, 10);
  }
  if (v.find("longest") != nullptr) {
    c.longest = number_in(v, "longest", 0, 10);
  }
  c.residual = number_in(v, "residual", 0, 2);
  c.rate = read_by_number(need(v, "rate"), "a head dimension", 1e9, 1e18);
  if (const text::Value* cache = v.find("cache")) {
    c.cache = read_by_number(*cache, "a head dimension", 0, 100);
  }
  read_grid(v, {"heads", "length", "dimension"}, c.grid);
}

AttentionCurve read_attention(const text::Value& v) {
  map_of(v, {"fixed", "prologue", "tail", "full", "longest", "rate", "backward", "backward_pass",
             "cache", "residual", "held_out", "source", "grid", "correction", "training"});
  AttentionCurve c;
  read_pass(v, c);
  if (const text::Value* training = v.find("training")) {
    map_of(*training, {"burst", "level", "source"});
    c.burst = number_in(*training, "burst", 1e9, 1e18);
    c.training = number_in(*training, "level", 0.1 * c.burst, c.burst);
    c.training_cap = power_cap(c.burst, c.training);
  }
  c.backward = number_in(v, "backward", 0.05, 2);
  if (const text::Value* own = v.find("backward_pass")) {
    map_of(*own, {"fixed", "prologue", "tail", "full", "longest", "rate", "residual", "held_out",
                  "grid", "correction"});
    read_pass(*own, c.backward_pass.emplace());
  }
  return c;
}

void read_memory_pass(const text::Value& v, MemoryPass& c) {
  c.fixed = number_in(v, "fixed", 0, 1e-2);
  c.share = number_in(v, "share", 0.01, 1);
  c.residual = number_in(v, "residual", 0, 2);
  if (v.find("ramp") != nullptr) {
    c.ramp = number_in(v, "ramp", 1, 16);
  }
  if (v.find("resident") != nullptr) {
    c.resident = number_in(v, "resident", 0, 1e12);
    c.gain = number_in(v, "gain", 1, 100);
  }
  if (v.find("start") != nullptr) {
    c.start = number_in(v, "start", 0, 1e12);
    c.start_rate = number_in(v, "start_rate", 1e6, 1e15);
  }
  if (v.find("row") != nullptr) {
    c.row = number_in(v, "row", 1, 1e9);
    c.moved = number_in(v, "moved", 0.01, 1);
    c.wide = number_in(v, "wide", 0, 100);
  }
}

MemoryCurve read_memory(const text::Value& v) {
  map_of(v, {"fixed", "share", "residual", "held_out", "ramp", "resident", "gain", "start",
             "start_rate", "row", "moved", "wide", "source", "backward_pass"});
  MemoryCurve c;
  read_memory_pass(v, c);
  if (const text::Value* own = v.find("backward_pass")) {
    map_of(*own, {"fixed", "share", "residual", "held_out", "ramp", "resident", "gain", "start",
                  "start_rate", "row", "moved", "wide"});
    read_memory_pass(*own, c.backward_pass.emplace());
  }
  return c;
}

CopyCurve read_copy(const text::Value& v) {
  map_of(v, {"latency", "bandwidth", "residual", "held_out", "source"});
  CopyCurve c;
  c.latency = number_in(v, "latency", 0, 1);
  c.bandwidth = number_in(v, "bandwidth", 1e6, 1e15);
  c.residual = number_in(v, "residual", 0, 2);
  return c;
}

// {value, residual} of one coefficient, or its default.
void read_coefficient(const text::Value& curves, const char* key, double& value, double& residual) {
  if (const text::Value* v = curves.find(key)) {
    map_of(*v, {"coefficient", "residual", "points", "source"});
    value = number_in(*v, "coefficient", 0, kMaxOverlap);
    residual = number_in(*v, "residual", 0, 2);
  }
}

OverlapCurve read_overlap(const text::Value& curves) {
  map_of(curves, {"arithmetic", "memory", "collective"});
  OverlapCurve c;
  double spread = 0;
  read_coefficient(curves, "arithmetic", c.arithmetic, c.arithmetic_residual);
  read_coefficient(curves, "memory", c.memory, c.memory_residual);
  read_coefficient(curves, "collective", c.collective, spread);
  return c;
}

LaunchCurve read_launch(const text::Value& curves) {
  map_of(curves, {"host", "graph", "residual"});
  LaunchCurve c;
  c.host = number_in(curves, "host", 0, 1);
  if (curves.find("graph") != nullptr) {
    c.graph = number_in(curves, "graph", 0, 1);
  }
  c.residual = number_in(curves, "residual", 0, 2);
  return c;
}

PowerCurve read_power(const text::Value& curves) {
  map_of(curves, {"rated", "exponent", "others", "residual", "source"});
  PowerCurve c;
  c.rated = number_in(curves, "rated", 1, 1e5);
  c.exponent = number_in(curves, "exponent", 0, 1);
  if (curves.find("others") != nullptr) {
    c.others = number_in(curves, "others", 0.1, 1);
  }
  c.residual = number_in(curves, "residual", 0, 1);
  return c;
}

template <class Map, class Parse, class Read>
void read_curves(const text::Value& curves, Map& into, Parse parse, Read read, const char* what) {
  for (const auto& entry : text::expect_map(curves, "expected a map of curves").entries) {
    const auto key = parse(entry.key);
    if (!key) {
      fault(entry.origin, fmt::format("'{}' is not a known {}", entry.key, what));
    }
    into[*key] = read(entry.value);
  }
}

}  // namespace

std::optional<std::pair<CopyDirection, bool>> parse_copy(const std::string& text) {
  for (const NamedCopy& c : kCopies) {
    if (text == c.name) {
      return std::pair{c.direction, c.pinned};
    }
  }
  return std::nullopt;
}
std::string copy_name(CopyDirection direction, bool pinned) {
  for (const NamedCopy& c : kCopies) {
    const bool one_kind = direction == CopyDirection::device_to_device;
    if (c.direction == direction && (c.pinned == pinned || one_kind)) {
      return c.name;
    }
  }
  return "?";
}

CalibrationFile to_calibration(const text::Value& document) {
  CalibrationFile file;
  text::expect_map(document, "expected a calibration file: a map with 'kind'");
  const std::string& kind = text::to_string(need(document, "kind"));
  file.kind = parse<CalibrationFile::Kind>(kind).value_or(CalibrationFile::Kind::other);
  if (file.kind == CalibrationFile::Kind::other) {
    return file;
  }
  map_of(document, {"kind", "devices", "library", "source", "curves"});
  file.devices = text::expect_texts(need(document, "devices"), "expected a list of device names");
  file.library = text::to_string(need(document, "library"));
  file.source = text::to_string(need(document, "source"));
  const text::Value& curves = need(document, "curves");
  switch (file.kind) {
    case CalibrationFile::Kind::gemm:
      read_curves(curves, file.gemm, parse<DType>, read_gemm, "dtype");
      break;
    case CalibrationFile::Kind::grouped:
      read_curves(curves, file.grouped, parse<DType>, read_grouped, "dtype");
      break;
    case CalibrationFile::Kind::attention:
      read_curves(curves, file.attention, parse<AttentionKernel>, read_attention,
                  "attention kernel");
      break;
    case CalibrationFile::Kind::memory:
      read_curves(curves, file.memory, parse<MemoryOp>, read_memory, "memory-bound operator");
      break;
    case CalibrationFile::Kind::copy:
      read_curves(curves, file.copy, parse_copy, read_copy, "copy");
      break;
    case CalibrationFile::Kind::overlap:
      file.overlap = read_overlap(curves);
      break;
    case CalibrationFile::Kind::launch:
      file.launch = read_launch(curves);
      break;
    case CalibrationFile::Kind::power:
      file.power = read_power(curves);
      break;
    case CalibrationFile::Kind::other:
      break;
  }
  return file;
}

}  // namespace stepcast::cost
