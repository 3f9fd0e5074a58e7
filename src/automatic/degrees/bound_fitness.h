// The fitness of a point of a space: its closed-form bound, without a forecast.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../inputs.h"
#include "degrees.h"

namespace stepcast::automatic {

class BoundFitness {
 public:
  explicit BoundFitness(const Inputs& in);
  // Values of each dimension.
  std::vector<int> sizes() const;
  // The lower bound of the objective; infinity where sizes do not divide, memory does not suffice,
  // or the system refuses the job.
  double operator()(const Genome& genome);
  std::vector<std::string> overrides(const Genome& genome) const;

 private:
  struct Family {
    std::optional<forecast::Forecaster::Bounds> bounds;
    job::Job job;
  };
  Family& family_of(const Genome& genome);
  // Whether the point's job can be lowered.
  bool runs(const job::Job& family, const bound::Candidate& c) const;
  bool inner(std::size_t dimension) const;

  const search::Request& request_;
  const job::Job& base_;
  const search::JobLoader& loader_;
  forecast::Forecaster& forecaster_;
  std::map<Genome, Family> families_;  // by the values of dimensions that a bound does not vary
  std::map<std::string, std::optional<job::Recompute>> recomputes_;
};

}  // namespace stepcast::automatic
