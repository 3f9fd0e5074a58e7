// Reads a HuggingFace config.json into a model. A key that could change shapes and is not modelled
// is a fault that names it.
#pragma once

#include "reader.h"
#include "stepcast/job/job.h"

namespace stepcast::config {

// True for a map with `model_type` or `architectures`.
bool is_huggingface(const Value& doc);
void read_huggingface(Reader& reader, const Value& doc, job::Model& out);

}  // namespace stepcast::config
