// Names by which other rooms find an operator of the graph.
#pragma once

namespace stepcast::model {

// An eager softmax's cast of the scores to fp32, filled under a mask (attention.cpp).
inline constexpr const char* kWidenedScores = "widened_scores";

// What torch.autocast casts for the product behind it (autocast.cpp), behind the product's name.
inline constexpr const char* kOperandCasts = "_casts";

// Makes 16-bit weights of those of a 4-bit product, ahead of it (finetune.cpp).
inline constexpr const char* kDequantised = "dequantize";

// With what the names of a low-rank adapter's operators begin, ahead of its target's (finetune.cpp).
inline constexpr const char* kAdapter = "lora_";

// With what, behind these, the name of a learned scale of a product's columns ends (finetune.cpp).
inline constexpr const char* kScale = "_scale";

// Keys and values copied for every query head ahead of fused attention (attention.cpp).
inline constexpr const char* kRepeatedKeys = "kv_repeat";

}  // namespace stepcast::model
