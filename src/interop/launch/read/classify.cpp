#include "classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  const bool flag = !rule.off.empty() || (rule.bare && rule.apply != yes && rule.apply != no);
  if (flag && !is_true(setting)) {
    if (!rule.off.empty() && !draft.stated(rule.key)) {
      draft.set(setting, rule.key, rule.off);
    } else {
      draft.meaningless(setting, "off");
    }
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

void add_section(const Reader& reader, Setting& s) {
  if (known(reader, s.name)) {
    return;
  }
  for (const auto section : reader.sections) {
    if (section == "*") {
      const std::size_t dot = s.name.rfind('.');
      const std::string last = s.name.substr(dot + 1);
      if (dot != std::string::npos && known(reader, last)) {
        s.section = s.name.substr(0, dot);
        s.name = last;
      }
      return;
    }
    const std::string name = fmt::format("{}.{}", section, s.name);
    if (rule_of(reader, name) != nullptr) {
      s.name = name;
      return;
    }
  }
}

// Launchers may name an option several times.
bool counts_once(const Reader& reader, const Setting& s) {
  return rule_of(reader, s.name) != nullptr || (listed(reader.meaningless, s.name) == nullptr &&
                                                listed(reader.unmodelled, s.name) != nullptr);
}
// DeepSpeed's "auto" leaves the option to the trainer, wherever that states it.
constexpr std::string_view kAccumulation = "gradient-accumulation-steps";
bool leaves_open(const Setting& s) {
  return s.name == kAccumulation && plain_text(s.value) == "auto";
}

// The settings behind the one that is looked at, which may override it.
class Later {
 public:
  void add(const Setting& s) {
    auto& same = by_name_[s.name];
    constexpr std::size_t kMostSections = 256;  // in which one name is told apart
    if (same.size() < kMostSections) {
      same.push_back(&s);
    }
    if (says_nothing(s)) {
      nulls_.try_emplace(canonical(s.shown), &s);
    }
  }
  // The last one that overrides `s`: one of the same option, or null where `s` lies below it.
  const Setting* over(const Setting& s) const {
    if (const auto found = by_name_.find(s.name); found != by_name_.end()) {
      for (const Setting* by : found->second) {
        if (same_option(*by, s)) {
          return by;
        }
      }
    }
    return nulls_.empty() ? nullptr : null_above(canonical(s.shown));
  }

 private:
  const Setting* null_above(std::string_view name) const {
    for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
         dot = name.find('.', dot + 1)) {
      if (const auto found = nulls_.find(name.substr(0, dot)); found != nulls_.end()) {
        return found->second;
      }
    }
    return nullptr;
  }

  std::map<std::string, std::vector<const Setting*>, std::less<>> by_name_;
  std::map<std::string, const Setting*, std::less<>> nulls_;
};

}  // namespace

void add_sections(const Reader& reader, std::vector<Setting>& settings) {
  for (Setting& s : settings) {
    add_section(reader, s);
    if (const Rule* rule = rule_of(reader, s.name); rule != nullptr && !rule->same_as.empty()) {
      s.name = rule->same_as;
    }
  }
}

std::vector<LaunchOption> take_overridden(const Reader& reader, std::vector<Setting>& settings) {
  std::vector<LaunchOption> out;
  std::vector<Setting> kept;
  Later later;
  const bool accumulates = std::any_of(settings.begin(), settings.end(), [](const Setting& s) {
    return s.name == kAccumulation && !leaves_open(s);
  });
  for (auto s = settings.rbegin(); s != settings.rend(); ++s) {
    if (accumulates && leaves_open(*s)) {
      out.push_back({s->shown, plain_text(s->value), s->origin, "the trainer states it"});
      continue;
    }
    const Setting* by = counts_once(reader, *s) ? later.over(*s) : nullptr;
    if (by == nullptr) {
      kept.push_back(*s);
    } else {
      out.push_back({s->shown, plain_text(s->value), s->origin,
                     fmt::format("overridden by {}", to_string(by->origin))});
    }
    later.add(*s);
  }
  std::reverse(kept.begin(), kept.end());
  std::reverse(out.begin(), out.end());
  settings = std::move(kept);
  return out;
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
    const Setting* stated = draft.present(s.name);
    const bool overridden =
        (rule != nullptr && !rule->key.empty() && draft.overridden(rule->key)) ||
        (stated != nullptr && stated->origin.line == 0 && same_option(*stated, s));
    if (!harmless && !overridden &&
        (rule != nullptr || listed(reader.meaningless, s.name) == nullptr)) {
      draft.launch().remarks.push_back(
          {s.origin, fmt::format("{} is not read here: its condition is not known", s.shown)});
    }
  }
}

}  // namespace stepcast::interop::launch
