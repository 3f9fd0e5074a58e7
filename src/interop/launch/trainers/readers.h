// Readers of HuggingFace's Trainer and those who extend it.
#pragma once

#include "../options/rule.h"

namespace stepcast::interop::launch {

const Reader& accelerate();
const Reader& transformers();
const Reader& paddlenlp();
const Reader& axolotl();
const Reader& llamafactory();
const Reader& trl();

}  // namespace stepcast::interop::launch
