// Common parts of the harnesses. Each tests one reader: LLVMFuzzerTestOneInput gives it foreign
// bytes. The reader may refuse them with an InputError. It must not crash, hang, use gigabytes,
// throw anything else or return what its header excludes.
//
// clang with -DSTEPCAST_FUZZ=ON links libFuzzer (fuzz_NAME); any compiler builds replay_NAME, which
// reads files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "stepcast/base/diagnostics.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace stepcast::fuzz {

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Aborts if a condition fails, so that the fuzzer records the input.
inline void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
  }
}

// The last refusal of a reader, which replays print.
inline std::string& last_refusal() {
  static std::string why;
  return why;
}

// Runs a reader; faults must have a message and a position.
template <class Read>
void read(Read&& reader) {
  last_refusal().clear();
  try {
    reader();
  } catch (const InputError& error) {
    require(!error.faults().empty(), "an InputError without a fault");
    for (const Fault& fault : error.faults()) {
      require(!fault.message.empty(), "a fault without words");
      require(fault.where.line >= 0 && fault.where.column >= 0, "a fault at a negative place");
    }
    last_refusal() = error.faults().front().message;
  }
}

// Calls `reader` with a file of these bytes, for readers that cannot read from memory. The file has
// one name per process, so that no files accumulate.
std::string file_with(std::string_view bytes, const char* extension);

}  // namespace stepcast::fuzz
