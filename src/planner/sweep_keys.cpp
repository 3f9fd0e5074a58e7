#include "sweep_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stepcast/input/input.h"
#include "stepcast/store/payload.h"
#include "stepcast/store/store.h"

namespace stepcast::planner {
namespace {

using Overrides = std::vector<std::string>;

// A number or a switch stands for itself.
bool plain(const std::string& value) {
  return value == "true" || value == "false" ||
         (!value.empty() && value.find_first_not_of("0123456789.+-eE") == std::string::npos);
}

// The job with these overrides by all that it resolves to; what is wrong with it where it is no
// job.
std::string meaning(const std::string& config, const Overrides& overrides) {
  try {
    return store::job_key(input::load(config, overrides));
  } catch (const InputError& error) {
    std::string all;
    for (const Fault& fault : error.faults()) {
      all += to_string(fault) + "\n";
    }
    return store::digest(all);
  }
}

// A space as text.
std::string flat(const text::Value& v) {
  std::string out = v.scalar;
  for (const text::Value& item : v.items) {
    out += "[" + flat(item) + "]";
  }
  for (const auto& entry : v.entries) {
    out += "{" + entry.key + ":" + flat(entry.value) + "}";
  }
  return out;
}

// What those files say that a faulty job stands in: its resolved form has nothing of them.
std::string text_of(const std::string& config) {
  std::error_code none;
  return std::filesystem::is_regular_file(config, none) ? text::read_text(config) : config;
}

}  // namespace

SweepKeys::SweepKeys(const SweepRequest& request) {
  std::string all = meaning(request.config, request.overrides) + text_of(request.config);
  all +=
      fmt::format(" {} {}", static_cast<int>(request.fidelity), fmt::join(request.overrides, " "));
  if (request.optimize) {
    all += fmt::format(" {} {}", static_cast<int>(request.optimize->objective),
                       flat(request.optimize->space));
  }
  base_ = store::digest(all);
  for (const result::SweepAxis& axis : request.axes) {
    for (const auto& values : axis.values) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!plain(values[k])) {
          const std::string text = fmt::format("{}={}", axis.keys[k], values[k]);
          Overrides overrides = request.overrides;
          overrides.push_back(text);
          meanings_.emplace(text, meaning(request.config, overrides));
        }
      }
    }
  }
}

std::string SweepKeys::key(const Overrides& overrides) const {
  std::string out = "sweep " + base_;
  for (const std::string& text : overrides) {
    out += " " + text;
    if (const auto at = meanings_.find(text); at != meanings_.end()) {
      out += "@" + at->second;
    }
  }
  return out;
}

}  // namespace stepcast::planner
