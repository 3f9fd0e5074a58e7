// The list under `calibration:` of a job.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stepcast::cost {

// Throws InputError where a folder of the list holds files of kernels but none of `devices`: it would be ignored. Beside
// "auto" it is enough that a folder has files of one of a job's devices.
void check_folders(const std::vector<std::string>& list, const std::vector<std::string>& devices,
                   const std::filesystem::path& calibration_dir);

// The first entry of the list that is neither a file nor a folder, from the working directory or below the committed files.
std::optional<std::string> missing_entry(const std::vector<std::string>& list, const std::filesystem::path& calibration_dir);

}  // namespace stepcast::cost
