// Cross-validation: which points are held out of a fit, and which points are outliers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace stepcast::cost {

inline constexpr int kFolds = 4;

// The fold of a case, by a hash of what was measured: every run holds out the same points, and
// repeats of one case are in the same fold.
int fold_of(std::initializer_list<std::int64_t> shape);

// The hash of a case; it is the same on every platform.
std::uint64_t shape_hash(std::initializer_list<std::int64_t> numbers);

// A law with a fixed part is fitted only where sizes span at least this factor.
inline constexpr double kMinSpan = 16;

// Throws std::invalid_argument where held-out points are off by more than a factor of e (one
// standard deviation of the log), since they do not follow the law. `of`: the part that was fitted,
// or "".
void require_law(double deviation, const std::string& of = "");

// Number of log ratios that are further out than both four times the robust spread of all and 15 %.
int count_outliers(const std::vector<double>& log_ratios);

}  // namespace stepcast::cost
