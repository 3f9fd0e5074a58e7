#include "hidden_sizes.h"

namespace stepcast::config {

namespace {

constexpr std::int64_t kAuto = -1;
constexpr std::int64_t kMost = 1'000'000'000'000'000;

}  // namespace

Field<job::System> size_or_auto(const char* key, std::int64_t job::System::*member,
                                const char* description) {
  return custom<job::System>(
      key, description, any_of({integer_schema(0), enum_schema({"auto"})}),
      [member](Reader& r, const Value& v, job::System& s) {
        if (is_word(v, "auto")) {
          s.*member = kAuto;
        } else if (const auto size = read_integer(r, v, 0, kMost)) {
          s.*member = *size;
        }
      },
      [member](const job::System& s) {
        return s.*member == kAuto ? tree::string("auto") : tree::number(s.*member);
      });
}

void fill_auto_sizes(job::Job& job) {
  const std::int64_t hidden = job.model.hidden;
  const auto fill = [](std::int64_t& size, std::int64_t by_hidden) {
    size = size == kAuto ? by_hidden : size;
  };
  fill(job.system.bucket_elements, hidden * hidden);
  fill(job.system.prefetch_elements,
       static_cast<std::int64_t>(0.9 * static_cast<double>(hidden * hidden)));
  fill(job.system.persistent_elements, 10 * hidden);
}

}  // namespace stepcast::config
