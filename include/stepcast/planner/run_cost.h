// Training time, energy, cost and carbon of one job that states workload.tokens.
#pragma once

#include <optional>
#include <string>

#include "stepcast/planner/bill.h"
#include "stepcast/result/run_cost.h"

namespace stepcast::planner {

struct RunRequest {
  Catalogue catalogue;
  // The offer of the catalogue that is paid for. "": none; power and PUE are then those of the first offer of the job's
  // cluster, or else of nodes with as many GPUs of the same kind, or else unknown.
  std::string offer;
  std::optional<double> price;             // currency per GPU-hour, in place of the offer's
  const Operations* operations = nullptr;  // null: nothing fails
};

// The prices and the power of a job. nullopt: nothing is known of them. Throws std::invalid_argument where the catalogue
// lacks the offer, or offers it with other GPUs.
std::optional<Rates> rates_of(const job::Job& job, const RunRequest& request);

// The cost of training the job, whose forecast is `report`. nullopt: the job states no tokens.
std::optional<result::RunCost> run_cost(const job::Job& job, const result::Report& report, const RunRequest& request);

}  // namespace stepcast::planner
