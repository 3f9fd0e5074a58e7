// The store of evaluated points: a foreign file in the place of the SQLite one.
#include "stepcast/store/store.h"

#include <filesystem>

#include "fuzz.h"

using namespace stepcast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!store::available()) {
    return 0;
  }
  const std::string file = fuzz::file_with(fuzz::text(data, size), ".db");
  for (const char* beside : {"-wal", "-shm", "-journal"}) {
    std::error_code none;
    std::filesystem::remove(file + beside, none);
  }
  fuzz::read([&] {
    store::Store points("--store", file, "fuzz");
    std::int64_t seen = 0;
    std::string before;
    points.for_each([&](const store::Point& point) {
      fuzz::require(seen == 0 || before < point.key, "points out of order");
      before = point.key;
      ++seen;
    });
    const store::Point mine{"key", "exact", "{}"};
    points.put(mine);
    const auto found = points.find("key");
    fuzz::require(found && (*found == mine), "a point that was put and is another");
  });
  return 0;
}
