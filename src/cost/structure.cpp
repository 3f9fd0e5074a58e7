#include "stepcast/cost/structure.h"

#include <fmt/format.h>

#include <algorithm>

#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::fault;
using text::Value;

constexpr const char* kOthers = "others";
// At a relative deviation of 1 nothing is known of the part.
constexpr double kLargestDeviation = 1;

Structure read_one(const Value& v) {
  static const text::Keys keys = [] {
    text::Keys out{{"systems", "source"}, " of an entry of structures"};
    const auto parts = words_of<Part>();
    out.names.insert(out.names.end(), parts.begin(), parts.end());
    return out;
  }();
  text::expect_map(v, "expected a map of systems, deviations and source");
  text::expect_keys(v, keys);
  Structure out;
  out.systems = text::expect_texts(text::need(v, "systems"), "expected a list of systems");
  out.source = text::to_string(text::need(v, "source"));
  for (const auto& [part, word] : spellings(Part{})) {
    if (const Value* deviation = v.find(word)) {
      const double x = text::to_number(*deviation);
      if (!(x >= 0 && x <= kLargestDeviation)) {
        fault(deviation->origin,
              fmt::format("{} is {}; expected 0 to {}", word, x, kLargestDeviation));
      }
      out.deviation[static_cast<std::size_t>(part)] = x;
    }
  }
  return out;
}

}  // namespace

std::vector<Structure> read_structures(const std::filesystem::path& calibration) {
  const std::filesystem::path file = calibration / "structure.yaml";
  std::vector<Structure> out;
  if (!std::filesystem::exists(file)) {
    return out;
  }
  const Value all = text::read_yaml(file);
  constexpr const char* kExpected = "expected a list under 'structures'";
  const Value& list = text::need(text::expect_map(all, kExpected), "structures");
  for (const Value& v : text::expect_list(list, kExpected).items) {
    out.push_back(read_one(v));
  }
  return out;
}

const Structure* structure_of(const std::vector<Structure>& all, const std::string& system) {
  const auto names = [](const Structure& s, const std::string& name) {
    return std::find(s.systems.begin(), s.systems.end(), name) != s.systems.end();
  };
  for (const std::string& wanted : {system, std::string(kOthers)}) {
    for (const Structure& s : all) {
      if (names(s, wanted)) {
        return &s;
      }
    }
  }
  return nullptr;
}

}  // namespace stepcast::cost
