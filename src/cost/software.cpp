#include "stepcast/cost/software.h"

#include <fmt/format.h>

#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::fault;
using text::Value;

// `value` of an entry {value, source}.
double value_of(const std::string& name, const Value& entry, double least, double most) {
  const Value* value = entry.kind == Value::Kind::map ? entry.find("value") : nullptr;
  const Value* source = entry.kind == Value::Kind::map ? entry.find("source") : nullptr;
  if (value == nullptr || source == nullptr || entry.entries.size() != 2) {
    fault(entry.origin, fmt::format("{}: expected the keys value and source", name));
  }
  const double x = text::to_number(*value);
  if (!(x >= least && x <= most)) {
    fault(value->origin, fmt::format("{} is {}; expected {} to {}", name, x, least, most));
  }
  return x;
}

}  // namespace

Software read_software(const std::filesystem::path& calibration) {
  const std::filesystem::path file = calibration / "software.yaml";
  Software out;
  if (!std::filesystem::exists(file)) {
    return out;
  }
  const Value all = text::read_yaml(file);
  for (const auto& entry : text::expect_map(all, "expected a map of constants").entries) {
    if (entry.key == "mxfp8_cast") {
      out.mxfp8_cast = value_of(entry.key, entry.value, 1, 10);
    } else if (entry.key == "column_cast_ps") {
      out.column_cast = 1e-12 * value_of(entry.key, entry.value, 0, 1000);
    } else if (entry.key == "single_elements") {
      out.single_elements = value_of(entry.key, entry.value, 0, 1000);
    } else if (entry.key == "block_cast") {
      out.block_cast = value_of(entry.key, entry.value, 1, 10);
    } else if (entry.key == "tokens_beside") {
      out.tokens_beside = value_of(entry.key, entry.value, 1, 10);
    } else if (entry.key == "user_buffer_step_us") {
      out.user_buffer_step = seconds(1e-6 * value_of(entry.key, entry.value, 0, 1000));
    } else if (entry.key == "listed_experts") {
      constexpr double kMaxValue = 10'000;
      out.listed_experts = static_cast<int>(value_of(entry.key, entry.value, 1, kMaxValue));
    } else if (entry.key == "collective_launches") {
      constexpr double kMaxValue = 1000;
      out.collective_launches = static_cast<int>(value_of(entry.key, entry.value, 1, kMaxValue));
    } else {
      fault(entry.origin,
            fmt::format("unknown constant '{}'; expected mxfp8_cast, block_cast, column_cast_ps, "
                        "single_elements, tokens_beside, user_buffer_step_us, listed_experts "
                        "or collective_launches",
                        entry.key));
    }
  }
  return out;
}

}  // namespace stepcast::cost
