#include "cluster_of_row.h"

#include <algorithm>
#include <array>
#include <regex>

namespace stepcast::interop {
namespace {

double gigabits(const std::string& number, const std::string& unit) {
  return std::stod(number) * (unit.rfind("GB", 0) == 0 ? 8.0 : 1.0);
}

}  // namespace

std::optional<Nics> parse_nics(const std::string& text, int gpus_per_node) {
  // Lists of a node's cards by purpose: the compute network carries training.
  const std::size_t compute = text.find("Compute:");
  const std::string part = compute == std::string::npos ? text : text.substr(compute);
  std::smatch m;
  static const std::regex cards(R"((\d+)\s*x\s*[A-Za-z][^,]*?(\d+)\s*(Gb|GB))");
  static const std::regex product(R"((\d+)\s*x\s*(\d+)\s*(Gb|GB))");
  static const std::regex links(R"((\d+) \w+ links per node, (\d+)\s*(Gb|GB))");
  for (const std::regex* form : {&product, &links, &cards}) {
    if (std::regex_search(part, m, *form)) {
      return Nics{std::stoi(m[1]), gigabits(m[2], m[3])};
    }
  }
  static const std::regex per_gpu(R"((\d+)\s*(Gb|GB)[^,]*per GPU)");
  if (std::regex_search(part, m, per_gpu)) {
    return Nics{gpus_per_node, gigabits(m[1], m[2])};
  }
  // A total for the node: as one card per GPU.
  static const std::regex per_node(R"((\d+)\s*(Gb|GB)(?:/s|ps)[^,]*(?:per node|node-node))");
  if (std::regex_search(part, m, per_node)) {
    return Nics{gpus_per_node, gigabits(m[1], m[2]) / gpus_per_node};
  }
  return std::nullopt;
}

ReferenceNode reference_node(std::string_view device) {
  struct Row {
    std::string_view prefix;
    ReferenceNode node;
  };
  static constexpr std::array<Row, 10> rows{{
      {"a100", {"dgx-a100", 8}},
      {"a800", {"dgx-a100", 8}},
      {"v100", {"dgx-1-v100", 8}},
      {"h100", {"hgx-h100", 8}},
      {"h200", {"hgx-h200", 8}},
      {"h800", {"hgx-h100", 8}},
      {"b200", {"dgx-b200", 8}},
      {"b300", {"dgx-b300", 8}},
      {"gb200", {"gb200-nvl72", 4}},
      {"gb300", {"gb300-nvl72", 4}},
  }};
  const auto* found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return device.substr(0, row.prefix.size()) == row.prefix;
  });
  return found == rows.end() ? ReferenceNode{} : found->node;
}

Spread spread(int ranks, int per_node) {
  int gpus = std::clamp(per_node, 1, std::max(ranks, 1));
  while (ranks % gpus != 0) {
    --gpus;
  }
  return {ranks / gpus, gpus};
}

}  // namespace stepcast::interop
