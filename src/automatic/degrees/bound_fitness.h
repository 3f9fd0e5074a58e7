// The fitness of a point of a search space: its closed-form bound, computed without a forecast.
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
  // Number of values of each dimension.
  std::vector<int> sizes() const;
  // The lower bound of the objective. Infinity if the sizes do not divide, the memory is too small
  // or the system refuses the job.
  double operator()(const Genome& genome);
  std::vector<std::string> overrides(const Genome& genome) const;

 private:
  struct Family {
    std::optional<forecast::Forecaster::Bounds> bounds;
    job::Job job;
  };
  Family& family_of(const Genome& genome);
  // True if the point's job can be lowered.
  bool runs(const job::Job& family, const bound::Candidate& c) const;
  bool inner(std::size_t dimension) const;

  const search::Request& request_;
  const job::Job& base_;
  const search::JobLoader& loader_;
  forecast::Forecaster& forecaster_;
  std::map<Genome, Family> families_;  // by the values of the dimensions that a bound does not vary
  std::map<std::string, std::optional<job::Recompute>> recomputes_;
};

}  // namespace stepcast::automatic
