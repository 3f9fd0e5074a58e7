// Replaces the store in a build without SQLite: opening one is an error that says so.
#include "stepcast/base/diagnostics.h"
#include "stepcast/store/store.h"

namespace stepcast::store {

struct Store::State {};

bool available() { return false; }

Store::Store(const std::string& option, const std::filesystem::path&, const std::string&) {
  throw InputError(
      Fault{{option, 0, 0},
            "this build has no SQLite; expected one made where libsqlite3-dev is installed"});
}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
std::optional<Point> Store::find(const std::string&) { return std::nullopt; }
void Store::put(const Point&) {}
const std::string& Store::trouble() const {
  static const std::string none;
  return none;
}
void Store::flush() {}
std::int64_t Store::size() { return 0; }
void Store::for_each(const std::function<void(const Point&)>&) {}

}  // namespace stepcast::store
