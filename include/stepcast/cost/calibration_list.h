// The list under `calibration:` of a job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stepcast::cost {

// Beside "auto" a folder may hold files of some of a job's devices only. Throws InputError where it
// holds kernels' files of none of `devices`: it would be ignored.
void check_folders(const std::vector<std::string>& list, const std::vector<std::string>& devices,
                   const std::filesystem::path& calibration_dir);

}  // namespace stepcast::cost
