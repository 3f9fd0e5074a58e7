#include "file_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace stepcast::planner {

using text::Value;

void FileReader::guarded(const Origin& where, const std::string& key,
                         const std::function<void()>& read) {
  try {
    read();
  } catch (const InputError& error) {
    faults_.insert(faults_.end(), error.faults().begin(), error.faults().end());
  } catch (const std::invalid_argument& error) {
    fault(where, fmt::format("{}: {}", key, error.what()));
  }
}

void FileReader::map(const Value& v, const std::string& what, const Fields& fields) {
  named(v, what, [&](const Value::Entry& entry) {
    const auto at = fields.find(entry.key);
    if (at == fields.end()) {
      std::vector<std::string> names;
      for (const auto& [name, read] : fields) {
        names.push_back(name);
      }
      fault(entry.origin, fmt::format("unknown key '{}' of {}; expected {}", entry.key, what,
                                      fmt::join(names, ", ")));
      return;
    }
    at->second(entry.value);
  });
}

void FileReader::named(const Value& v, const std::string& what,
                       const std::function<void(const Value::Entry&)>& entry) {
  if (v.kind != Value::Kind::map) {
    fault(v.origin, fmt::format("{}: expected a map", what));
    return;
  }
  for (const Value::Entry& one : v.entries) {
    guarded(one.value.origin, one.key, [&] { entry(one); });
  }
}

void FileReader::list(const Value& v, const std::string& what,
                      const std::function<void(const Value&)>& item) {
  if (v.kind != Value::Kind::sequence) {
    fault(v.origin, fmt::format("{}: expected a list", what));
    return;
  }
  for (const Value& one : v.items) {
    guarded(one.origin, what, [&] { item(one); });
  }
}

double FileReader::number(const Value& v, double least, const char* what) {
  const double x = text::to_number(v);
  if (!(x >= least)) {
    fault(v.origin, fmt::format("{} is {}; expected at least {}", what, x, least));
  }
  return x;
}

Seconds FileReader::time(const Value& v) {
  const double s = to_seconds(parse_time(text::to_string(v)));
  if (s < 0) {
    fault(v.origin, fmt::format("'{}' is below zero", v.scalar));
  }
  return Seconds(s);
}

Bandwidth FileReader::bandwidth(const Value& v) {
  const Bandwidth b = parse_bandwidth(text::to_string(v));
  if (!(b.count() > 0)) {
    fault(v.origin, fmt::format("'{}'; expected a bandwidth above zero", v.scalar));
  }
  return b;
}

void FileReader::fault(const Origin& where, std::string message) {
  faults_.push_back({where, std::move(message)});
}

void FileReader::done() {
  if (!faults_.empty()) {
    std::stable_sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) {
      return std::pair(a.where.line, a.where.column) < std::pair(b.where.line, b.where.column);
    });
    throw InputError(std::move(faults_));
  }
}

}  // namespace stepcast::planner
