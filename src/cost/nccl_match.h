// Which calibration file, and which of its curves, speak for a cluster's collectives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_calibration.h"
#include "stepcast/job/job.h"

namespace stepcast::cost {

// Of the files of a scope the one that describes the cluster best; nullptr: none. `only`: file
// names that may be used; empty: all.
const NcclFile* match_file(const std::vector<NcclFile>& files, Scope scope,
                           const job::Cluster& cluster, const std::vector<std::string>& only);

// Curves of an operation, its own or a relative's; nullptr: none.
const std::vector<SizedFit>* find_fits(const NcclFile* file, int op);

// The curve for a group of so many ranks (domain) or domains (network), between those fitted.
Fit fit_for(const std::vector<SizedFit>* fits, int size);

struct Residuals {
  double small = 0;  // relative standard deviation below 1 MiB
  double large = 0;  // and from 1 MiB on
};
Residuals residuals(const std::vector<SizedFit>* fits);

// Lower case, '_' as '-': names are compared so.
std::string normal_name(std::string name);

}  // namespace stepcast::cost
