// Whether a log's GPUs are those of a cluster.
#pragma once

#include <string>

namespace stepcast::calibrate {

// `printed` as the driver names a GPU ("NVIDIA A100-SXM4-80GB"), `device` as configs/devices do
// ("a100-sxm-80"): false where both name a model ("A100") and not the same.
bool may_be(const std::string& printed, const std::string& device);

// Whether both name the same model: never where one of them names none.
bool same_model(const std::string& printed, const std::string& device);

}  // namespace stepcast::calibrate
