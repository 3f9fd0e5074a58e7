#include "calibration_write.h"

#include <fmt/format.h>

#include <cmath>

namespace stepcast::cost {
namespace {

constexpr std::array kClassNames = {"below_1_gflop", "1_to_10_gflop", "10_to_100_gflop",
                                    "above_100_gflop", "from_1_gflop"};

std::string axis_text(const CorrectionGrid::Axis& a) {
  return fmt::format("{{first: {}, step: {}, nodes: {}}}", a.first, a.step, a.nodes);
}

std::string correction_text(const CorrectionGrid& grid, const std::string& indent) {
  // One line per (m, n), k along the line.
  std::string out;
  const auto width = static_cast<std::size_t>(grid.axes[2].nodes);
  for (std::size_t i = 0; i < grid.values.size(); ++i) {
    out += i % width == 0 ? "\n" + indent + "  " : " ";
    out += fmt::format("{}", std::lround(1e3 * static_cast<double>(grid.values[i])));
  }
  return out;
}

std::string grid_text(const CorrectionGrid& grid, const std::array<const char*, 3>& names,
                      const std::string& indent) {
  std::string out = indent + "grid: {";
  for (std::size_t d = 0; d < 3; ++d) {
    out += fmt::format("{}{}: {}", d == 0 ? "" : ", ", names[d], axis_text(grid.axes[d]));
  }
  out += fmt::format("}}\n{}# thousandths of ln(time): a line per ({}, {}), {} along it\n", indent,
                     names[0], names[1], names[2]);
  return out + indent + "correction: |" + correction_text(grid, indent) + "\n";
}

std::string class_text(const SizeClass& c) {
  return fmt::format("{{points: {}, median: {:.3g}, p95: {:.3g}, deviation: {:.3g}}}", c.points,
                     c.median, c.p95, c.deviation);
}

std::string by_number(const std::map<int, double>& values) {
  std::string out = "{";
  for (const auto& [dim, value] : values) {
    out += fmt::format("{}{}: {:.4g}", out.size() > 1 ? ", " : "", dim, value);
  }
  return out + "}";
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

std::string head_text(const FileHead& head) {
  return fmt::format("kind: {}\n# {}\ndevices: [{}]\nlibrary: {}\nsource: {}\ncurves:\n", head.kind,
                     head.comment, fmt::join(head.devices, ", "), head.library,
                     quoted(head.source));
}

std::string gemm_text(const std::string& dtype, const GemmCurve& c, const SizeClasses& held_out,
                      const GemmNotes& notes) {
  const GemmLaw& l = c.law;
  std::string out = fmt::format("  {}:\n", dtype);
  out += fmt::format(
      "    law: {{sms: {}, fixed: {:.4g}, rate: {:.5g}, bandwidth: {:.5g}, prologue: {:.4g}, tile: "
      "{:.4g}, tail: {:.3g}, quantise: {:.3g}",
      l.sms, l.fixed, l.rate, l.bandwidth, l.prologue, l.tile, l.tail, l.quantise);
  if (l.resident > 0) {
    out += fmt::format(", resident: {:.4g}, l2_bandwidth: {:.4g}", l.resident, l.l2_bandwidth);
  }
  out += "}\n";
  out += fmt::format("    layout: {{input_grad: {:.4g}, weight_grad: {:.4g}", c.input_grad,
                     c.weight_grad);
  if (c.input_grad_residual > 0) {
    out += fmt::format(", input_grad_residual: {:.3g}", c.input_grad_residual);
  }
  if (c.weight_grad_residual > 0) {
    out += fmt::format(", weight_grad_residual: {:.3g}", c.weight_grad_residual);
  }
  if (c.accumulate > 0) {
    out += fmt::format(", accumulate: {:.3g}", c.accumulate);
  }
  if (!c.unaligned.empty()) {
    out += ", unaligned: " + by_number(c.unaligned);
  }
  out += fmt::format(", source: \"{}\"}}\n", notes.layout_source);
  out += fmt::format(
      "    sustained: {{burst: {:.4g}, long_run: {:.4g}, deviation: {:.3g}, source: \"{}\"}}\n",
      c.burst, c.long_run, c.long_run_deviation, notes.sustained_source);
  if (c.training > 0) {
    out += fmt::format("    training: {{level: {:.4g}, source: {}}}\n", c.training,
                       quoted(notes.training_source));
  }
  if (!notes.grouped_source.empty()) {
    const std::string factor = c.grouped_rows.empty() ? fmt::format("factor: {:.4g}", c.grouped)
                                                      : "rows: " + by_number(c.grouped_rows);
    out += fmt::format("    grouped: {{{}, deviation: {:.3g}, source: \"{}\"}}\n", factor,
                       c.grouped_deviation, notes.grouped_source);
  }
  if (c.other_library > 0) {
    out += fmt::format("    other_library: {{deviation: {:.3g}, source: \"{}\"}}\n",
                       c.other_library, notes.other_library_source);
  }
  if (c.casts > 0) {
    out += fmt::format("    casts: {{bytes: {:.3g}, source: {}}}\n", c.casts,
                       quoted(notes.casts_source));
  }
  out += fmt::format("    residual: {:.3g}\n    held_out:\n", c.residual);
  for (std::size_t i = 0; i < held_out.size(); ++i) {
    out += fmt::format("      {}: {}\n", kClassNames[i], class_text(held_out[i]));
  }
  if (!l.grid.values.empty()) {
    out += grid_text(l.grid, {"m", "n", "k"}, "    ");
  }
  return out;
}

std::string grouped_text(const std::string& dtype, const GroupedCurve& c,
                         const SizeClass& held_out) {
  std::string out = fmt::format(
      "  {}:\n    over: {}\n    fixed: {:.4g}\n    gather: {:.4g}\n    first: {}\n    factor: [",
      dtype, c.over, c.fixed, c.gather, c.first);
  for (std::size_t i = 0; i < c.factor.size(); ++i) {
    out += fmt::format("{}{:.4g}", i == 0 ? "" : ", ", c.factor[i]);
  }
  return out + fmt::format("]\n    residual: {:.3g}\n    held_out: {}\n", c.residual,
                           class_text(held_out));
}

namespace {

// The keys of a pass, each line indented by `indent`.
std::string pass_text(const AttentionPass& c, const std::string& indent) {
  std::string out = fmt::format("{0}fixed: {1:.4g}\n{0}prologue: {2:.4g}\n{0}tail: {3:.3g}\n",
                                indent, c.fixed, c.prologue, c.tail);
  if (c.full != 1) {
    out += fmt::format("{}full: {:.4g}\n", indent, c.full);
  }
  if (c.longest > 0) {
    out += fmt::format("{}longest: {:.4g}\n", indent, c.longest);
  }
  out += indent + "rate: " + by_number(c.rate) + "\n";
  if (!c.cache.empty()) {
    out +=
        indent + "# passes over keys and values that a paged cache took in the table: not priced\n";
    out += indent + "cache: " + by_number(c.cache) + "\n";
  }
  return out + fmt::format("{}residual: {:.3g}\n", indent, c.residual);
}

std::string memory_pass_text(const MemoryPass& c) {
  std::string out =
      fmt::format("fixed: {:.3g}, share: {:.3g}, residual: {:.3g}", c.fixed, c.share, c.residual);
  if (c.ramp != 1) {
    out += fmt::format(", ramp: {:.3g}", c.ramp);
  }
  if (c.resident > 0) {
    out += fmt::format(", resident: {:.4g}, gain: {:.3g}", c.resident, c.gain);
  }
  if (c.start > 0) {
    out += fmt::format(", start: {:.4g}, start_rate: {:.4g}", c.start, c.start_rate);
  }
  if (c.row > 0) {
    out += fmt::format(", row: {:.4g}, moved: {:.3g}, wide: {:.3g}", c.row, c.moved, c.wide);
  }
  return out;
}

}  // namespace

std::string attention_text(const std::string& kernel, const AttentionCurve& c,
                           const SizeClass& held_out, const std::string& source,
                           const SizeClass& backward_held_out) {
  const std::array<const char*, 3> names = {"heads", "length", "dimension"};
  std::string out = fmt::format("  {}:\n    source: {}\n", kernel, quoted(source));
  out += pass_text(c, "    ");
  out += fmt::format("    backward: {:.3g}\n", c.backward);
  if (c.training > 0) {
    out += fmt::format("    training: {{burst: {:.4g}, level: {:.4g}}}\n", c.burst, c.training);
  }
  if (held_out.points > 0) {
    out += fmt::format("    held_out: {}\n", class_text(held_out));
  }
  if (!c.grid.values.empty()) {
    out += grid_text(c.grid, names, "    ");
  }
  if (c.backward_pass) {
    out += "    backward_pass:\n" + pass_text(*c.backward_pass, "      ");
    if (backward_held_out.points > 0) {
      out += fmt::format("      held_out: {}\n", class_text(backward_held_out));
    }
    if (!c.backward_pass->grid.values.empty()) {
      out += grid_text(c.backward_pass->grid, names, "      ");
    }
  }
  return out;
}

std::string memory_text(const std::string& op, const MemoryCurve& c, const std::string& source) {
  std::string out = fmt::format("  {}: {{{}", op, memory_pass_text(c));
  if (c.backward_pass) {
    out += fmt::format(", backward_pass: {{{}}}", memory_pass_text(*c.backward_pass));
  }
  return out + fmt::format(", source: {}}}\n", quoted(source));
}

std::string copy_text(CopyDirection direction, bool pinned, const CopyCurve& c,
                      const SizeClass& held_out, const std::string& source) {
  std::string out = fmt::format("  {}: {{latency: {:.3g}, bandwidth: {:.4g}, residual: {:.3g}",
                                copy_name(direction, pinned), c.latency, c.bandwidth, c.residual);
  if (held_out.points > 0) {
    out += ", held_out: " + class_text(held_out);
  }
  return out + fmt::format(", source: {}}}\n", quoted(source));
}

std::string coefficient_text(const std::string& key, double value, double residual, int points,
                             const std::string& source) {
  return fmt::format("  {}: {{coefficient: {:.4g}, residual: {:.3g}, points: {}, source: {}}}\n",
                     key, value, residual, points, quoted(source));
}

std::string launch_text(const LaunchCurve& c) {
  std::string out = fmt::format("  host: {:.4g}\n", c.host);
  if (c.graph > 0) {
    out += fmt::format("  graph: {:.4g}\n", c.graph);
  }
  return out + fmt::format("  residual: {:.3g}\n", c.residual);
}

}  // namespace stepcast::cost
