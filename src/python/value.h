// Python objects as located documents, and faults as exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "stepcast/config/config.h"
#include "stepcast/text/document.h"

namespace stepcast::python {

// dict, list, str, numbers, bool, None and NumPy's scalars. Every value's place is its path from
// `name`, so that a fault reads "job.parallelism.tensor: error: ...". Throws InputError for any
// other object.
text::Value to_value(const pybind11::handle& object, const std::string& name);

// As text that `--set KEY=` accepts.
std::string to_option(const pybind11::handle& object);

// A job as its keys, or as the path or name of a job file.
class Source {
 public:
  explicit Source(const pybind11::object& job);
  // Needs no GIL. Throws InputError.
  config::Loaded load(const std::vector<std::string>& overrides) const;

 private:
  std::string file_;
  text::Value document_;
};

// json.loads
pybind11::object from_json(const std::string& json);

}  // namespace stepcast::python
