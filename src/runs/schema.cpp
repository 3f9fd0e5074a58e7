// JSON Schema of one line of a file of runs.
#include <nlohmann/json.hpp>
#include <string>

#include "stepcast/runs/read.h"

namespace stepcast::runs {
namespace {

using Json = nlohmann::ordered_json;

template <class E>
Json words() {
  Json out = Json::array();
  for (const std::string_view word : words_of<E>()) {
    out.push_back(std::string(word));
  }
  return out;
}

const char* describe(Quantity q) {
  switch (q) {
    case Quantity::step_time:
      return "seconds of one optimizer step; a list: repeats";
    case Quantity::tokens_per_second:
    case Quantity::tokens_per_second_per_gpu:
      return "tokens a second";
    case Quantity::sequences_per_second:
    case Quantity::sequences_per_second_per_gpu:
      return "sequences a second";
    case Quantity::model_flops_per_second_per_gpu:
      return "FLOP/s of one GPU as `flops` counts them";
    case Quantity::mfu:
      return "model FLOP/s over the GPU's peak, a fraction";
    case Quantity::hfu:
      return "FLOP/s with recomputation over the GPU's peak, a fraction";
    case Quantity::layer_time:
    case Quantity::layer_forward_time:
    case Quantity::layer_backward_time:
      return "seconds of one layer by itself";
    case Quantity::experts_time:
    case Quantity::experts_forward_time:
    case Quantity::experts_backward_time:
      return "seconds of the mixture of experts of one layer by itself";
    case Quantity::peak_memory:
      return "largest bytes over a step, a number or a text with a unit: allocated on the fullest "
             "rank, or readings with kind and rank";
    case Quantity::steady_memory:
      return "bytes allocated between steps";
    case Quantity::outcome:
      return "whether the run fits in memory";
  }
  return "";
}

Json quantity_schema(Quantity q) {
  const Json number = {{"type", "number"}, {"exclusiveMinimum", 0}};
  Json out = {{"description", describe(q)}};
  if (q == Quantity::step_time) {
    out["anyOf"] = {number, {{"type", "array"}, {"items", number}, {"minItems", 1}}};
  } else if (q == Quantity::outcome) {
    out["enum"] = words<Outcome>();
  } else if (is_of_memory(q)) {
    const Json bytes = {
        {"anyOf", {number, {{"type", "string"}, {"description", "with a unit: 64.1 GiB"}}}}};
    const Json reading = {{"type", "object"},
                          {"required", {"bytes"}},
                          {"additionalProperties", false},
                          {"properties",
                           {{"bytes", bytes},
                            {"kind", {{"enum", words<MemoryKind>()}}},
                            {"rank", {{"type", "integer"}, {"minimum", 0}}},
                            {"since", {{"const", "start"}}}}}};
    out["anyOf"] = {bytes, reading, {{"type", "array"}, {"items", reading}, {"minItems", 1}}};
  } else {
    out.update(number);
    if (q == Quantity::mfu || q == Quantity::hfu) {
      out["maximum"] = 1;
    }
  }
  return out;
}

}  // namespace

std::string schema() {
  const Json text = {{"type", "string"}};
  Json measured = Json::object();
  for (const auto& [quantity, word] : spellings(Quantity{})) {
    measured[word] = quantity_schema(quantity);
  }
  Json operators = {{"type", "object"}, {"required", {"kernel", "sizes"}}};
  const Json out = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title",
       "A measured run: one line of a file for simulate validate and simulate calibrate runs"},
      {"type", "object"},
      {"required", {"measured"}},
      {"oneOf",
       {{{"required", {"config"}}}, {{"required", {"job"}}}, {{"required", {"operator"}}}}},
      {"additionalProperties", false},
      {"properties",
       {{"id", text},
        {"source", text},
        {"date", text},
        {"notes", text},
        {"config",
         {{"type", "string"},
          {"description", "a job file beside this file, or a name in configs/"}}},
        {"job",
         {{"type", "object"},
          {"description", "the job itself, as in a job file (simulate schema)"}}},
        {"operator", std::move(operators)},
        {"set", {{"type", "array"}, {"items", text}, {"description", "keys of the job, as --set"}}},
        {"measured",
         {{"type", "object"},
          {"minProperties", 1},
          {"additionalProperties", false},
          {"properties", std::move(measured)}}},
        {"flops", {{"enum", words<model::FlopConvention>()}}},
        {"assumed",
         {{"type", "object"},
          {"additionalProperties", text},
          {"description",
           "keys of the job that the source does not state, each with the reason of its "
           "value"}}}}}};
  return out.dump(2);
}

}  // namespace stepcast::runs
