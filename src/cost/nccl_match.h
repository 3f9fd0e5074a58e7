// Chooses the calibration file for a cluster's collectives, and the curve of the file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_calibration.h"
#include "stepcast/job/job.h"

namespace stepcast::cost {

// The file of a scope that describes the cluster best; nullptr: none. `only`: paths that a job
// names, folders of them, or names of committed files. A file among them that is of this scope is
// used for any cluster; where there is none, all files are considered, since a job may name files
// of kernels only.
const NcclFile* match_file(const std::vector<NcclFile>& files, Scope scope,
                           const job::Cluster& cluster, const std::vector<std::string>& only);

// The rate of one NIC port of a GPU, as files state it.
Bandwidth nic_port(const job::Cluster& cluster);
// The same of the node that the cluster's node is named after.
Bandwidth named_nic_port(const job::Cluster& cluster);
// Whether a network file was measured at another rate than the cluster's.
bool scales_nics(const NcclFile& file, const job::Cluster& cluster);

// Bytes per second that sockets carry for one NIC port; 0: the file is not of sockets.
double socket_port(const NcclFile* file, const job::Node& node);

// Curves of an operation, or else of a similar one; nullptr: none.
const std::vector<SizedFit>* find_fits(const NcclFile* file, int op);

// The curve for a group of `size` ranks (domain) or domains (network), interpolated between the
// sizes fitted.
Fit fit_for(const std::vector<SizedFit>* fits, int size);

// The residuals that the file states for curves of find_fits; those of NCCL's plain model where
// there are no curves.
Residuals residuals(const NcclFile* file, const std::vector<SizedFit>* fits);

// The Release that a version stated by a log or job belongs to; the current one where none is
// stated.
Release release_of(const std::string& version);

const char* generation(double compute_capability);  // "hopper"

// The name in lower case with '-' for '_', as names are compared.
std::string normal_name(std::string name);

}  // namespace stepcast::cost
