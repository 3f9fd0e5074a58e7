// Files of measured runs: one JSON object a line. The format is described in the README of src/runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/runs/run.h"

namespace stepcast::runs {

// Throws InputError with every faulty line. Jobs are not read here: job_of() does that.
std::vector<Run> read(const std::filesystem::path& file);

// The run of this id. Throws InputError where the file has none.
Run find(const std::filesystem::path& file, const std::string& id);

// JSON Schema (draft 2020-12) of one line; `job` refers to the schema of a job file.
std::string schema();

}  // namespace stepcast::runs
