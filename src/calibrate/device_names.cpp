#include "device_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>

namespace stepcast::calibrate {
namespace {

// A model is up to three letters, two to four digits and perhaps a letter (A100, L40S, GB200), or
// four digits (4090).
bool is_model(const std::string& word) {
  std::size_t at = 0;
  const auto span = [&](auto&& kind) {
    const std::size_t from = at;
    while (at < word.size() && kind(static_cast<unsigned char>(word[at])) != 0) {
      ++at;
    }
    return at - from;
  };
  const std::size_t letters = span([](unsigned char c) { return std::isalpha(c); });
  const std::size_t digits = span([](unsigned char c) { return std::isdigit(c); });
  const std::size_t tail = span([](unsigned char c) { return std::isalpha(c); });
  const bool named = letters > 0 ? digits >= 2 && digits <= 4 : digits == 4;
  return named && letters <= 3 && tail <= 1 && at == word.size();
}

std::set<std::string> models(const std::string& text) {
  std::set<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      word += static_cast<char>(std::tolower(byte));
      continue;
    }
    if (is_model(word)) {
      // "rtx4090" and "RTX 4090" are the same model.
      out.insert(word.rfind("rtx", 0) == 0 ? word.substr(3) : word);
    }
    word.clear();
  }
  return out;
}

}  // namespace

bool same_model(const std::string& printed, const std::string& device) {
  const auto seen = models(printed);
  const auto meant = models(device);
  return std::any_of(seen.begin(), seen.end(),
                     [&](const std::string& model) { return meant.count(model) > 0; });
}

bool may_be(const std::string& printed, const std::string& device) {
  return models(printed).empty() || models(device).empty() || same_model(printed, device);
}

}  // namespace stepcast::calibrate
