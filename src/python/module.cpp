// import stepcast
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <thread>

#include "batch.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/report/report.h"
#include "stepcast/search/advice.h"
#include "stepcast/search/search.h"
#include "value.h"

namespace py = pybind11;

namespace stepcast::python {
namespace {

[[noreturn]] void option_fault(const char* option, std::string message) {
  throw InputError(Fault{{option, 0, 0}, std::move(message)});
}

forecast::Options options_of(const std::string& fidelity) {
  forecast::Options options;
  const auto known = parse<forecast::Fidelity>(fidelity);
  if (!known) {
    option_fault("fidelity", fmt::format("is '{}'; expected bound, folded or full", fidelity));
  }
  options.fidelity = *known;
  return options;
}

// The report as simulate --json has it.
std::string forecast_json(const Source& source, const std::vector<std::string>& overrides,
                          const forecast::Options& options) {
  const config::Loaded loaded = source.load(overrides);
  // Curves and topologies stay with the thread that calls.
  thread_local forecast::Forecaster forecaster(text::data_directory());
  auto outcome = forecaster.forecast(loaded.job, options);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    throw InputError(config::fault_of(loaded, *why));
  }
  auto& report = std::get<result::Report>(outcome);
  report.job_json = config::to_json(loaded.job);
  if (!report.fits && options.fidelity != forecast::Fidelity::bound) {
    const auto loader = [&](const std::vector<std::string>& more) -> std::optional<job::Job> {
      std::vector<std::string> all = overrides;
      all.insert(all.end(), more.begin(), more.end());
      try {
        return source.load(all).job;
      } catch (const InputError&) {
        return std::nullopt;
      }
    };
    search::add_advice(forecaster, loaded.job, loader, report);
  }
  return report::json(report);
}

py::object forecast_one(const py::object& job, const std::vector<std::string>& overrides,
                        const std::string& fidelity) {
  const Source source(job);
  forecast::Options options = options_of(fidelity);
  options.threads = 0;
  std::string json;
  {
    const py::gil_scoped_release others;
    json = forecast_json(source, overrides, options);
  }
  return from_json(json);
}

py::object forecast_many(const py::object& job, const py::dict& overrides, int threads,
                         const std::string& fidelity) {
  const Source source(job);
  const forecast::Options options = options_of(fidelity);
  std::vector<Column> columns;
  for (const auto& [key, values] : overrides) {
    columns.emplace_back(py::str(key).cast<std::string>(),
                         py::reinterpret_borrow<py::object>(values));
    if (columns.back().size() != columns.front().size()) {
      option_fault(py::str(key).cast<std::string>().c_str(),
                   fmt::format("has {} rows; expected {} as the first key has",
                               columns.back().size(), columns.front().size()));
    }
  }
  if (columns.empty()) {
    option_fault("overrides", "is empty; expected {KEY: VALUES}, a value a row");
  }
  const std::size_t count = columns.front().size();
  py::object out = empty_rows(count);
  const py::buffer_info memory = py::reinterpret_borrow<py::buffer>(out).request(true);
  const py::gil_scoped_release others;
  forecast_rows(source, columns, threads, options, static_cast<Row*>(memory.ptr), count);
  return out;
}

search::Objective objective_of(const std::string& name) {
  const auto objective = parse<search::Objective>(name);
  if (!objective) {
    option_fault("objective", fmt::format("is '{}'; expected time, cost or energy", name));
  }
  return *objective;
}

text::Value space_of(const py::object& space) {
  if (!py::isinstance<py::str>(space)) {
    return to_value(space, "space");
  }
  const std::string name = space.cast<std::string>();
  const auto preset = text::data_directory() / "configs" / "spaces" / (name + ".yaml");
  return text::read_yaml(std::filesystem::exists(preset) ? preset : std::filesystem::path(name));
}

py::object search_best(const py::object& job, const py::object& space,
                       const std::vector<std::string>& overrides, const std::string& objective,
                       double time_limit, int threads) {
  const Source source(job);
  const text::Value document = space_of(space);
  search::Request request;
  request.objective = objective_of(objective);
  request.time_limit = time_limit;
  request.threads =
      threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::string json;
  {
    const py::gil_scoped_release others;
    const config::Loaded base = source.load(overrides);
    request.space = search::read_space(document, base.job);
    search::check_values(request.space);
    search::fix(request.space, overrides);
    const auto loader =
        [&](const std::vector<std::string>& more) -> std::variant<job::Job, Infeasible> {
      std::vector<std::string> all = overrides;
      all.insert(all.end(), more.begin(), more.end());
      try {
        return source.load(all).job;
      } catch (const InputError& error) {
        const Fault& first = error.faults().front();
        return Infeasible{to_string(first.where), first.message};
      }
    };
    result::Search answer = search::search(request, loader, text::data_directory());
    answer.title = fmt::format("{} on {} x {}", base.job.model.name, base.job.cluster.nodes,
                               base.job.cluster.name);
    json = report::json(answer);
  }
  return from_json(json);
}

}  // namespace
}  // namespace stepcast::python

PYBIND11_MODULE(_core, m) {
  using namespace stepcast;
  using namespace stepcast::python;
  m.doc() = "Forecasts one training step of a large language model on a GPU cluster.";
  static const py::exception<InputError> input_error(m, "InputError", PyExc_ValueError);
  m.attr("InputError").attr("__module__") = "stepcast";
  py::register_exception_translator([](std::exception_ptr raised) {
    try {
      std::rethrow_exception(raised);
    } catch (const InputError& error) {
      std::string text;
      for (const Fault& fault : error.faults()) {
        text += (text.empty() ? "" : "\n") + to_string(fault);
      }
      PyErr_SetString(input_error.ptr(), text.c_str());
    }
  });
  m.def("forecast", forecast_one, py::arg("job"), py::kw_only(),
        py::arg("set") = std::vector<std::string>(), py::arg("fidelity") = "folded",
        "One training step of a job: a dict of its keys, or the path or name of a job file.\n"
        "The same as simulate --json.");
  m.def("forecast_many", forecast_many, py::arg("job"), py::arg("overrides"), py::kw_only(),
        py::arg("threads") = 0, py::arg("fidelity") = "folded",
        "The job once for every row of overrides {KEY: VALUES}, on all cores: a structured array.");
  m.def("search", search_best, py::arg("job"), py::arg("space") = "default", py::kw_only(),
        py::arg("set") = std::vector<std::string>(), py::arg("objective") = "time",
        py::arg("time_limit") = 0.0, py::arg("threads") = 0,
        "The best strategy of a space {KEY: [VALUES]}, with proof. The same as simulate search.");
}
