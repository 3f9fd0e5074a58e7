// Adapters of low rank, as PEFT's options state them.
#pragma once

#include <string_view>

#include "draft.h"

namespace stepcast::interop::launch {

// PEFT's adapters. What is not stated has the usual value; without usual targets, the job's own.
struct Adapters {
  const Setting* asked = nullptr;      // the option that asks for adapters
  const Setting* quantised = nullptr;  // the option that quantises the weights
  const Setting* rank = nullptr;
  const Setting* targets = nullptr;
  const Setting* saved = nullptr;    // modules that are trained whole
  const Setting* dropout = nullptr;  // of what an adapter reads
  std::string_view usual_rank = "16";
  std::string_view usual_targets = {};
};
void set_adapters(Draft& draft, const Adapters& adapters);

}  // namespace stepcast::interop::launch
