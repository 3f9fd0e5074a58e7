// Writers of a plan: which clusters train a job within its limits.
#pragma once

#include <string>

#include "stepcast/result/plan.h"

namespace stepcast::report {

std::string terminal(const result::Plan& plan, bool colour, int width = 100);
std::string html(const result::Plan& plan);  // a page of its own
std::string json(const result::Plan& plan);  // SI units, currency as the catalogue's
std::string csv(const result::Plan& plan);   // a line a cluster

}  // namespace stepcast::report
