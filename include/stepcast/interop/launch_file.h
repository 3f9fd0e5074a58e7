// Writes a job as a launch file of a training system: the inverse of launch.h.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"

namespace stepcast::interop {

struct LaunchFile {
  std::string text;                    // the file, with the members below as comments where the format has comments
  std::string extension;               // ".sh", ".json", ".toml", ".yaml"
  std::vector<std::string> arguments;  // NAME=VALUE of the training script's own command line
  std::vector<std::string> beside;     // options for keys that no launch file of the system has: --model, --set KEY=VALUE
  // The command that reads the job back, with FILE in place of the file's name: "simulate --from ...".
  std::string read_back;
  bool own_cluster = false;  // only the job's file states its cluster: CLUSTER stands for a file of it
};

// "megatron", "deepspeed", ...: the names that read_launch uses.
std::vector<std::string> launch_targets();

// Reading the file with `read_back` gives the same job. Its cluster, NCCL's settings, calibration and seed, which launch
// files do not have, stand in `read_back` by name or path and as --set. This is checked before it returns. Throws InputError
// that names each key of the job that the target's files cannot express, at its place in the job.
LaunchFile launch_file(const config::Loaded& loaded, const std::string& target);

}  // namespace stepcast::interop
