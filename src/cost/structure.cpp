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
  Structure out;
  for (const auto& entry :
       text::expect_map(v, "expected a map of systems, deviations and source").entries) {
    if (const auto part = parse<Part>(entry.key)) {
      const double x = text::to_number(entry.value);
      if (!(x >= 0 && x <= kLargestDeviation)) {
        fault(entry.value.origin,
              fmt::format("{} is {}; expected 0 to {}", entry.key, x, kLargestDeviation));
      }
      out.deviation[static_cast<std::size_t>(*part)] = x;
    } else if (entry.key == "systems") {
      for (const Value& system : entry.value.items) {
        out.systems.push_back(system.scalar);
      }
    } else if (entry.key == "source") {
      out.source = entry.value.scalar;
    } else {
      fault(entry.origin,
            fmt::format("unknown key '{}' of an entry of structures; expected systems, source, {}",
                        entry.key, "compute, communication, expert, host or run"));
    }
  }
  if (out.systems.empty() || out.source.empty()) {
    fault(v.origin, fmt::format("key '{}' is missing", out.systems.empty() ? "systems" : "source"));
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
  const Value* list = all.kind == Value::Kind::map ? all.find("structures") : nullptr;
  if (list == nullptr || list->kind != Value::Kind::sequence) {
    fault(all.origin, "expected a list under 'structures'");
  }
  for (const Value& v : list->items) {
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
