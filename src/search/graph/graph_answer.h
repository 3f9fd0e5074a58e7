// What the algorithms on graphs answer: a plan, the job that says it, the engine's forecast of
// that.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/algorithms.h"
#include "stepcast/search/algorithms.h"

namespace stepcast::search {

// The job of these overrides by the engine; nullopt, with the reason: it is refused.
using ForecastOf = std::function<std::optional<result::Strategy>(
    const std::vector<std::string>& overrides, std::string& why)>;

// `out.name`: alpa, nnscaler or flexflow.
void answer_on_graph(const Request& request, const AlgorithmRequest& algorithms,
                     const job::Job& base, const JobLoader& loader,
                     const std::filesystem::path& data_directory, const ForecastOf& forecast,
                     result::AlgorithmAnswer& out);

}  // namespace stepcast::search
