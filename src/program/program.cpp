#include "stepcast/program/program.h"

namespace stepcast::program {

const char* to_string(Category c) {
  switch (c) {
    case Category::compute:
      return "compute";
    case Category::recompute:
      return "recompute";
    case Category::optimizer:
      return "optimizer";
    case Category::tensor:
      return "tensor";
    case Category::pipeline:
      return "pipeline";
    case Category::data:
      return "data";
    case Category::context:
      return "context";
    case Category::expert:
      return "expert";
    case Category::offload:
      return "offload";
    case Category::other:
      return "other";
    case Category::bubble:
      return "bubble";
    case Category::host:
      return "host";
    case Category::stall:
      return "stall";
    case Category::slowdown:
      return "slowdown";
  }
  return "";
}

}  // namespace stepcast::program
