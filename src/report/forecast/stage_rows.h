// Rows of the tables that have one row for each pipeline stage and a bar in it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace stepcast::report {

constexpr int kMinBar = 16;  // columns
constexpr int kMaxBar = 64;
// Of more stages: the first, the worst, the last and the mean.
constexpr std::size_t kMaxStages = 16;

// The stages that have a row: all of them, or the first, the worst and the last. `worst` is an
// index.
std::vector<std::size_t> rows_of_stages(std::size_t stages, std::size_t worst);

template <std::size_t n>
std::array<double, n> mean_of(const std::vector<std::array<double, n>>& all) {
  std::array<double, n> mean{};
  for (const auto& one : all) {
    for (std::size_t i = 0; i < n; ++i) {
      mean[i] += one[i] / static_cast<double>(all.size());
    }
  }
  return mean;
}

}  // namespace stepcast::report
