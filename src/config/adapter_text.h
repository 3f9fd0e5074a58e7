// The line rate of one network adapter as people write it: "400 Gb/s", "100GbE", "NDR400",
// "HDR200 InfiniBand", "Slingshot-11".
#pragma once

#include <optional>
#include <string>

#include "stepcast/base/quantity.h"

namespace stepcast::config {

struct AdapterText {
  // Nothing, without a fault: the text is of no known form.
  std::optional<Bandwidth> rate;
  // What contradicts itself or is not one adapter's rate, and what may be written.
  std::string fault;
};
AdapterText read_adapter(const std::string& text);

}  // namespace stepcast::config
