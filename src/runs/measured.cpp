#include "measured.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "stepcast/base/quantity.h"

namespace stepcast::runs {
namespace {

using text::fault;
using text::Value;

template <class E>
std::vector<std::string> names_of() {
  const auto words = words_of<E>();
  return {words.begin(), words.end()};
}

template <class E>
E word_of(const Value& v, const char* what) {
  if (const auto found = parse<E>(text::to_string(v))) {
    return *found;
  }
  fault(v.origin,
        fmt::format("{} is '{}'; expected {}", what, v.scalar, one_of_words(names_of<E>())));
}

double positive(const Value& v, const std::string& key) {
  const double x = text::to_number(v);
  if (!(x > 0)) {
    fault(v.origin, fmt::format("{} is {}; expected a number above 0", key, x));
  }
  return x;
}

double fraction(const Value& v, const std::string& key) {
  const double x = positive(v, key);
  if (x > 1) {
    fault(v.origin, fmt::format("{} is {}; expected a fraction of at most 1", key, x));
  }
  return x;
}

// One value, or a list of repeats.
std::vector<double> repeats(const Value& v, const std::string& key) {
  if (v.kind != Value::Kind::sequence) {
    return {positive(v, key)};
  }
  std::vector<double> out;
  for (const Value& one : v.items) {
    out.push_back(positive(one, key));
  }
  if (out.empty()) {
    fault(v.origin, fmt::format("{} is an empty list; expected measured values", key));
  }
  return out;
}

// A job's process has this much before it holds a single weight (CUDA's context alone takes some
// 300 MB): fewer bytes are gigabytes whose unit was forgotten. An operator by itself may hold less.
constexpr double kLeastOfJob = 1e6;

// Bytes: a number, or a text with a unit, "64.1 GiB".
double bytes_of(const Value& v, const std::string& key, bool of_operator) {
  double x = 0;
  if (v.kind == Value::Kind::scalar && v.quoted) {
    try {
      x = static_cast<double>(parse_bytes(v.scalar).count());
    } catch (const std::invalid_argument& error) {
      fault(v.origin, fmt::format("{}: {}", key, error.what()));
    }
  } else {
    x = positive(v, key);
  }
  if (x < kLeastOfJob && !of_operator) {
    fault(v.origin,
          fmt::format("{} is {} bytes, which no training process has; expected bytes such "
                      "as 64.1e9, or \"64.1 GiB\"",
                      key, x));
  }
  return x;
}

const text::Keys kMemoryKeys = {{"kind", "rank", "bytes", "since"}, " of a measured memory"};

// {"kind": "reserved", "rank": 7, "bytes": 61203283968, "since": "start"}
Measurement memory_reading(const Value& map, Quantity quantity, const std::string& key,
                           bool of_operator) {
  text::expect_map(map, "expected {\"kind\": \"reserved\", \"bytes\": 61203283968}");
  text::expect_keys(map, kMemoryKeys);
  Measurement out{quantity, {}};
  if (const Value* kind = map.find("kind")) {
    out.kind = word_of<MemoryKind>(*kind, "kind");
  }
  if (const Value* rank = map.find("rank")) {
    const std::int64_t n = text::to_integer(*rank);
    if (n < 0 || n > 10'000'000) {
      fault(rank->origin, fmt::format("rank is {}; expected 0 to 10,000,000", n));
    }
    out.rank = static_cast<int>(n);
  }
  if (const Value* since = map.find("since")) {
    if (text::to_string(*since) != "start") {
      fault(since->origin, fmt::format("since is '{}'; expected start", since->scalar));
    }
    out.since_start = true;
  }
  out.values = {bytes_of(text::need(map, "bytes"), key, of_operator)};
  return out;
}

void add_memory(const Value& v, Quantity quantity, const std::string& key, bool of_operator,
                std::vector<Measurement>& out) {
  if (v.kind == Value::Kind::sequence) {
    for (const Value& one : v.items) {
      out.push_back(memory_reading(one, quantity, key, of_operator));
    }
    if (v.items.empty()) {
      fault(v.origin, fmt::format("{} is an empty list; expected measured values", key));
    }
  } else if (v.kind == Value::Kind::map) {
    out.push_back(memory_reading(v, quantity, key, of_operator));
  } else {
    out.push_back({quantity, {bytes_of(v, key, of_operator)}});
  }
}

}  // namespace

std::string one_of_words(std::vector<std::string> words) {
  const std::string last = words.back();
  words.pop_back();
  return words.empty() ? last : fmt::format("{} or {}", fmt::join(words, ", "), last);
}

std::vector<Measurement> measured_of(const Value& map, bool of_operator, text::Faults& faults) {
  static const text::Keys keys = {names_of<Quantity>(), " of measured quantities"};
  std::vector<Measurement> out;
  faults.each_key(
      map, keys, "expected measured quantities, such as {\"step_time\": 8.5}",
      [&](const Value::Entry& entry) {
        const Quantity quantity = *parse<Quantity>(entry.key);
        const Value& v = entry.value;
        if (quantity == Quantity::step_time) {
          out.push_back({quantity, repeats(v, entry.key)});
        } else if (quantity == Quantity::peak_memory || quantity == Quantity::steady_memory) {
          add_memory(v, quantity, entry.key, of_operator, out);
        } else if (quantity == Quantity::outcome) {
          const bool failed = word_of<Outcome>(v, "outcome") == Outcome::out_of_memory;
          out.push_back({quantity, {failed ? 1.0 : 0.0}});
        } else if (quantity == Quantity::mfu || quantity == Quantity::hfu) {
          out.push_back({quantity, {fraction(v, entry.key)}});
        } else {
          out.push_back({quantity, {positive(v, entry.key)}});
        }
      });
  return out;
}

}  // namespace stepcast::runs
