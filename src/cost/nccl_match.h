// Which calibration file, and which of its curves, speak for a cluster's collectives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_calibration.h"
#include "stepcast/job/job.h"

namespace stepcast::cost {

// Of the files of a scope the one that describes the cluster best; nullptr: none. `only`: paths
// that a job names, folders of them, or names of committed files. One of them of this scope is used
// whatever cluster it speaks of; where none is, all files are open, since a job may name kernels'
// files alone.
const NcclFile* match_file(const std::vector<NcclFile>& files, Scope scope,
                           const job::Cluster& cluster, const std::vector<std::string>& only);

// Curves of an operation, its own or a relative's; nullptr: none.
const std::vector<SizedFit>* find_fits(const NcclFile* file, int op);

// The curve for a group of so many ranks (domain) or domains (network), between those fitted.
Fit fit_for(const std::vector<SizedFit>* fits, int size);

// What the file states for curves that find_fits gave; NCCL's plain model's where there are none.
Residuals residuals(const NcclFile* file, const std::vector<SizedFit>* fits);

// Release of a version as logs and jobs state it; the current one where that says nothing.
Release release_of(const std::string& version);

const char* generation(double compute_capability);  // "hopper"

// Lower case, '_' as '-': names are compared so.
std::string normal_name(std::string name);

}  // namespace stepcast::cost
