// Names of GPUs as tools print them.
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

struct Product {
  // All must occur in the name without punctuation ("nvidiaa100sxm480gb"), the first without more
  // digits behind it: an RTX A4000 is no A40.
  std::array<std::string_view, 3> words;
  std::string_view device;
};

// The first product that matches is taken. Names are those of nvidia-smi, gpu-feature-discovery's
// labels (NVIDIA-A100-SXM4-80GB-MIG-...), and the short types of Slurm's gres.conf ("h100"), which
// mean the most common form in clusters.
constexpr Product kProducts[] = {
    {{"gb300"}, "gb300"},
    {{"gb200"}, "gb200"},
    {{"b300"}, "b300-sxm"},
    {{"b200"}, "b200-sxm"},
    {{"gh200"}, "gh200"},
    {{"h200"}, "h200-sxm"},
    {{"h800"}, "h800-sxm"},
    {{"h20"}, "h20"},
    {{"h100", "nvl"}, "h100-nvl"},
    {{"h100", "pcie"}, "h100-pcie"},
    {{"h100"}, "h100-sxm"},
    {{"a800"}, "a800-sxm-80"},
    {{"a100", "pci", "40gb"}, "a100-pcie-40"},
    {{"a100", "pci"}, "a100-pcie-80"},
    {{"a100", "40gb"}, "a100-sxm-40"},
    {{"a100"}, "a100-sxm-80"},
    {{"v100", "pci"}, "v100-pcie-32"},
    {{"v100", "16gb"}, "v100-sxm2-16"},
    {{"v100"}, "v100-sxm2-32"},
    {{"a10g"}, "a10g"},
    {{"a10"}, "a10"},
    {{"a40"}, "a40"},
    {{"l40s"}, "l40s"},
    {{"l4"}, "l4"},
    {{"rtx", "pro", "6000"}, "rtx-pro-6000"},
    {{"a6000"}, "rtx-a6000"},
    {{"3090"}, "rtx3090"},
    {{"4090"}, "rtx4090"},
    {{"mi355x"}, "mi355x"},
    {{"mi350x"}, "mi350x"},
    {{"mi325x"}, "mi325x"},
    {{"mi308x"}, "mi308x"},
    {{"mi300x"}, "mi300x"},
    {{"mi250x"}, "mi250x-gcd"},  // software shows each of a module's dies
};

// PCI device ids of vendor 0x10de (pci-ids.ucw.cz, from memory).
constexpr std::pair<std::string_view, std::string_view> kPciIds[] = {
    {"1db1", "v100-sxm2-16"}, {"1db5", "v100-sxm2-32"}, {"1db6", "v100-pcie-32"},
    {"20b0", "a100-sxm-40"},  {"20b2", "a100-sxm-80"},  {"20f1", "a100-pcie-40"},
    {"20b5", "a100-pcie-80"}, {"20f3", "a800-sxm-80"},  {"2330", "h100-sxm"},
    {"2331", "h100-pcie"},    {"2321", "h100-nvl"},     {"2324", "h800-sxm"},
    {"2329", "h20"},          {"2335", "h200-sxm"},     {"2342", "gh200"},
    {"2901", "b200-sxm"},     {"2941", "gb200"},        {"3182", "b300-sxm"},
    {"31c2", "gb300"},        {"26b9", "l40s"},         {"2684", "rtx4090"},
    {"2bb5", "rtx-pro-6000"}, {"2236", "a10"},          {"2237", "a10g"},
    {"2235", "a40"},          {"27b8", "l4"},           {"2230", "rtx-a6000"},
    {"2204", "rtx3090"},
};

// Whether a word occurs in a name, in lower case, and no digit follows it there.
bool names_model(const std::string& name, std::string_view word) {
  for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == name.size() || std::isdigit(static_cast<unsigned char>(name[end])) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string device_of_product(const std::string& product) {
  std::string plain;
  std::string lower;
  for (const char c : product) {
    const auto byte = static_cast<unsigned char>(c);
    lower += static_cast<char>(std::tolower(byte));
    if (std::isalnum(byte) != 0) {
      plain += lower.back();
    }
  }
  if (plain.starts_with("0x")) {
    for (const auto& [id, device] : kPciIds) {
      if (plain.substr(2) == id) {
        return std::string(device);
      }
    }
    return "";
  }
  for (const Product& p : kProducts) {
    if (names_model(lower, p.words.front()) &&
        std::all_of(p.words.begin(), p.words.end(),
                    [&](std::string_view word) { return plain.find(word) != plain.npos; })) {
      return std::string(p.device);
    }
  }
  return "";
}

}  // namespace stepcast::interop
