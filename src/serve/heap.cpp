#include "heap.h"

#include <malloc.h>

namespace stepcast::serve {

void share_heap() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
}
void shrink_heap() { malloc_trim(0); }

}  // namespace stepcast::serve
