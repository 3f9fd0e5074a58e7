// A figure and how sure it is.
#pragma once

namespace stepcast::result {

// A figure with its 90 % interval. SI base units.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

}  // namespace stepcast::result
