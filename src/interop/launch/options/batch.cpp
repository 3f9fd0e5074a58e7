#include "batch.h"

#include <fmt/format.h>

#include "sizes.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

std::optional<std::int64_t> whole(Draft& draft, const Setting* setting) {
  if (setting == nullptr || setting->value.kind == Value::Kind::null) {
    return std::nullopt;
  }
  const std::string written = plain_text(setting->value);
  if (written == "auto" || written == "null") {
    return std::nullopt;
  }
  try {
    const std::int64_t n = text::to_integer(scalar(written, setting->origin));
    if (n > 0) {
      return n;
    }
  } catch (const InputError&) {
  }
  draft.fault(setting->origin,
              fmt::format("{} is '{}'; expected an integer above 0", setting->shown, written));
  return std::nullopt;
}

}  // namespace

void complete_batch(Draft& draft, const Setting* micro, const Setting* accumulation,
                    const Setting* global) {
  const auto m = whole(draft, micro);
  const auto a = whole(draft, accumulation);
  const auto g = whole(draft, global);
  if (m) {
    draft.set(*micro, "workload.micro_batch", *m);
  }
  if (g) {
    draft.set(*global, "workload.global_batch", *g);
  }
  const std::int64_t d = draft.data_ranks();
  if (d == 0) {
    return;
  }
  if (m && g && a && product(product(*m, *a), d) != *g) {
    draft.fault(global->origin,
                fmt::format("{} is {}, but {} {} x {} {} x {} data-parallel ranks are {}; expected "
                            "sizes that agree",
                            global->shown, *g, micro->shown, *m, accumulation->shown, *a, d,
                            product(product(*m, *a), d)));
  } else if (m && !g) {
    const Setting& from = a ? *accumulation : *micro;
    draft.set(from, "workload.global_batch", product(product(*m, a.value_or(1)), d));
    draft.set(*micro, "workload.micro_batch", *m);
  } else if (g && !m) {
    const std::int64_t parts = product(a.value_or(1), d);
    if (*g % parts == 0 && a) {
      draft.set(*accumulation, "workload.micro_batch", *g / parts);
    } else if (a) {
      draft.fault(
          accumulation->origin,
          fmt::format("{} {} x {} data-parallel ranks do not divide {} {}; expected a divisor",
                      accumulation->shown, *a, d, global->shown, *g));
    }
  }
}

}  // namespace stepcast::interop::launch
