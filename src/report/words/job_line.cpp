#include "job_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace stepcast::report {
namespace {

using Json = nlohmann::json;

const Json& at(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

std::optional<std::int64_t> whole_number(const Json& value) {
  return value.is_number() ? std::optional(static_cast<std::int64_t>(value.get<double>()))
                           : std::nullopt;
}

std::string joined(const std::vector<std::string>& parts, const char* by) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) {
      out += (out.empty() ? "" : by) + part;
    }
  }
  return out;
}

// A name ("selective"), or a setting with one ("{every: 2}" is "every 2", "{modules: [norm, mlp]}"
// is "norm, mlp").
std::string words(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_object() && !value.empty()) {
    const auto first = value.items().begin();
    if (first.value().is_array() && !first.value().empty() && first.value().front().is_string()) {
      return joined(first.value().get<std::vector<std::string>>(), ", ");
    }
    return first.value().is_number_integer()
               ? fmt::format("{} {}", first.key(), first.value().get<std::int64_t>())
               : first.key();
  }
  return "";
}

// "LoRA rank 8": what is trained instead of the model's own weights.
std::string adapters(const Json& finetune) {
  for (const auto& [kind, form] : {std::pair{"lora", "LoRA rank {}"},
                                   {"qlora", "QLoRA rank {}"},
                                   {"adapter", "adapters of width {}"},
                                   {"llama_adapter", "LLaMA-Adapter"},
                                   {"llama_adapter_v2", "LLaMA-Adapter 2"}}) {
    const Json& given = at(finetune, kind);
    if (const auto rank = whole_number(at(given, "rank"))) {
      return fmt::format(fmt::runtime(form), *rank);
    }
  }
  return "";
}

std::string grid(const Json& parallelism, std::int64_t ranks) {
  std::vector<std::string> parts;
  std::int64_t model_ranks = 1;
  for (const char* axis : {"tensor", "context", "pipeline"}) {
    const Json& given = at(parallelism, axis);
    const auto size = whole_number(given.is_object() ? at(given, "size") : given);
    if (!size || *size < 1) {
      continue;
    }
    model_ranks *= *size;
    const auto chunks = whole_number(at(parallelism, "virtual_pipeline")).value_or(1);
    const bool pipeline = std::string_view(axis) == "pipeline";
    if (*size > 1) {
      parts.push_back(pipeline && chunks > 1 ? fmt::format("pipeline {} x {} chunks", *size, chunks)
                                             : fmt::format("{} {}", axis, *size));
    }
  }
  if (parallelism.is_object() && ranks > 0 && ranks % model_ranks == 0) {
    parts.push_back(fmt::format("data {}", ranks / model_ranks));
  }
  if (const auto expert = whole_number(at(parallelism, "expert")); expert && *expert > 1) {
    parts.push_back(fmt::format("expert {}", *expert));
  }
  const std::string sharding = words(at(parallelism, "sharding"));
  parts.push_back(sharding == "none" ? "" : sharding);
  return joined(parts, ", ");
}

// Micro-batches of a rank where ranks have different numbers: by device, or the least and the
// largest number.
std::string shares(const Json& micro_batches) {
  std::vector<std::string> parts;
  if (micro_batches.is_object()) {
    for (const auto& [device, number] : micro_batches.items()) {
      parts.push_back(fmt::format("{} on {}", whole_number(number).value_or(0), device));
    }
  } else if (micro_batches.is_array() && !micro_batches.empty()) {
    std::int64_t least = whole_number(micro_batches.front()).value_or(0);
    std::int64_t most = least;
    for (const Json& one : micro_batches) {
      least = std::min(least, whole_number(one).value_or(least));
      most = std::max(most, whole_number(one).value_or(most));
    }
    parts.push_back(fmt::format("{} to {} a rank", least, most));
  }
  return parts.empty() ? "" : ": " + joined(parts, ", ");
}

}  // namespace

std::string job_line(const std::string& job_json, std::int64_t ranks) {
  const Json job = Json::parse(job_json, nullptr, false);
  if (!job.is_object()) {
    return "";
  }
  const Json& workload = at(job, "workload");
  std::string system =
      words(at(job, "system").is_object() ? at(at(job, "system"), "name") : at(job, "system"));
  const Json& assumed = at(job, "assumed");
  if (assumed.is_array() && std::find(assumed.begin(), assumed.end(), "system") != assumed.end()) {
    system = fmt::format("no system named ({}'s defaults, none of its limits)", system);
  }
  std::string batch;
  const auto sequences = whole_number(at(workload, "global_batch"));
  const auto length = whole_number(at(workload, "sequence_length"));
  if (sequences && length) {
    batch = fmt::format("{} sequences of {} tokens", *sequences, *length);
    if (const auto micro = whole_number(at(workload, "micro_batch"))) {
      batch += fmt::format(", micro-batch {}", *micro);
    }
    batch += shares(at(workload, "micro_batches"));
  }
  const std::string recompute = words(at(at(job, "memory"), "recompute"));
  return joined(
      {joined({system, words(at(workload, "precision")), adapters(at(workload, "finetune"))}, ", "),
       grid(at(job, "parallelism"), ranks), batch,
       recompute.empty() ? "" : "recompute " + recompute},
      "; ");
}

}  // namespace stepcast::report
