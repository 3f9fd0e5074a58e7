// The names in configs/, each read and described. Throws InputError where a file of configs/ is damaged.
#pragma once

#include <filesystem>
#include <vector>

#include "stepcast/result/presets.h"

namespace stepcast::planner {

std::vector<result::ModelPreset> models();
// `data`: the folder that holds calibration/, which says for which devices kernels were measured.
std::vector<result::DevicePreset> devices(const std::filesystem::path& data);
std::vector<result::ClusterPreset> clusters();
std::vector<result::JobPreset> jobs();

}  // namespace stepcast::planner
