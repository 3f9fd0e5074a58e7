// What the whole run of a forecast job takes: --offer, --price, --catalogue, --operations.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "../command_line/arguments.h"
#include "stepcast/planner/run_cost.h"

namespace stepcast::cli {

struct RunOptions {
  std::string offer, price;
  std::string catalogue, operations;  // "": default
};

void add_run_options(Command& app, RunOptions& given);

// All that is read from files.
struct RunInputs {
  planner::RunRequest request;
  std::optional<planner::Operations> operations;  // request.operations points here
};
// Null where the job states no tokens. Throws InputError for options that go with none, or are
// wrong.
std::unique_ptr<RunInputs> run_inputs(const RunOptions& given, const job::Job& job);

}  // namespace stepcast::cli
