// The JSON reader.
#include "fuzz.h"
#include "stepcast/text/document.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] { text::parse_json(fuzz::text(data, size), "fuzz.json"); });
  return 0;
}
