// Readers of Megatron-LM and those who take its arguments.
#pragma once

#include "../options/rule.h"

namespace stepcast::interop::launch {

const Reader& megatron();
const Reader& megatron_bridge();
const Reader& nemo();
const Reader& primus();

}  // namespace stepcast::interop::launch
