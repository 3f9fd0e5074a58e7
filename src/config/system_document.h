// What the file of a system says, with the systems it builds on merged below it.
#pragma once

#include "reader.h"

namespace stepcast::config {

Value system_document(Reader& reader, const Value& name);

}  // namespace stepcast::config
