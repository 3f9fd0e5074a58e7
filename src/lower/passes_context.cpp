// What context parallelism makes of an attention operator.
#include "pass_builder.h"

namespace stepcast::lower {

bool PassBuilder::context_attention(std::size_t, bool, program::Category, Items&) { return false; }

}  // namespace stepcast::lower
