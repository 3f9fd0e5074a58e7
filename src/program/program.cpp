#include "stepcast/program/program.h"

namespace stepcast::program {

static_assert(words_of<Category>().size() == kCategories);
static_assert(words_of<MemoryCategory>().size() == kMemoryCategories);

}  // namespace stepcast::program
