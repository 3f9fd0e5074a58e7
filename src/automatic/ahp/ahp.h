// AHP, adaptive hybrid parallelism (Gao et al., the survey's companion article). It has six steps.
// The cost models of the other searches propose in each step, and the engine decides.
//   1  graph analysis
//   2  hardware
//   3  degrees: data, tensor, pipeline and the dimensions that depend on them
//   4  split of each layer's operators, by dynamic programming
//   5  sharding of optimizer states
//   6  layers of each stage, shares of the batch, and the order of passes as a task graph
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "../inputs.h"

namespace stepcast::automatic {

// The key by which a job states the layers of each stage.
inline constexpr const char* kLayersKey = "parallelism.layers_per_stage";

// A job that the engine ran.
struct Tried {
  result::Strategy strategy;
  job::Job job;
  result::Report report;
};

class Ahp {
 public:
  explicit Ahp(const Inputs& in);
  void run(result::AlgorithmAnswer& out);

 private:
  // ahp_hardware.cpp
  void analyse(result::AlgorithmAnswer& out) const;
  result::AlgorithmStep hardware() const;
  // ahp.cpp
  result::AlgorithmStep degrees(result::AlgorithmAnswer& out);
  result::AlgorithmStep sharding();
  // ahp_split.cpp
  result::AlgorithmStep split();
  // ahp_pipeline.cpp
  result::AlgorithmStep layers();
  std::vector<int> planned_layers(const Tried& even);
  std::optional<Tried> move_layers(Tried from);
  result::AlgorithmStep schedule(result::AlgorithmAnswer& out);
  void made_order(const Tried& from, double before, result::AlgorithmStep& step,
                  result::AlgorithmAnswer& out);

  // ahp_batches.cpp
  result::AlgorithmStep batches();
  void share_out(std::vector<std::string> overrides, bool moved, double before,
                 result::AlgorithmStep& step);
  std::vector<int> planned_batches(const job::Job& job, const std::vector<int>& kind,
                                   const std::vector<std::vector<job::Device>>& devices);

  // Returns the overrides of the present answer with the given ones added or replaced.
  std::vector<std::string> with(const std::vector<std::string>& changes) const;
  // True if the user left the key open and allows that value.
  bool free(const std::string& key, const std::string& value) const;
  std::optional<Tried> simulate(const std::vector<std::string>& overrides, std::string& why);
  std::optional<Tried> simulate(job::Job job, const std::vector<std::string>& overrides,
                                std::string& why);
  // Takes the tried job as the answer if it fits and is better. Returns whether it did.
  bool take(std::optional<Tried> tried);
  std::optional<bound::Result> bound_of(const job::Job& job);

  const Inputs in_;
  const search::Request& request_;
  const AlgorithmRequest& algorithms_;
  const job::Job& base_;
  const search::JobLoader& loader_;
  const std::filesystem::path& data_;
  forecast::Forecaster& forecaster_;
  std::optional<Tried> best_;
  // Other degrees that run, with other numbers of stages: on heterogeneous devices, uneven layers
  // may make one of them the best.
  std::vector<std::vector<std::string>> alternatives_;
  int simulated_ = 0;
};

// Returns `overrides` with the given ones added or replaced.
std::vector<std::string> changed(std::vector<std::string> overrides,
                                 const std::vector<std::string>& changes);

// Texts such as "8.275 s" and "61.2 GiB" for the details of steps.
std::string seconds_text(double seconds);
std::string gib_text(double bytes);
// A text such as "8.275 s (-1.2 %), 61.2 GiB", or that the job does not fit.
std::string outcome_text(const result::Strategy& found, double before);

}  // namespace stepcast::automatic
