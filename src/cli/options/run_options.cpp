#include "run_options.h"

#include <fmt/format.h>

#include <stdexcept>

#include "../command_line/command_line.h"
#include "preset_file.h"
#include "stepcast/base/number.h"

namespace stepcast::cli {

void add_run_options(Command& app, RunOptions& given) {
  const auto option = [&](const char* name, std::string& into, const char* type, const char* help) {
    app.add_option(name, into, help).type_name(type);
  };
  option("--offer", given.offer, "NAME",
         "with workload.tokens: the offer of the catalogue that is paid for; adds cost and carbon "
         "of the run");
  option("--price", given.price, "MONEY",
         "with workload.tokens: price of a GPU-hour, in place of the offer's");
  option(
      "--catalogue", given.catalogue, "FILE",
      "with workload.tokens: power and prices: a path, or a name in configs/catalogue [default]");
  option("--operations", given.operations, "FILE",
         "with workload.tokens: failures, checkpoints and repairs, as in simulate goodput; none: "
         "no failures [default]");
}

std::unique_ptr<RunInputs> run_inputs(const RunOptions& given, const job::Job& job) {
  if (!job.workload.tokens) {
    for (const auto& [option, value] :
         {std::pair{"--offer", &given.offer}, std::pair{"--price", &given.price},
          std::pair{"--catalogue", &given.catalogue},
          std::pair{"--operations", &given.operations}}) {
      if (!value->empty()) {
        throw option_fault(option,
                           "goes with workload.tokens; expected --set workload.tokens=15e12 too");
      }
    }
    return nullptr;
  }
  const auto name = [](const std::string& text) { return text.empty() ? "default" : text; };
  auto out = std::make_unique<RunInputs>();
  out->request.catalogue = planner::read_catalogue(preset_file("catalogue", name(given.catalogue)));
  out->request.offer = given.offer;
  if (!given.price.empty()) {
    double price = 0;
    try {
      price = parse_number(given.price);
    } catch (const std::invalid_argument& error) {
      throw option_fault("--price", error.what());
    }
    if (!(price > 0)) {
      throw option_fault(
          "--price",
          fmt::format("'{}' is not valid; expected a number above zero, such as 2.5", given.price));
    }
    out->request.price = price;
  }
  if (given.operations != "none") {
    out->operations = planner::read_operations(preset_file("operations", name(given.operations)));
    out->request.operations = &*out->operations;
  }
  try {
    planner::rates_of(job, out->request);
  } catch (const std::invalid_argument& error) {
    throw option_fault("--offer", error.what());
  }
  return out;
}

}  // namespace stepcast::cli
