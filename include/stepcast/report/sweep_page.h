// A sweep as a page of its own (page.h).
#pragma once

#include <string>

#include "stepcast/result/sweep.h"

namespace stepcast::report {

// The fastest, the cheapest and the most efficient point; throughput and efficiency over the number of GPUs, a line for each
// combination of the other axes; throughput of a GPU over two axes; time against cost with its front; all points.
std::string html(const result::Sweep& sweep);

}  // namespace stepcast::report
