// Names by which other rooms find an operator of the graph.
#pragma once

namespace stepcast::model {

// An eager softmax's cast of the scores to fp32, filled under a mask (attention.cpp).
inline constexpr const char* kWidenedScores = "widened_scores";

// What torch.autocast casts for the product behind it (autocast.cpp), behind the product's name.
inline constexpr const char* kOperandCasts = "_casts";

}  // namespace stepcast::model
