#include "stepcast/text/map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "stepcast/base/suggestion.h"

namespace stepcast::text {

void fault(const Origin& where, std::string message) {
  throw InputError(Fault{where, std::move(message)});
}

bool Keys::contains(std::string_view key) const {
  return std::find(names.begin(), names.end(), key) != names.end();
}

std::string Keys::unknown(const std::string& key) const {
  return fmt::format("unknown key '{}'{}{}", key, after, suggests ? suggestion(key, names) : "");
}

const Value& expect_map(const Value& v, const std::string& message) {
  if (v.kind != Value::Kind::map) {
    fault(v.origin, message);
  }
  return v;
}

const Value& expect_list(const Value& v, const std::string& message) {
  if (v.kind != Value::Kind::sequence) {
    fault(v.origin, message);
  }
  return v;
}

std::vector<std::string> expect_texts(const Value& v, const std::string& message) {
  std::vector<std::string> out;
  for (const Value& item : expect_list(v, message).items) {
    out.push_back(to_string(item));
  }
  if (out.empty()) {
    fault(v.origin, message);
  }
  return out;
}

void expect_keys(const Value& map, const Keys& keys) {
  for (const Value::Entry& entry : map.entries) {
    if (!keys.contains(entry.key)) {
      fault(entry.origin, keys.unknown(entry.key));
    }
  }
}

const Value& need(const Value& map, std::string_view key) {
  const Value* v = map.find(key);
  if (v == nullptr) {
    fault(map.origin, fmt::format("key '{}' is missing", key));
  }
  return *v;
}

std::string_view kind_in_words(const Value& v, std::string_view nothing) {
  switch (v.kind) {
    case Value::Kind::null:
      return nothing;
    case Value::Kind::sequence:
      return "a list";
    case Value::Kind::map:
      return "a map";
    case Value::Kind::scalar:
      break;
  }
  return "";
}

void Faults::add(const Origin& where, std::string message) {
  faults_.push_back({where, std::move(message)});
}

void Faults::guarded(const std::function<void()>& read) {
  try {
    read();
  } catch (const InputError& error) {
    faults_.insert(faults_.end(), error.faults().begin(), error.faults().end());
  }
}

void Faults::guarded(const Origin& where, const std::string& what,
                     const std::function<void()>& read) {
  try {
    guarded(read);
  } catch (const std::invalid_argument& error) {
    add(where, fmt::format("{}: {}", what, error.what()));
  }
}

void Faults::done() {
  if (!faults_.empty()) {
    throw InputError(std::move(faults_));
  }
}

void Faults::each_entry(const Value& map, const std::string& message, const VisitEntry& visit) {
  if (map.kind != Value::Kind::map) {
    add(map.origin, message);
    return;
  }
  for (const Value::Entry& entry : map.entries) {
    guarded(entry.value.origin, entry.key, [&] { visit(entry); });
  }
}

void Faults::each_key(const Value& map, const Keys& keys, const std::string& message,
                      const VisitEntry& visit) {
  each_entry(map, message, [&](const Value::Entry& entry) {
    if (keys.contains(entry.key)) {
      visit(entry);
    } else {
      add(entry.origin, keys.unknown(entry.key));
    }
  });
}

void Faults::named(const Value& map, const std::string& what, const VisitEntry& visit) {
  each_entry(map, fmt::format("{}: expected a map", what), visit);
}

void Faults::fields(const Value& map, const std::string& what,
                    const std::map<std::string, Visit>& readers) {
  Keys keys;
  for (const auto& [name, read] : readers) {
    keys.names.push_back(name);
  }
  keys.after = fmt::format(" of {}; expected {}", what, fmt::join(keys.names, ", "));
  keys.suggests = false;
  each_key(map, keys, fmt::format("{}: expected a map", what),
           [&](const Value::Entry& entry) { readers.at(entry.key)(entry.value); });
}

void Faults::list(const Value& v, const std::string& what, const Visit& item) {
  if (v.kind != Value::Kind::sequence) {
    add(v.origin, fmt::format("{}: expected a list", what));
    return;
  }
  for (const Value& one : v.items) {
    guarded(one.origin, what, [&] { item(one); });
  }
}

double Faults::number(const Value& v, double least, const char* what) {
  const double x = to_number(v);
  if (!(x >= least)) {
    add(v.origin, fmt::format("{} is {}; expected at least {}", what, x, least));
  }
  return x;
}

}  // namespace stepcast::text
