// What a system's `family` says: a shorthand for the habits that no key of its own states.
#pragma once

#include "stepcast/job/job.h"

namespace stepcast::config {

job::Habits habits_of(job::System::Family family);

}  // namespace stepcast::config
