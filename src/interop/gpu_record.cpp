#include "gpu_record.h"

#include <cmath>

#include "gpu_names.h"
#include "stepcast/text/map.h"

namespace stepcast::interop {
namespace {

using text::Value;

constexpr double kLongest = 3600;     // seconds
constexpr double kMaxReading = 1e15;  // Hz, W, Celsius

}  // namespace

const Value* Record::get(const char* key, bool needed) {
  known_.emplace_back(key);
  const Value* v = value_.find(key);
  if (v == nullptr && needed) {
    fault(value_.origin, fmt::format("'{}' of a {} is missing", key, what_));
  }
  return v;
}

std::string Record::text(const char* key, bool may_be_empty) {
  const Value* v = get(key);
  if (v == nullptr) {
    return "";
  }
  if (v->kind != Value::Kind::scalar || !v->quoted || (v->scalar.empty() && !may_be_empty)) {
    fault(v->origin, fmt::format("{} is not text; expected a string in quotes", key));
    return "";
  }
  return v->scalar;
}

DType Record::dtype() {
  const Value* v = get("dtype");
  if (v == nullptr) {
    return DType::bf16;
  }
  if (v->kind == Value::Kind::scalar) {
    if (const auto type = parse<DType>(v->scalar)) {
      return *type;
    }
  }
  fault(v->origin,
        fmt::format("dtype is '{}'; expected one of {}", v->scalar, listed(words_of<DType>())));
  return DType::bf16;
}

std::int64_t Record::whole(const char* key, std::int64_t least, std::int64_t most) {
  const Value* v = get(key);
  return v == nullptr ? least : whole_of(*v, key, least, most);
}

std::int64_t Record::whole_or(const char* key, std::int64_t otherwise, std::int64_t most) {
  const Value* v = get(key, false);
  return v == nullptr ? otherwise : whole_of(*v, key, otherwise, most);
}

double Record::number(const char* key, bool needed) {
  const Value* v = get(key, needed);
  return v == nullptr ? 0 : number_of(*v, key, 0, kMaxReading);
}

double Record::seconds(const char* key) {
  const Value* v = get(key);
  if (v == nullptr) {
    return 1;
  }
  const double s = number_of(*v, key, -kMaxReading, kMaxReading);
  if (std::isnan(s)) {
    return 1;
  }
  if (!(s > 0) || s > kLongest) {
    fault(v->origin,
          fmt::format("{} is {} s; expected a time above 0 and to {:.0f} s", key, s, kLongest));
    return 1;
  }
  return s;
}

bool Record::flag(const char* key, bool needed) {
  const Value* v = get(key, needed);
  if (v == nullptr) {
    return false;
  }
  if (v->kind != Value::Kind::scalar || v->quoted ||
      (v->scalar != "true" && v->scalar != "false")) {
    fault(v->origin, fmt::format("{} is '{}'; expected true or false", key, v->scalar));
    return false;
  }
  return v->scalar == "true";
}

void Record::close() {
  for (const auto& entry : value_.entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
      const std::string near = nearest(entry.key, known_);
      const text::Keys keys{known_,
                            fmt::format(" of a {}; expected {}", what_,
                                        near.empty() ? listed(known_) : "'" + near + "'"),
                            false};
      fault(entry.origin, keys.unknown(entry.key));
    }
  }
}

void Record::fault(const Origin& where, std::string message) {
  good_ = false;
  faults_.push_back({where, std::move(message)});
}

std::int64_t Record::whole_of(const Value& v, const char* key, std::int64_t least,
                              std::int64_t most) {
  try {
    if (v.quoted) {
      throw InputError(Fault{v.origin, fmt::format("'{}' is quoted", v.scalar)});
    }
    const std::int64_t n = text::to_integer(v);
    if (n >= least && n <= most) {
      return n;
    }
    fault(v.origin, fmt::format("{} is {}; expected {} to {}", key, n, least, most));
  } catch (const InputError& error) {
    fault(v.origin, fmt::format("{}: {}", key, error.faults().front().message));
  }
  return least;
}

double Record::number_of(const Value& v, const char* key, double least, double most) {
  try {
    if (v.quoted) {
      throw InputError(Fault{v.origin, fmt::format("'{}' is quoted; expected a number", v.scalar)});
    }
    const double n = text::to_number(v);
    if (n >= least && n <= most) {
      return n;
    }
    fault(v.origin, fmt::format("{} is {}; expected {} to {}", key, n, least, most));
  } catch (const InputError& error) {
    fault(v.origin, fmt::format("{}: {}", key, error.faults().front().message));
  }
  return std::nan("");
}

}  // namespace stepcast::interop
