// Whether a log's GPUs are those of a cluster.
#pragma once

#include <string>

namespace stepcast::calibrate {

// Whether a GPU named `printed` by the driver ("NVIDIA A100-SXM4-80GB") can be `device` of
// configs/devices ("a100-sxm-80"): false only where both name a model ("A100") and the models
// differ.
bool may_be(const std::string& printed, const std::string& device);

// Whether both name the same model; false where one of them names none.
bool same_model(const std::string& printed, const std::string& device);

}  // namespace stepcast::calibrate
