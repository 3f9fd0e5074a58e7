#include "stepcast/search/jobs.h"

#include "stepcast/input/input.h"

namespace stepcast::search {

JobLoader jobs_of(const std::string& config, const std::vector<std::string>& overrides) {
  return [=](const std::vector<std::string>& more) -> std::variant<job::Job, Infeasible> {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    try {
      return input::load(config, all).job;
    } catch (const InputError& error) {
      const Fault& first = error.faults().front();
      return Infeasible{to_string(first.where), first.message};
    }
  };
}

JobReasons reasons_of(const std::string& config, const std::vector<std::string>& overrides) {
  return [=](const std::vector<std::string>& more) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    std::vector<Infeasible> out;
    try {
      input::load(config, all);
    } catch (const InputError& error) {
      for (const Fault& fault : error.faults()) {
        out.push_back({to_string(fault.where), fault.message});
      }
    }
    return out;
  };
}

}  // namespace stepcast::search
