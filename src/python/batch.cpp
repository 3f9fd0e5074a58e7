#include "batch.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace stepcast::python {

namespace py = pybind11;

namespace {

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::vector<std::string> options_of(const std::vector<Column>& columns, std::size_t row) {
  std::vector<std::string> out;
  for (const Column& column : columns) {
    out.push_back(column.option(row));
  }
  return out;
}

// Member by member: the bytes between them stay zero.
void forecast_row(forecast::Forecaster& forecaster, const Source& source,
                  const std::vector<std::string>& overrides, const forecast::Options& options,
                  Row& row) {
  row.step_time = row.low = row.high = row.peak_memory = row.mfu = row.fits_probability =
      std::numeric_limits<double>::quiet_NaN();
  try {
    const auto outcome = forecaster.forecast(source.load(overrides).job, options);
    if (const auto* report = std::get_if<result::Report>(&outcome)) {
      row.step_time = report->step_time.value;
      row.low = report->step_time.low;
      row.high = report->step_time.high;
      row.peak_memory = report->peak.value;
      row.mfu = report->mfu.value;
      row.fits = report->fits.fits;
      row.fits_probability = report->fits.probability.value_or(row.fits ? 1 : 0);
      row.feasible = true;
    }
  } catch (const InputError&) {  // no such job: feasible stays false
  }
}

}  // namespace

Column::Column(std::string key, const py::object& values) : key_(std::move(key)) {
  if (py::isinstance<py::array>(values)) {
    array_ = values.cast<py::array>();
    if (array_.ndim() != 1) {
      throw InputError(Fault{
          {key_, 0, 0}, fmt::format("has {} dimensions; expected one value a row", array_.ndim())});
    }
    kind_ = array_.dtype().kind();
    const auto width = array_.itemsize();
    const bool number = ((kind_ == 'i' || kind_ == 'u' || kind_ == 'f') && width == 8) ||
                        (kind_ == 'i' && width == 4) || (kind_ == 'b' && width == 1);
    if (number) {
      kind_ = kind_ == 'i' && width == 4 ? 'l' : kind_;
      size_ = static_cast<std::size_t>(array_.shape(0));
      data_ = static_cast<const char*>(array_.data());
      stride_ = array_.strides(0);
      return;
    }
  }
  for (const py::handle& item : values) {
    words_.push_back(to_option(item));
  }
  size_ = words_.size();
}

std::string Column::option(std::size_t row) const {
  if (data_ == nullptr) {
    return key_ + "=" + words_[row];
  }
  const char* at = data_ + static_cast<py::ssize_t>(row) * stride_;
  switch (kind_) {
    case 'l':
      return fmt::format("{}={}", key_, read<std::int32_t>(at));
    case 'i':
      return fmt::format("{}={}", key_, read<std::int64_t>(at));
    case 'u':
      return fmt::format("{}={}", key_, read<std::uint64_t>(at));
    case 'f':
      return fmt::format("{}={}", key_, read<double>(at));
    default:
      return fmt::format("{}={}", key_, read<bool>(at));
  }
}

void forecast_rows(const Source& source, const std::vector<Column>& columns, int threads,
                   const forecast::Options& options, Row* rows, std::size_t count) {
  std::memset(static_cast<void*>(rows), 0, count * sizeof(Row));
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      forecast::Forecaster forecaster(text::data_directory());
      for (std::size_t row = next++; row < count; row = next++) {
        forecast_row(forecaster, source, options_of(columns, row), options, rows[row]);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads) : cores;
  std::vector<std::thread> pool;
  for (std::size_t i = 1; i < std::min(wanted, count); ++i) {
    pool.emplace_back(work);
  }
  work();
  for (std::thread& thread : pool) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace stepcast::python
