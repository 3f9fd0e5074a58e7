#include "stepcast/store/payload.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "stepcast/store/store.h"

namespace stepcast::store {

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value);
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

const text::Value& field(const text::Value& map, const char* key) {
  if (const text::Value* found = map.find(key)) {
    return *found;
  }
  throw InputError(Fault{map.origin, fmt::format("lacks '{}'", key)});
}

// The structured binding names every field, so this does not compile until an added field is
// written too.
std::string json_fit(const result::Fit& fit) {
  const auto& [fits, probability, spare, needed, frees_cache] = fit;
  return fmt::format("[{}, {}, {}, {}, {}]", fits, probability ? json_number(*probability) : "null",
                     spare.count(),
                     needed ? fmt::format("[{}, {}, {}]", json_number(needed->value),
                                          json_number(needed->low), json_number(needed->high))
                            : "null",
                     frees_cache);
}

result::Fit fit_of(const text::Value& v) {
  constexpr std::size_t kFields = 5;
  if (v.items.size() != kFields ||
      (v.items[3].kind != text::Value::Kind::null && v.items[3].items.size() != 3)) {
    throw InputError(Fault{v.origin,
                           "expected whether it fits, its probability, spare bytes, the "
                           "bytes that it needs, and whether cached blocks count"});
  }
  result::Fit out{text::to_bool(v.items[0]), std::nullopt, Bytes(count_of(v.items[2]))};
  if (v.items[1].kind != text::Value::Kind::null) {
    out.probability = number_of(v.items[1]);
  }
  if (v.items[3].kind != text::Value::Kind::null) {
    const std::vector<text::Value>& needed = v.items[3].items;
    out.needed = {number_of(needed[0]), number_of(needed[1]), number_of(needed[2])};
  }
  out.frees_cache = text::to_bool(v.items[4]);
  return out;
}

double number_of(const text::Value& v) { return std::strtod(v.scalar.c_str(), nullptr); }

std::int64_t count_of(const text::Value& v) { return std::strtoll(v.scalar.c_str(), nullptr, 10); }

std::string job_key(const config::Loaded& job) {
  std::string all = config::to_json(job.job);
  for (const auto& [key, where] : job.origins) {
    all += fmt::format("{} {}\n", key, std::filesystem::path(where.file).filename().string());
  }
  for (const std::string& file : job.job.calibration) {
    if (std::filesystem::is_regular_file(file)) {
      all += text::read_text(file);
    }
  }
  return digest(all);
}

}  // namespace stepcast::store
