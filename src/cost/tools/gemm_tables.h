// Fits curves to tables of GEMMs and grouped GEMMs, and determines how far libraries differ. Each
// function prints held-out errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../gemm_fit.h"
#include "sources.h"

namespace stepcast::tools {

// How far libraries differ in each format on the devices of one generation.
struct Spread {
  std::vector<std::string> devices;
  std::map<std::string, cost::SizeClass> dtypes;
};

std::vector<Spread> measure_spreads(const fs::path& directory, const text::Value& sources);

// Prints the table of held-out errors, one line for each device, library and format. `check`:
// writes no files.
void fit_gemm_sources(const fs::path& directory, const text::Value& sources, bool check);
void fit_grouped_source(const fs::path& directory, const text::Value& source, bool check);

}  // namespace stepcast::tools
