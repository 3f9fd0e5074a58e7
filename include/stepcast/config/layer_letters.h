// Letters by layer (model.mixers, model.mlps), which a job states once for all repetitions.
#pragma once

#include <string>

namespace stepcast::config {

// The shortest sequence of letters whose repetition gives these letters.
std::string repeated(std::string letters);

}  // namespace stepcast::config
