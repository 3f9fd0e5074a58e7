#include "value.h"

#include <fmt/format.h>

#include <cmath>

#include "../text/format.h"
#include "stepcast/base/calendar.h"

namespace stepcast::report {

// These are not inline, since the compiler would then warn of parts of a variant that it takes for
// uninitialized.
Value::Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value::Value(bool v) : kind_(v) {}
Value::Value(std::int64_t v) : kind_(v) {}
Value::Value(double v) : kind_(v) {}
Value::Value(std::string v) : kind_(std::move(v)) {}
Value::Value(std::string_view v) : kind_(std::string(v)) {}
Value::Value(const char* v) : kind_(std::string(v)) {}
Value::Value(Bytes v) : kind_(std::int64_t{v.count()}) {}
Value::Value(Time v) : kind_(v) {}
Value::Value(Seconds v) : kind_(v) {}
Value::Value(const result::Estimate& v) : kind_(Interval{v}) {}
Value::Value(Interval v) : kind_(v) {}
Value::Value(Document v) : kind_(std::move(v)) {}
Value::Value(List v) : kind_(std::move(v)) {}
Value::Value(Object v) : kind_(std::move(v)) {}

namespace {

Value texts_value(std::vector<std::string> texts, bool one_line) {
  const std::size_t size = texts.size();
  return List{size, [texts = std::move(texts)](std::size_t i) { return Value(texts[i]); },
              one_line};
}

}  // namespace

Value::Value(const std::vector<std::string>& texts) : Value(texts_value(texts, true)) {}
Value lines(const std::vector<std::string>& texts) { return texts_value(texts, false); }

Value object(Record fields, bool one_line) { return Object{std::move(fields), one_line}; }

Value named(const std::vector<std::pair<std::string, double>>& numbers) {
  Record out;
  for (const auto& [name, number] : numbers) {
    out.push_back({name, number});
  }
  return object(std::move(out));
}

Value text_or_null(const std::string& text) { return text.empty() ? Value() : Value(text); }
Value if_known(bool known, Value value) { return known ? std::move(value) : Value(); }
Value or_dash(bool known, Value value) { return known ? std::move(value) : Value("-"); }

void append(Record& record, Record more) {
  record.insert(record.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

std::optional<double> number_of(const Value& value) {
  struct Number {
    std::optional<double> operator()(bool v) const { return v ? 1.0 : 0.0; }
    std::optional<double> operator()(std::int64_t v) const { return static_cast<double>(v); }
    std::optional<double> operator()(double v) const { return v; }
    std::optional<double> operator()(Time v) const { return to_seconds(v); }
    std::optional<double> operator()(Seconds v) const { return v.value; }
    std::optional<double> operator()(const Interval& v) const { return v.estimate.value; }
    std::optional<double> operator()(const std::monostate&) const { return std::nullopt; }
    std::optional<double> operator()(const std::string&) const { return std::nullopt; }
    std::optional<double> operator()(const Document&) const { return std::nullopt; }
    std::optional<double> operator()(const List&) const { return std::nullopt; }
    std::optional<double> operator()(const Object&) const { return std::nullopt; }
  };
  return std::visit(Number(), value.kind());
}

std::string shown(const Value& value, Show show) {
  if (const auto* text = std::get_if<std::string>(&value.kind())) {
    return *text;
  }
  if (const auto* flag = std::get_if<bool>(&value.kind())) {
    return *flag ? "yes" : "no";
  }
  const auto* whole = std::get_if<std::int64_t>(&value.kind());
  if (whole != nullptr && (show == Show::text || show == Show::number)) {
    return fmt::to_string(*whole);
  }
  const std::optional<double> number = number_of(value);
  if (!number) {
    return "";
  }
  switch (show) {
    case Show::count:
      return thousands(static_cast<std::int64_t>(*number));
    case Show::three:
      return significant(*number, 3);
    case Show::four:
      return significant(*number, 4);
    case Show::six:
      return fmt::format("{:.6g}", *number);
    case Show::brief:
      return fmt::format("{:.4g}", *number);
    case Show::signed_1:
      return fmt::format("{:+.1f}", *number);
    case Show::duration:
      return duration(*number);
    case Show::percent:
      return percent(*number);
    case Show::change:
      return signed_percent(*number);
    case Show::gib:
      return gibibytes(*number);
    case Show::size:
      return data_size(*number);
    case Show::rate:
      return rate(*number);
    case Show::money:
      return money(*number);
    case Show::megawatt_hours:
      return thousands(static_cast<std::int64_t>(*number / kMegawattHour + 0.5));
    case Show::megawatts:
      return significant(*number * 1e-6, 3);
    case Show::tonnes:
      return thousands(static_cast<std::int64_t>(*number * 1e-3 + 0.5));
    default:
      return fmt::format("{}", *number);
  }
}

}  // namespace stepcast::report
