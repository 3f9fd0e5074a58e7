// Collects measured kernels with their prices, and summarises them by class of shape.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel_price.h"
#include "stepcast/base/interval.h"
#include "stepcast/result/validation.h"
#include "stepcast/validate/compare.h"

namespace stepcast::validate {

using result::ValidationRow;

class Rows {
 public:
  explicit Rows(std::string file) : file_(std::move(file)) {}
  // A row without a price is counted as skipped, with the reason `why_not`.
  void add(const Shown& shown, double measured, const std::optional<Price>& price,
           const std::string& why_not);
  // Gives the last row an alternative price, which is used if the table turns out to hold bursts.
  void or_burst(const Price& burst, bool large);
  // Returns summaries of all rows and of every class that does not contain all rows. Throws
  // InputError where there are no rows.
  result::Validation finish();

 private:
  struct Burst {
    std::size_t row = 0;
    Price price;
    bool large = false;
  };
  void price(ValidationRow& row, const Price& price) const;
  void choose_bursts();

  std::string file_;
  std::vector<Burst> bursts_;
  std::vector<std::string> classes_;
  std::vector<std::vector<std::size_t>> members_;  // indices of the rows in each class
  result::Validation out_;
};

// Records of calibrate-gpu.
result::Validation compare_records(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& calibration,
                                   const std::vector<std::string>& own,
                                   const std::filesystem::path& file);

}  // namespace stepcast::validate
