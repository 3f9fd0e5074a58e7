// Writers of a plan: the clusters that train a job within its limits.
#pragma once

#include <string>

#include "stepcast/result/plan.h"

namespace stepcast::report {

std::string terminal(const result::Plan& plan, bool colour, int width = 100);
std::string html(const result::Plan& plan);  // a page of its own
std::string json(const result::Plan& plan);  // SI units; money in the currency of the catalogue
std::string csv(const result::Plan& plan);   // a line per cluster
std::string svg(const result::Plan& plan);   // days against cost

}  // namespace stepcast::report
