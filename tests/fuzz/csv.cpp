// The CSV reader.
#include "fuzz.h"
#include "stepcast/text/document.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const text::Table table = text::read_csv(fuzz::file_with(fuzz::text(data, size), ".csv"));
    for (const auto& row : table.rows) {
      fuzz::require(row.size() == table.columns.size(), "a row of another width");
    }
  });
  return 0;
}
