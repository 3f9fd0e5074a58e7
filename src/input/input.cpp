#include "stepcast/input/input.h"

#include <utility>

#include "stepcast/strategy/rules.h"

namespace stepcast::input {
namespace {

void refuse_any(const config::Loaded& loaded, const std::vector<Infeasible>& reasons) {
  if (!reasons.empty()) {
    throw InputError(config::faults_of(loaded, reasons));
  }
}

}  // namespace

config::Loaded judged(config::Loaded loaded) {
  refuse_any(loaded, strategy::faults(loaded.job));
  return loaded;
}

config::Loaded load(const std::string& config, const std::vector<std::string>& overrides) {
  return judged(config::load(config, overrides));
}

config::Loaded parse(const std::string& yaml, const std::string& name,
                     const std::vector<std::string>& overrides) {
  return judged(config::parse(yaml, name, overrides));
}

config::Loaded parse(const text::Value& document, const std::vector<std::string>& overrides) {
  return judged(config::parse(document, overrides));
}

Network network(const std::string& cluster, int nodes, const std::vector<std::string>& overrides,
                const std::string& option) {
  config::Loaded loaded = config::network(cluster, nodes, overrides, option);
  refuse_any(loaded, strategy::cluster_faults(loaded.job));
  return {std::move(loaded.job.cluster), std::move(loaded.job.nccl)};
}

}  // namespace stepcast::input
