#include "heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace stepcast::cli {
namespace {

// The C library gives back from 128 KiB on.
constexpr int kOwnMapping = 64 << 20;  // larger arrays are still mapped by themselves
constexpr int kKept = 256 << 20;

// Addresses of the heap, taken at once: no memory before it is touched.
constexpr int kHugeHeap = 192 << 20;
constexpr std::uintptr_t kHugePage = 2 << 20;  // of x86-64, and of AArch64 with pages of 4 KiB

}  // namespace

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kOwnMapping);
  mallopt(M_TRIM_THRESHOLD, kKept);
}

void take_huge_pages() {
  const auto end_of_heap = [] { return reinterpret_cast<std::uintptr_t>(sbrk(0)); };
  const std::uintptr_t before = end_of_heap();
  // A request that the heap has no room for makes it longer by the padding.
  mallopt(M_TOP_PAD, kHugeHeap);
  void* volatile request = std::malloc(std::size_t{kOwnMapping} / 2);
  std::free(request);
  mallopt(M_TOP_PAD, 128 << 10);  // as it was (DEFAULT_TOP_PAD)
  const std::uintptr_t from = (before + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t to = end_of_heap() / kHugePage * kHugePage;
  if (to > from) {  // not where another allocator stands in
    madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
  }
}

void share_heap() { mallopt(M_ARENA_MAX, 1); }

void share_heap_of_one(int threads) {
  if (threads == 1) {
    share_heap();
  }
}

}  // namespace stepcast::cli
