// Measured kernels beside their prices, and summaries by class of shape.
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
  // Without a price: skipped, and why not.
  void add(const Shown& shown, double measured, const std::optional<Price>& price,
           const std::string& why_not);
  // Of the row added last: another price, should the table turn out to be of bursts.
  void or_burst(const Price& burst, bool large);
  // Summaries: all rows, then the classes that do not hold them all. Throws InputError where there
  // are no rows.
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
  std::vector<std::vector<std::size_t>> members_;  // rows of each class
  result::Validation out_;
};

// Records of calibrate-gpu.
result::Validation compare_records(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& calibration,
                                   const std::vector<std::string>& own,
                                   const std::filesystem::path& file);

}  // namespace stepcast::validate
