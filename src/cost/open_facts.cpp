#include "stepcast/cost/open_facts.h"

#include "deviations.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::Value;

constexpr const char* kOtherKeys = "others";

template <class Reach, std::size_t N>
void read_reaches(const Value& map, std::array<double, N>& out) {
  static const text::Keys keys = keys_with<Reach>({}, " of what an open key acts on");
  text::expect_map(map, "expected a map of relative standard deviations");
  text::expect_keys(map, keys);
  read_deviations<Reach>(map, out);
}

OpenFact read_fact(const Value& v) {
  static const text::Keys keys{{"key", "time", "memory", "source"}, " of an entry of open"};
  text::expect_map(v, "expected a map of key, time, memory and source");
  text::expect_keys(v, keys);
  OpenFact out;
  out.key = text::to_string(text::need(v, "key"));
  out.source = text::to_string(text::need(v, "source"));
  if (const Value* time = v.find("time")) {
    read_reaches<TimeReach>(*time, out.time);
  }
  if (const Value* memory = v.find("memory")) {
    read_reaches<MemoryReach>(*memory, out.memory);
  }
  return out;
}

bool covers(std::string_view section, std::string_view key) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

}  // namespace

std::vector<OpenFact> read_open_facts(const std::filesystem::path& calibration) {
  const std::filesystem::path file = calibration / "open.yaml";
  std::vector<OpenFact> out;
  if (!std::filesystem::exists(file)) {
    return out;
  }
  const Value all = text::read_yaml(file);
  constexpr const char* kExpected = "expected a list under 'open'";
  const Value& list = text::need(text::expect_map(all, kExpected), "open");
  for (const Value& v : text::expect_list(list, kExpected).items) {
    out.push_back(read_fact(v));
  }
  return out;
}

const OpenFact* open_fact_of(const std::vector<OpenFact>& all, std::string_view key) {
  const OpenFact* found = nullptr;
  const OpenFact* others = nullptr;
  for (const OpenFact& fact : all) {
    if (fact.key == kOtherKeys) {
      others = &fact;
    } else if (covers(fact.key, key) && (found == nullptr || fact.key.size() > found->key.size())) {
      found = &fact;
    }
  }
  return found != nullptr ? found : others;
}

}  // namespace stepcast::cost
