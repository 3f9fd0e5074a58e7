// A job as what users of a training system launch with: the way back of launch.h.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"

namespace stepcast::interop {

struct LaunchFile {
  std::string text;                    // the file, with what follows as comments where it can have any
  std::string extension;               // ".sh", ".json", ".toml", ".yaml"
  std::vector<std::string> arguments;  // NAME=VALUE of the training script's own command line
  std::vector<std::string> beside;     // what no launch file of the system says: --model, --set KEY=VALUE
  // "simulate --from ..." with FILE in the place of the file's name: gives the job again.
  std::string read_back;
};

// "megatron", "deepspeed", ...: the names that read_launch knows them by.
std::vector<std::string> launch_targets();

// Reading the file with `read_back` gives the same job but for its cluster, NCCL's settings, calibration and seed, which
// launch files do not hold: this is checked before it returns. Throws InputError that names each key of the job that the
// target's files cannot say, at the place where the job says it.
LaunchFile launch_file(const config::Loaded& loaded, const std::string& target);

}  // namespace stepcast::interop
