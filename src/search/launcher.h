// What a launcher's environment says.
#pragma once

namespace stepcast::search {

// Processes that were started together; 1 without a launcher.
int launched_size();

}  // namespace stepcast::search
