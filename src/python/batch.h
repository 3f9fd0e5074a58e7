// Thousands of forecasts at once.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "value.h"

namespace stepcast::python {

// A row of the result: NumPy sees this memory as it is. SI units; NaN where there is no such job.
struct Row {
  double step_time, low, high;  // seconds
  double peak_memory;           // bytes of a process
  double mfu;
  double fits_probability;
  bool fits;
  bool feasible;  // false: the row's overrides make no job, or its system refuses it
};

// One override for all rows: numbers are read where the array has them, anything else is kept as
// typed.
class Column {
 public:
  Column(std::string key, const pybind11::object& values);
  std::size_t size() const { return size_; }
  std::string option(std::size_t row) const;  // "KEY=VALUE"; needs no GIL

 private:
  std::string key_;
  std::size_t size_ = 0;
  pybind11::buffer_info array_;  // keeps the memory alive
  char kind_ = 'O';              // of its items, as Python's struct has them: i, l, q, L, Q, d, ?
  const char* data_ = nullptr;
  pybind11::ssize_t stride_ = 0;
  std::vector<std::string> words_;
};

// `count` rows as a structured array. NumPy makes it and the buffer protocol shares its memory, as
// it does a column's: both are the same for every NumPy, which the layout of its types
// (pybind11/numpy.h) is not: NumPy 2 moved them.
pybind11::object empty_rows(std::size_t count);

// Fills rows, each by one thread; `threads` 0: all cores. The rows do not depend on the number of
// threads.
void forecast_rows(const Source& source, const std::vector<Column>& columns, int threads,
                   const forecast::Options& options, Row* rows, std::size_t count);

}  // namespace stepcast::python
