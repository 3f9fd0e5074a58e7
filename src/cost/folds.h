// Cross-validation: which points a fit does not see, and what of a measurement is off the others.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace stepcast::cost {

inline constexpr int kFolds = 4;

// By a hash of what was measured, so that every run holds out the same and repeats of one case are
// never on both sides.
int fold_of(std::initializer_list<std::int64_t> shape);

// The same number everywhere, whatever the platform.
std::uint64_t shape_hash(std::initializer_list<std::int64_t> numbers);

// Of a quantity that spans less than this factor no law with a fixed part can be told.
inline constexpr double kLeastSpan = 16;

// Throws std::invalid_argument where the points that a fit did not see lie off it by more than a
// factor of e (one standard deviation of the log): they follow no such law. `of`: "", or the part.
void require_law(double deviation, const std::string& of = "");

// How many log ratios lie further out than four times the robust spread of all, and than 15 %.
int count_outliers(const std::vector<double>& log_ratios);

}  // namespace stepcast::cost
