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

std::string json_fit(const result::Fit& fit) {
  return fmt::format("[{}, {}, {}]", fit.fits,
                     fit.probability ? json_number(*fit.probability) : "null", fit.spare.count());
}

result::Fit fit_of(const text::Value& v) {
  if (v.items.size() != 3) {
    throw InputError(Fault{v.origin, "expected whether it fits, its probability, and spare bytes"});
  }
  result::Fit out{text::to_bool(v.items[0]), std::nullopt, Bytes(count_of(v.items[2]))};
  if (v.items[1].kind != text::Value::Kind::null) {
    out.probability = number_of(v.items[1]);
  }
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
