// What a training system sets, where the job says otherwise or leaves it open.
#pragma once

#include "stepcast/config/config.h"

namespace stepcast::config {

// Takes back what a system sets by default and this job's model, device or own keys rule out; what
// the job states itself stays, and is judged by `strategy`. Lists the open keys in `assumed` where
// the job has no such list.
void fit_defaults(Loaded& loaded);

// Whether the user, not a file of configs/, wrote a key.
bool by_user(const Loaded& loaded, const std::string& key);

// Whether the job itself, or a file that it starts from, states a key or one below it: not its
// training system.
bool by_job(const Loaded& loaded, const std::string& key);

}  // namespace stepcast::config
