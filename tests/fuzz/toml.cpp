// The TOML reader, and what it says of where values lie.
#include "fuzz.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

void check(const text::Value& value) {
  fuzz::require(value.origin.line >= 0 && value.origin.column >= 0, "a value at a negative place");
  for (const text::Value& item : value.items) {
    check(item);
  }
  for (const text::Value::Entry& entry : value.entries) {
    fuzz::require(value.find(entry.key) == &entry.value, "a key that is there twice");
    check(entry.value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] { check(text::parse_toml(fuzz::text(data, size), "fuzz.toml")); });
  return 0;
}
