#include "kernel_rows.h"

#include <fmt/format.h>

#include <cmath>

#include "owner.h"
#include "stepcast/base/statistics.h"
#include "stepcast/config/config.h"
#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::validate {

void Rows::price(ValidationRow& row, const Price& price) const {
  row.predicted = price.seconds;
  const double half = kDeviations90 * price.residual * row.predicted;
  row.low = std::max(0.0, row.predicted - half);
  row.high = row.predicted + half;
  row.error = (row.predicted - row.published) / row.published;
}

void Rows::or_burst(const Price& burst, bool large) {
  bursts_.push_back({out_.rows.size() - 1, burst, large});
}

// Decides whether a table timed short bursts or long runs where it does not say so: whichever price
// is closer to its large products, by the median.
void Rows::choose_bursts() {
  std::vector<double> as_burst;
  std::vector<double> as_long;
  for (const Burst& b : bursts_) {
    if (b.large) {
      const ValidationRow& row = out_.rows[b.row];
      as_burst.push_back(std::abs(std::log(b.price.seconds / row.published)));
      as_long.push_back(std::abs(std::log(row.predicted / row.published)));
    }
  }
  const bool burst = !as_long.empty() && median(as_burst) < median(as_long);
  for (const Burst& b : bursts_) {
    ValidationRow& row = out_.rows[b.row];
    row.source += burst ? " (taken for bursts)" : " (taken for long runs)";
    if (burst) {
      price(row, b.price);
    }
  }
}

void Rows::add(const Shown& shown, double measured, const std::optional<Price>& price,
               const std::string& why_not) {
  ValidationRow row;
  row.id = shown.id;
  row.source = std::filesystem::path(file_).stem().string();
  row.file = file_;
  row.metric = "time";
  row.published = measured;
  if (price) {
    this->price(row, *price);
    for (const std::string& name : shown.classes) {
      auto at = std::find(classes_.begin(), classes_.end(), name);
      if (at == classes_.end()) {
        classes_.push_back(name);
        members_.emplace_back();
        at = classes_.end() - 1;
      }
      members_[static_cast<std::size_t>(at - classes_.begin())].push_back(out_.rows.size());
    }
  } else {
    row.status = "skipped";
    row.reason = why_not;
  }
  out_.rows.push_back(std::move(row));
}

result::Validation Rows::finish() {
  if (out_.rows.empty()) {
    throw InputError(Fault{{file_, 1, 1}, "there are no rows; expected one measurement each"});
  }
  choose_bursts();
  out_.summary = summarize(out_.rows);
  std::vector<std::vector<std::size_t>> reported;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (members_[i].size() == out_.rows.size() ||
        std::find(reported.begin(), reported.end(), members_[i]) != reported.end()) {
      continue;
    }
    reported.push_back(members_[i]);
    std::vector<ValidationRow> named;
    for (const std::size_t row : members_[i]) {
      named.push_back(out_.rows[row]);
      named.back().metric = classes_[i];
    }
    for (auto& summary : summarize(named)) {
      out_.summary.push_back(std::move(summary));
    }
  }
  return std::move(out_);
}

// Records of kinds that are not compared are skipped.
result::Validation compare_records(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& calibration,
                                   const std::vector<std::string>& own,
                                   const std::filesystem::path& file) {
  const auto read = interop::read_gpu_measurements(file);
  KernelPrices prices(device, library.empty() ? "cublas" : library, calibration, own);
  for (const auto& session : read.sessions) {
    const auto known = config::list("devices");
    for (const std::string& stem : Owner::spellings(session.gpu)) {
      if (std::find(known.begin(), known.end(), stem) != known.end() &&
          config::device(stem).name != device.name) {
        throw InputError(
            Fault{{read.file, 1, 1},
                  fmt::format("measured on {}; expected {}", session.gpu, device.name)});
      }
    }
  }
  Rows out(read.file);
  for (const auto& m : read.measurements) {
    std::string why = m.skipped;
    std::optional<Price> price;
    if (why.empty()) {
      price = prices.measured(m.what, why);
    }
    out.add(shown(m.what), m.time.median, price, why);
  }
  return out.finish();
}

}  // namespace stepcast::validate
