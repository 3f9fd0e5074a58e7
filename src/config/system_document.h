// The file of a training system, merged over the systems that it builds on.
#pragma once

#include "reader.h"

namespace stepcast::config {

Value system_document(Reader& reader, const Value& name);

}  // namespace stepcast::config
