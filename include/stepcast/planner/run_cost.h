// Time to train, energy, cost and carbon of one job that states workload.tokens.
#pragma once

#include <optional>
#include <string>

#include "stepcast/planner/bill.h"
#include "stepcast/result/run_cost.h"

namespace stepcast::planner {

struct RunRequest {
  Catalogue catalogue;
  // What is paid for, of the catalogue. "": nothing; power and PUE are then those of its first offer of the job's
  // cluster, else of nodes with as many of the same GPUs, else not known.
  std::string offer;
  std::optional<double> price;             // currency a GPU-hour, instead of the offer's
  const Operations* operations = nullptr;  // nullptr: nothing fails
};

// Throws std::invalid_argument where the catalogue lacks the offer, or has it with other GPUs.
std::optional<Rates> rates_of(const job::Job& job, const RunRequest& request);

// `report`: of the job. nullopt: it states no tokens.
std::optional<result::RunCost> run_cost(const job::Job& job, const result::Report& report, const RunRequest& request);

}  // namespace stepcast::planner
