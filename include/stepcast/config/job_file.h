// A job that was read, as a file that a person could have written.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::config {

// A key of the resolved job that two jobs state differently, with both values as YAML.
struct Difference {
  std::string key;  // "parallelism.tensor"
  std::string wanted;
  std::string found;
};

// The differences between two jobs in the order of the option table. Two spellings of one meaning are no difference:
// data "auto" and the number that follows, schedule "auto" and its name, a shard_size of all data-parallel ranks and no
// shard_size.
std::vector<Difference> differences(const job::Job& wanted, const job::Job& found);

// The resolved job as a document with every default filled in; its keys are those of differences().
text::Value resolved(const job::Job& job);

// The job as YAML: names where configs/ has them, and the keys that neither they nor the system's
// defaults give. Reading it gives the same job, which is checked here.
std::string job_file(const Loaded& loaded);

}  // namespace stepcast::config
