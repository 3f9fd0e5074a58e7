// A job as a user states it, read and judged: `config` reads it, `strategy` judges it, and each fault has its line.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::input {

// config::load() and config::parse(), and then InputError with every fault of strategy::faults(), in file order.
config::Loaded load(const std::string& config, const std::vector<std::string>& overrides = {});
config::Loaded parse(const std::string& yaml, const std::string& name, const std::vector<std::string>& overrides = {});
config::Loaded parse(const text::Value& document, const std::vector<std::string>& overrides = {});

// What they do once a job is read: the same job, or InputError with every fault of strategy::faults().
config::Loaded judged(config::Loaded loaded);

// A cluster without a job, and settings that are forced upon NCCL.
struct Network {
  job::Cluster cluster;
  job::Nccl nccl;
};
// config::network(), and then InputError with every fault of strategy::cluster_faults().
Network network(const std::string& cluster, int nodes, const std::vector<std::string>& overrides = {},
                const std::string& option = "--cluster");

}  // namespace stepcast::input
