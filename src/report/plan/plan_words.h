// Sentences on a plan that the terminal and the page share.
#pragma once

#include <string>

#include "../record/value.h"
#include "stepcast/result/plan.h"

namespace stepcast::report {

std::string strategy_line(const result::PlannedCluster& cluster);  // "tensor 8, pipeline 16"
std::string limits_line(const result::Plan& plan);                 // "within 60 days, 20 M USD"
std::string lacks_line(const result::PlannedCluster& cluster);  // "3.2 days over; 1.5 M USD over"
// "no other strategy and node count of the space is better: ...", or by how much one may.
std::string proof_line(const result::PlannedCluster& cluster);

// Whether nobody verified the catalogue's price of it.
bool price_is_unverified(const result::PlannedCluster& cluster);

// "h100-sxm/gemm-cublas.yaml 62 % (+-7 %), data sheet 20 % (+-25 %)": what its step's time was
// priced by.
std::string basis_line(const result::PlannedCluster& cluster);

// Fields of a cluster, for JSON, the terminal and the page. The plan has the currency.
Record cluster_fields(const result::Plan& plan, const result::PlannedCluster& cluster);

}  // namespace stepcast::report
