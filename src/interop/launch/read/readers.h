// The training systems whose launch files are read.
#pragma once

#include <string>
#include <vector>

#include "../options/rule.h"

namespace stepcast::interop::launch {

const std::vector<const Reader*>& readers();

// Throws InputError where no reader has this name.
const Reader& reader_of(const std::string& system);

}  // namespace stepcast::interop::launch
