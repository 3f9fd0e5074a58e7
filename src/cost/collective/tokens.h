// LAW     a token crosses the network once to each other domain that holds one of its experts, and
//         NVLink once to each rank of a domain that does; network and NVLink work at the same time:
//         t = base + max(network bytes / (share_n * port), NVLink bytes / (share_l * NVLink)).
//         Copies: expected distinct ranks and domains of top-k experts drawn at random without
//         repetition, within a token's groups of experts where routing is limited to groups,
//         including a token's own domain and rank. Beside another pass's kernels both terms take
//         `beside` times as long (calibration/software.yaml: tokens_beside).
// SOURCE  DeepEP's README (v2): H100-class, 400 Gb/s: 90 and 81 GB/s for 8 x 2 ranks, 61 and 61 for
//         8 x 4, counted with the own node's share, so 40 to 46 of 50 GB/s leave a node; Blackwell,
//         one domain of 8: 726 and 740 GB/s with 64 SMs, 643 and 675 with 24, counted with the own
//         rank's eighth, so 0.63 to 0.66 of 900 GB/s with 24.
// VALID   thousands of tokens; HybridEP moves the same bytes and is priced alike.
// COST    no allocation
#pragma once

#include "line.h"
#include "stepcast/cost/curve.h"

namespace stepcast::cost {

CollectivePrice price_tokens(const TokenExchange& tokens, const Situation& s,
                             const cluster::GroupShape& group);
Curve tokens_curve(const std::string& device, bool network);

}  // namespace stepcast::cost
