// Readers of training systems with options of their own.
#pragma once

#include "../options/rule.h"

namespace stepcast::interop::launch {

const Reader& deepspeed();
const Reader& torchtitan();
const Reader& colossalai();
const Reader& maxtext();
const Reader& composer();
const Reader& horovod();
const Reader& nnscaler();
const Reader& lightseq();
const Reader& patrickstar();
const Reader& torchtune();
const Reader& nanotron();
const Reader& automodel();

}  // namespace stepcast::interop::launch
