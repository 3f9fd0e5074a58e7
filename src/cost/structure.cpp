#include "stepcast/cost/structure.h"

#include <fmt/format.h>

#include <algorithm>

#include "deviations.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::Value;

constexpr const char* kStructureFile = "structure.yaml";
constexpr const char* kOthers = "others";

// What the deviations were fitted to: at least one.
std::int64_t count_of(const Value& map, const char* key) {
  const Value& v = text::need(map, key);
  const std::int64_t count = text::to_integer(v);
  if (count < 1) {
    text::fault(v.origin, fmt::format("{} is {}; expected at least 1", key, count));
  }
  return count;
}

Structure read_one(const Value& v) {
  static const text::Keys keys =
      keys_with<Part>({"systems", "runs", "source"}, " of an entry of structures");
  text::expect_map(v, "expected a map of systems, deviations, runs and source");
  text::expect_keys(v, keys);
  Structure out;
  out.systems = text::expect_texts(text::need(v, "systems"), "expected a list of systems");
  out.runs = count_of(v, "runs");
  out.source = text::to_string(text::need(v, "source"));
  read_deviations<Part>(v, out.deviation);
  return out;
}

MemoryStructure read_memory_parts(const Value& v, const std::vector<std::string>& beside) {
  text::expect_map(v, "expected a map of deviations, readings and source");
  text::expect_keys(v, keys_with<MemoryPart>(beside, " of memory's structure"));
  MemoryStructure out;
  out.readings = count_of(v, "readings");
  out.source = text::to_string(text::need(v, "source"));
  read_deviations<MemoryPart>(v, out.deviation);
  return out;
}

}  // namespace

MemoryStructures read_memory_structures(const std::filesystem::path& calibration) {
  const std::filesystem::path file = calibration / kStructureFile;
  MemoryStructures out;
  if (!std::filesystem::exists(file)) {
    return out;
  }
  const Value all = text::read_yaml(file);
  const auto find = [&](const char* key) {
    return text::expect_map(all, "expected 'structures' and 'memory'").find(key);
  };
  if (const Value* memory = find("memory")) {
    out.any = read_memory_parts(*memory, {"readings", "source"});
  }
  if (const Value* stated = find("memory_stated")) {
    out.stated = read_memory_parts(*stated, {"systems", "readings", "source"});
    out.systems = text::expect_texts(text::need(*stated, "systems"), "expected a list of systems");
  }
  return out;
}

const MemoryStructure& memory_structure_of(const MemoryStructures& all, const std::string& system,
                                           bool assumes) {
  const bool named = std::find(all.systems.begin(), all.systems.end(), system) != all.systems.end();
  return all.stated && named && !assumes ? *all.stated : all.any;
}

std::vector<Structure> read_structures(const std::filesystem::path& calibration) {
  const std::filesystem::path file = calibration / kStructureFile;
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
