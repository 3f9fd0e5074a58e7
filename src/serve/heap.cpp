#include "heap.h"

#include <malloc.h>

namespace stepcast::serve {

namespace {

// The C library gives back from 128 KiB on.
constexpr int kOwnMapping = 64 << 20;  // larger arrays are still mapped by themselves
constexpr int kKept = 1 << 30;

}  // namespace

void share_heap() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, kOwnMapping);
  mallopt(M_TRIM_THRESHOLD, kKept);
}
void shrink_heap() { malloc_trim(0); }

}  // namespace stepcast::serve
