#include "batch.h"

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>

#include "stepcast/base/threads.h"

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

char kind_of(const py::object& array) {
  return array.attr("dtype").attr("char").cast<std::string>().front();
}

// An array of numbers that are read in place; NumPy's scalars, dates and texts are read item by
// item.
bool has_numbers(const py::object& values) {
  return py::hasattr(values, "dtype") && values.attr("dtype").attr("isnative").cast<bool>() &&
         std::string_view("ilqLQd?").find(kind_of(values)) != std::string_view::npos;
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
  if (has_numbers(values)) {
    array_ = py::reinterpret_borrow<py::buffer>(values).request();
    if (array_.ndim != 1) {
      throw InputError(Fault{
          {key_, 0, 0}, fmt::format("has {} dimensions; expected one value a row", array_.ndim)});
    }
    kind_ = kind_of(values);
    size_ = static_cast<std::size_t>(array_.shape[0]);
    data_ = static_cast<const char*>(array_.ptr);
    stride_ = array_.strides[0];
    return;
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
    case 'i':
      return fmt::format("{}={}", key_, read<int>(at));
    case 'l':
      return fmt::format("{}={}", key_, read<long>(at));
    case 'q':
      return fmt::format("{}={}", key_, read<long long>(at));
    case 'L':
      return fmt::format("{}={}", key_, read<unsigned long>(at));
    case 'Q':
      return fmt::format("{}={}", key_, read<unsigned long long>(at));
    case 'd':
      return fmt::format("{}={}", key_, read<double>(at));
    default:
      return fmt::format("{}={}", key_, read<bool>(at));
  }
}

py::object empty_rows(std::size_t count) {
  struct Member {
    const char* name;
    const char* format;
    std::size_t offset;
  };
  constexpr Member members[] = {{"step_time", "f8", offsetof(Row, step_time)},
                                {"low", "f8", offsetof(Row, low)},
                                {"high", "f8", offsetof(Row, high)},
                                {"peak_memory", "f8", offsetof(Row, peak_memory)},
                                {"mfu", "f8", offsetof(Row, mfu)},
                                {"fits_probability", "f8", offsetof(Row, fits_probability)},
                                {"fits", "?", offsetof(Row, fits)},
                                {"feasible", "?", offsetof(Row, feasible)}};
  py::list names, formats, offsets;
  for (const Member& m : members) {
    names.append(m.name);
    formats.append(m.format);
    offsets.append(m.offset);
  }
  py::dict layout;
  layout["names"] = names;
  layout["formats"] = formats;
  layout["offsets"] = offsets;
  layout["itemsize"] = sizeof(Row);
  const py::module_ numpy = py::module_::import("numpy");
  return numpy.attr("zeros")(count, numpy.attr("dtype")(layout));
}

void forecast_rows(const Source& source, const std::vector<Column>& columns, int threads,
                   const forecast::Options& options, Row* rows, std::size_t count) {
  std::memset(static_cast<void*>(rows), 0, count * sizeof(Row));
  std::atomic<std::size_t> next{0};
  on_threads(std::min(threads_of(threads), count), [&](const std::atomic<bool>& failed) {
    forecast::Forecaster forecaster(text::data_directory());
    for (std::size_t row = next++; row < count && !failed; row = next++) {
      forecast_row(forecaster, source, options_of(columns, row), options, rows[row]);
    }
  });
}

}  // namespace stepcast::python
