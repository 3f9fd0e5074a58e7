// Lists of what configs/ offers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "stepcast/result/presets.h"

namespace stepcast::report {

struct PresetTable {
  std::size_t rows = 0;
  std::string text, json;
};

// The presets of which a name or another text holds all `words`, whatever their case. `width`: columns of the text.
PresetTable presets(std::vector<result::ModelPreset> all, const std::vector<std::string>& words, int width);
PresetTable presets(std::vector<result::DevicePreset> all, const std::vector<std::string>& words, int width);
PresetTable presets(std::vector<result::ClusterPreset> all, const std::vector<std::string>& words, int width);
PresetTable presets(std::vector<result::JobPreset> all, const std::vector<std::string>& words, int width);
PresetTable presets(std::vector<result::SchedulePreset> all, const std::vector<std::string>& words, int width);

}  // namespace stepcast::report
