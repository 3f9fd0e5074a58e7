// A row's configuration on its way to a job file: what several of its parts ask, and the parts.
// Each part writes its keys, and says what it assumed where the row leaves them open.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fields.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::interop {

using Json = nlohmann::ordered_json;  // JSON is YAML: the job is written as such

// Half widths (90 %) by which an unknown fact may move the step time; judgement, rounded up from
// the spread between the framework's two likeliest choices.
inline constexpr double kNetworkUnknown = 0.03;
inline constexpr double kAttentionUnknown = 0.05;
inline constexpr double kRecomputeUnknown = 0.08;
inline constexpr double kMicroBatchUnknown = 0.05;
inline constexpr double kVocabUnknown = 0.02;
inline constexpr double kPrecisionUnknown = 0.01;
inline constexpr double kFrameworkUnknown = 0.05;
inline constexpr double kSizeUnknown = 0.02;
inline constexpr double kDeviceMemoryUnknown = 0.02;
inline constexpr double kDispatcherUnknown = 0.05;
inline constexpr double kScheduleUnknown = 0.05;
inline constexpr double kFinetuneUnknown = 0.05;
inline constexpr double kLossMemoryUnknown = 0.10;  // logits in full or chunk by chunk
// Of memory: rank and modules, and whether embedding and head are trained as well.
inline constexpr double kFinetuneMemoryUnknown = 0.15;

struct RowBuilder {
  Fields row;
  Fields model = row["model"], parallel = row["parallel"], job = row["job"],
         flags = row["extra_args"];
  Json out = Json::object();
  RowJob result;

  explicit RowBuilder(Fields fields) : row(fields) {}

  void assume(std::string what, double half_width) {
    result.assumptions.push_back({std::move(what), half_width, half_width});
  }
  void assume(std::string what, double half_width, double of_memory) {
    result.assumptions.push_back({std::move(what), half_width, of_memory});
  }

  std::int64_t tp() const { return parallel["tp"].count_or(1); }
  std::int64_t pp() const { return parallel["pp"].count_or(1); }
  std::int64_t vpp() const;
  bool interleaves_unsaid() const;
  std::int64_t cp() const { return parallel["cp"].count_or(1); }
  std::int64_t ep() const { return parallel["ep"].count_or(1); }
  std::int64_t model_parallel() const { return tp() * pp() * cp(); }
  bool functional() const { return flags.is_map(); }

  std::int64_t ranks() {
    if (const auto n = row["num_gpus"].count()) {
      return *n;
    }
    if (const auto dp = parallel["dp"].count()) {
      return *dp * model_parallel();
    }
    return (std::max<std::int64_t>(8, model_parallel()) / model_parallel()) * model_parallel();
  }
  std::int64_t dp() {
    return parallel["dp"].count_or(std::max<std::int64_t>(1, ranks() / model_parallel()));
  }
  bool llama_like() const { return model["arch"].text() != "gpt"; }
  std::string framework() const { return row["framework"].text(); }
  bool uses_megatron() const {
    return contains(framework(), "Megatron") || contains(framework(), "NeMo");
  }

  bool aleph_alpha() const { return contains(framework(), "Aleph Alpha"); }
  bool zero_bubble() const { return contains(framework(), "sail-sg/zero-bubble"); }
  // Aleph Alpha's framework names its attention kernels its own way: "torch" and "fused" keep the
  // scores.
  std::string attention() const;
  // ZeRO-1 as DeepSpeed introduced it keeps gradients in the weights' format; Megatron's
  // distributed optimizer keeps fp32.
  bool half_gradients() const {
    return parallel["zero_stage"].integer_or(0) == 1 &&
           (aleph_alpha() || contains(framework(), "InternEvo"));
  }

  bool accumulates_in_fp32() const;  // row_memory.cpp

  // row_model.cpp
  void write_model();
  void write_window(Json& m);
  void write_vocab(Json& m);
  double dropout() const;
  void write_moe(Json& m, Fields moe, std::int64_t expert_ffn);

  // row_system.cpp
  std::optional<Skipped> write_cluster();
  int release() const;
  bool overlaps_tensor() const;
  std::vector<std::string> systems();
  void write_system();
  void write_workspace(Json& s);

  // row_finetune.cpp
  std::optional<Skipped> write_finetune(Json& w);

  // row_parallelism.cpp
  std::optional<Skipped> write_workload();
  void write_parallelism();
  void write_schedule(Json& p);
  std::int64_t group_that_fits();
  void write_experts(Json& p);
  void write_layers_per_stage(Json& p);
  void write_sharding(Json& p);

  // row_memory.cpp
  bool compiles_loss_alone() const;
  bool scales_rows() const;
  void write_kernels();
  bool compiles_loss() const;
  void write_memory();
};

}  // namespace stepcast::interop
