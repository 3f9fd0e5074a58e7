// A job in one of the formats that simulate export and simulate search write.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"

namespace stepcast::cli {

struct Exported {
  std::string text;
  std::string read_back;     // "simulate --from megatron FILE ..."
  bool own_cluster = false;  // no name and no path gives the job's cluster
  // A line about it, with the file's own name.
  std::string note(const std::string& file) const;
};

std::vector<std::string> export_formats();  // "job", "megatron", ...

// Throws InputError for what the format cannot say.
Exported export_job(const config::Loaded& loaded, const std::string& format);

}  // namespace stepcast::cli
