#include "json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stepcast/base/diagnostics.h"

namespace stepcast::report {
namespace {

std::string quoted(std::string_view text) {
  // File names and provenance may hold any byte: broken UTF-8 is replaced, never thrown.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const auto last = text.find_last_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string()
                                         : std::string(text.substr(first, last - first + 1));
}

}  // namespace

void JsonWriter::line_break() {
  out_ += '\n';
  out_.append(2 * levels_.size(), ' ');
}

void JsonWriter::value_follows() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) {
    return;
  }
  Level& level = levels_.back();
  if (!level.empty) {
    out_ += level.flat ? ", " : ",";
  }
  if (!level.flat) {
    line_break();
  }
  level.empty = false;
}

JsonWriter& JsonWriter::open(char opening, char closing, bool flat) {
  value_follows();
  out_ += opening;
  levels_.push_back({closing, flat || (!levels_.empty() && levels_.back().flat)});
  return *this;
}

JsonWriter& JsonWriter::close() {
  STEPCAST_CHECK(!levels_.empty() && !after_key_, "a JSON container was closed out of turn");
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.flat && !level.empty) {
    line_break();
  }
  out_ += level.closing;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value_follows();
  out_ += quoted(name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  value_follows();
  out_ += quoted(value);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
  value_follows();
  out_ += fmt::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  value_follows();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  value_follows();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) {
    return null();
  }
  value_follows();
  out_ += fmt::format("{}", value == 0 ? 0.0 : value);  // no "-0"
  return *this;
}

JsonWriter& JsonWriter::fixed_seconds(double value) {
  if (!std::isfinite(value)) {
    return null();
  }
  value_follows();
  out_ += fmt::format("{:.12f}", value == 0 ? 0.0 : value);
  return *this;
}

JsonWriter& JsonWriter::time(Time value) {
  value_follows();
  constexpr std::uint64_t kSecond = 1'000'000'000'000;  // picoseconds
  const std::int64_t count = value.count();
  const std::uint64_t size = count < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(count)
                                       : static_cast<std::uint64_t>(count);
  out_ += fmt::format("{}{}.{:012}", count < 0 ? "-" : "", size / kSecond, size % kSecond);
  return *this;
}

JsonWriter& JsonWriter::document(std::string_view json) {
  value_follows();
  const std::string body = trimmed(json);
  for (const char c : body.empty() ? "{}" : body) {
    out_ += c;
    if (c == '\n') {
      out_.append(2 * levels_.size(), ' ');
    }
  }
  return *this;
}

std::string JsonWriter::finish() && {
  STEPCAST_CHECK(levels_.empty(), "a JSON container was left open");
  out_ += '\n';
  return std::move(out_);
}

}  // namespace stepcast::report
