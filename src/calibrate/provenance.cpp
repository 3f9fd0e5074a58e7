#include "provenance.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

namespace stepcast::calibrate {
namespace {

// A double-quoted YAML scalar.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string semicolon_separated(const std::vector<std::string>& all) {
  std::string out;
  for (const auto& one : all) {
    out += (out.empty() ? "" : "; ") + one;
  }
  return out;
}

// The facts of a series that the lists of measured and of left-out series both state.
std::string head(const result::CalibrationSeries& s) {
  std::string out = fmt::format("  - {{log: {}, collective: {}, nodes: {}, gpus_per_node: {}",
                                quoted(s.name), s.op, s.nodes, s.gpus_per_node);
  if (!s.points.empty()) {
    out += fmt::format(", sizes: [{}, {}], points: {}", s.points.front().bytes,
                       s.points.back().bytes, s.points.size());
  }
  if (!s.nccl.empty()) {
    out += ", nccl: " + quoted(s.nccl);
  }
  if (!s.algorithm.empty()) {
    out += ", algo: " + quoted(s.algorithm);
  }
  if (!s.date.empty()) {
    out += ", date: " + quoted(s.date);
  }
  return out;
}

}  // namespace

std::vector<std::string> log_names(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  std::set<std::string> taken;
  for (const std::string& file : files) {
    std::string name = std::filesystem::path(file).stem().string();
    for (char& c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
      c = plain ? c : '_';
    }
    std::string unique = name;
    for (int n = 2; !taken.insert(unique).second; ++n) {
      unique = fmt::format("{}.{}", name, n);
    }
    out.push_back(std::move(unique));
  }
  return out;
}

std::string provenance(const std::vector<const result::CalibrationSeries*>& series) {
  std::string fitted;
  std::string rest;
  for (const auto* s : series) {
    std::string& out = s->fitted ? fitted : rest;
    out += head(*s);
    if (s->fitted) {
      out += fmt::format(", error: {:.4f}, health: {}", s->error, to_string(s->health));
    } else {
      out += ", why: " + quoted(s->left_out);
    }
    if (!s->reasons.empty()) {
      out += ", reason: " + quoted(semicolon_separated(s->reasons));
    }
    out += "}\n";
  }
  std::string out = "measured:  # error: median of |curve / measured - 1|\n" + fitted;
  if (!rest.empty()) {
    out += "left_out:\n" + rest;
  }
  return out;
}

}  // namespace stepcast::calibrate
