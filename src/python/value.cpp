#include "value.h"

#include <fmt/format.h>

#include "stepcast/input/input.h"

namespace stepcast::python {

namespace py = pybind11;
using text::Value;

namespace {

Value scalar(std::string text, const Origin& where, bool quoted) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.scalar = std::move(text);
  v.quoted = quoted;
  v.origin = where;
  return v;
}

}  // namespace

Value to_value(const py::handle& object, const std::string& name) {
  const Origin where{name, 0, 0};
  Value v;
  v.origin = where;
  if (object.is_none()) {
    return v;
  }
  if (py::isinstance<py::bool_>(object)) {
    return scalar(object.cast<bool>() ? "true" : "false", where, false);
  }
  if (py::isinstance<py::int_>(object) || py::isinstance<py::float_>(object)) {
    return scalar(py::repr(object).cast<std::string>(), where, false);
  }
  if (py::isinstance<py::str>(object)) {
    return scalar(object.cast<std::string>(), where, true);
  }
  if (py::isinstance<py::dict>(object)) {
    v.kind = Value::Kind::map;
    for (const auto& [key, value] : object.cast<py::dict>()) {
      const std::string text = py::str(key).cast<std::string>();
      const std::string below = name + "." + text;
      v.entries.push_back({text, Origin{below, 0, 0}, to_value(value, below)});
    }
    return v;
  }
  if (py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object)) {
    v.kind = Value::Kind::sequence;
    for (const py::handle& item : object) {
      v.items.push_back(to_value(item, fmt::format("{}[{}]", name, v.items.size())));
    }
    return v;
  }
  if (py::hasattr(object, "tolist")) {  // NumPy's scalars and arrays
    return to_value(object.attr("tolist")(), name);
  }
  throw InputError(Fault{
      where, fmt::format("is a {}; expected a dict, list, str, number, bool or None",
                         py::str(py::type::of(object).attr("__name__")).cast<std::string>())});
}

std::string to_option(const py::handle& object) {
  if (py::isinstance<py::str>(object)) {
    return object.cast<std::string>();  // as a user would type it: "{every: 2}"
  }
  py::object plain = py::reinterpret_borrow<py::object>(object);
  if (py::hasattr(object, "tolist")) {
    plain = object.attr("tolist")();
  }
  return py::module_::import("json").attr("dumps")(plain).cast<std::string>();
}

Source::Source(const py::object& job) {
  if (py::isinstance<py::str>(job) || py::hasattr(job, "__fspath__")) {
    file_ = py::str(job).cast<std::string>();
  } else {
    document_ = to_value(job, "job");
  }
}

config::Loaded Source::load(const std::vector<std::string>& overrides) const {
  return file_.empty() ? input::parse(document_, overrides) : input::load(file_, overrides);
}

py::object from_json(const std::string& json) {
  return py::module_::import("json").attr("loads")(json);
}

}  // namespace stepcast::python
