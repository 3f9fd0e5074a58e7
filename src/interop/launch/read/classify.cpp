#include "classify.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace stepcast::interop::launch {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) {
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  }
  return pattern == name;
}

const Unread* listed(const std::vector<const std::vector<Unread>*>& lists, std::string_view name) {
  for (const auto* list : lists) {
    for (const Unread& one : *list) {
      if (matches(one.name, name)) {
        return &one;
      }
    }
  }
  return nullptr;
}

const Rule* rule_of(const Reader& reader, std::string_view name) {
  for (const auto* list : reader.rules) {
    for (const Rule& rule : *list) {
      if (rule.name == name) {
        return &rule;
      }
    }
  }
  return nullptr;
}

bool is_flag_rule(const Rule& rule) { return rule.bare || rule.apply == yes || rule.apply == no; }

bool known(const Reader& reader, std::string_view name) {
  return rule_of(reader, name) != nullptr || listed(reader.meaningless, name) != nullptr ||
         listed(reader.unmodelled, name) != nullptr;
}

void apply(Draft& draft, const Rule& rule, const Setting& setting) {
  // "${DIR}/x" is as unknown as $X; a flag takes no value.
  const bool left_open = !setting.open.empty();
  if (left_open && !is_flag_rule(rule)) {
    if (!rule.key.empty() && draft.overridden(rule.key)) {
      return;
    }
    const std::string& variable = setting.open.front();
    const bool command = variable.starts_with('$') || variable.starts_with('`');
    std::string how = command ? "" : fmt::format("--define {}=VALUE", variable);
    if (!rule.key.empty()) {
      how += fmt::format("{}--set {}=VALUE", how.empty() ? "" : " or ", rule.key);
    }
    draft.refuse(setting, fmt::format("{} depends on {}, which has no known value; expected {}",
                                      setting.shown, command ? variable : "$" + variable,
                                      how.empty() ? "a value" : how));
    return;
  }
  // "rms_norm: false" in a file means that the flag is not set.
  const bool off = rule.bare && rule.apply != yes && rule.apply != no && !is_true(setting);
  if (off) {
    draft.meaningless(setting, "off");
  } else if (rule.apply != nullptr) {
    rule.apply(draft, setting, rule.key);
  } else if (!rule.key.empty()) {
    if (setting.value.kind == Value::Kind::null) {
      draft.refuse(setting, fmt::format("{} has no value; expected one", setting.shown));
    } else {
      draft.set(setting, rule.key, setting.value);
    }
  }
}

}  // namespace

void add_sections(const Reader& reader, std::vector<Setting>& settings) {
  for (Setting& s : settings) {
    if (known(reader, s.name)) {
      continue;
    }
    for (const auto section : reader.sections) {
      if (section == "*") {
        const std::string last = s.name.substr(s.name.rfind('.') + 1);
        if (known(reader, last)) {
          s.name = last;
        }
        break;
      }
      const std::string name = fmt::format("{}.{}", section, s.name);
      if (rule_of(reader, name) != nullptr) {
        s.name = name;
        break;
      }
    }
  }
}

void classify(Draft& draft, const Reader& reader) {
  for (const Setting& s : draft.settings()) {
    if (const Rule* rule = rule_of(reader, s.name)) {
      if (!says_nothing(s)) {
        apply(draft, *rule, s);
      }
    } else if (const Unread* unused = listed(reader.meaningless, s.name)) {
      draft.meaningless(s, unused->reason);
    } else if (const Unread* left = listed(reader.unmodelled, s.name)) {
      if (says_nothing(s)) {
        draft.meaningless(s, "not set");
      } else {
        draft.unmodelled(s, left->reason);
      }
    } else {
      draft.unknown(s);
    }
  }
}

void remark_doubts(Draft& draft, const Reader& reader, const std::vector<Setting>& doubts) {
  for (const Setting& s : doubts) {
    const Rule* rule = rule_of(reader, s.name);
    const bool harmless = says_nothing(s) && rule != nullptr && is_flag_rule(*rule) &&
                          draft.present(s.name) == nullptr;
    const bool overridden = rule != nullptr && !rule->key.empty() && draft.overridden(rule->key);
    if (!harmless && !overridden &&
        (rule != nullptr || listed(reader.meaningless, s.name) == nullptr)) {
      draft.launch().remarks.push_back(
          {s.origin, fmt::format("{} is not read here: its condition is not known", s.shown)});
    }
  }
}

}  // namespace stepcast::interop::launch
