// Layers of a job document: the system's defaults below the job, options above it.
#pragma once

#include <string>

#include "field.h"

namespace stepcast::config {

// `upper` over `lower`: sections merge key by key, any other value is replaced. A part with a name
// ({use: X}, or a bare name) replaces the whole part below; a value alone that is short for a map
// (Spec::short_for) replaces that key of it.
Value merge(const Value& lower, const Value& upper, const Spec& spec);

// "a.b.c" becomes `value`; maps are made on the way, and a bare name becomes {use: name}.
void set_path(Value& doc, const std::string& path, Value value, const Spec& root);

}  // namespace stepcast::config
