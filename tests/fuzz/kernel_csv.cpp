// The reader of published tables of kernels.
#include <cmath>

#include "fuzz.h"
#include "stepcast/interop/gpu_csv.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const auto table = interop::read_kernel_csv(fuzz::file_with(fuzz::text(data, size), ".csv"));
    for (const auto& [library, all] : table.measurements) {
      for (const auto& m : all) {
        fuzz::require(std::isfinite(m.time.median) && m.time.median > 0, "a time that is none");
        fuzz::require(m.line > 1, "a measurement of no line");
        if (const auto* g = std::get_if<interop::GemmCase>(&m.what)) {
          fuzz::require(g->m > 0 && g->n > 0 && g->k > 0 && g->batch > 0 && g->groups > 0,
                        "a product of nothing");
        } else if (const auto* a = std::get_if<interop::AttentionCase>(&m.what)) {
          fuzz::require(a->heads > 0 && a->kv_heads > 0 && a->heads % a->kv_heads == 0,
                        "heads that do not divide");
        } else if (const auto* b = std::get_if<interop::MemoryCase>(&m.what)) {
          fuzz::require(b->bytes > 0, "an operator on nothing");
        }
      }
    }
  });
  return 0;
}
