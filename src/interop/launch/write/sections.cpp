#include "writer.h"

namespace stepcast::interop::launch {

std::string Sections::toml() const {
  std::string out;
  for (const Section& section : all_) {
    if (section.entries.empty()) {
      continue;
    }
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section.name);
    for (const auto& [key, value] : section.entries) {
      out += fmt::format("{} = {}\n", key, value);
    }
  }
  return out;
}

// The section "a.b" is b below a, which comes right before it.
std::string Sections::yaml() const {
  std::string out;
  std::string above;
  for (const Section& section : all_) {
    if (section.entries.empty()) {
      continue;
    }
    const std::size_t dot = section.name.find('.');
    const std::string outer = section.name.substr(0, dot);
    const bool inner = dot != std::string::npos;
    if (!section.name.empty() && outer != above) {
      out += fmt::format("{}:\n", outer);
    }
    above = outer;
    if (inner) {
      out += fmt::format("  {}:\n", section.name.substr(dot + 1));
    }
    const char* indent = section.name.empty() ? "" : inner ? "    " : "  ";
    for (const auto& [key, value] : section.entries) {
      out += fmt::format("{}{}: {}\n", indent, key, value);
    }
  }
  return out;
}

std::string Sections::json() const {
  std::string out = "{";
  bool first = true;
  std::size_t depth = 1;
  std::string above;
  const auto line = [&](std::size_t at, const std::string& text) {
    out += fmt::format("{}\n{}{}", first ? "" : ",", std::string(2 * at, ' '), text);
    first = false;
  };
  const auto close = [&](std::size_t to) {
    while (depth > to) {
      --depth;
      out += fmt::format("\n{}}}", std::string(2 * depth, ' '));
      first = false;
    }
  };
  const auto open = [&](const std::string& name) {
    line(depth, fmt::format("\"{}\": {{", name));
    first = true;
    ++depth;
  };
  for (const Section& section : all_) {
    if (section.entries.empty()) {
      continue;
    }
    const std::size_t dot = section.name.find('.');
    const std::string outer = section.name.substr(0, dot);
    close(!section.name.empty() && outer == above ? 2 : 1);
    if (!section.name.empty() && outer != above) {
      open(outer);
    }
    above = outer;
    if (dot != std::string::npos) {
      open(section.name.substr(dot + 1));
    }
    for (const auto& [key, value] : section.entries) {
      line(depth, fmt::format("\"{}\": {}", key, value));
    }
  }
  close(1);
  return out + "\n}\n";
}

}  // namespace stepcast::interop::launch
