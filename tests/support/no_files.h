// A folder without calibration files: costs are those of the models with the data sheet's rates.
#pragma once

#include <filesystem>

namespace stepcast::test {

inline const std::filesystem::path kNoFiles = "/nonexistent";

}  // namespace stepcast::test
