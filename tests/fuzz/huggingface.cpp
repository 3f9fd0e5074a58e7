// The reader of a model's config.json, as published with its weights.
#include "fuzz.h"
#include "stepcast/config/config.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = fuzz::file_with(fuzz::text(data, size), ".json");
  fuzz::read([&] {
    const job::Model model = config::model(file);
    fuzz::require(model.layers >= 0 && model.hidden >= 0 && model.heads >= 0 && model.vocab >= 0,
                  "a model with a negative size");
  });
  return 0;
}
