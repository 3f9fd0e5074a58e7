// The machine-readable report of a step. Keys are a contract: more may be added, none renamed.
#include <fmt/format.h>

#include "../run/run_parts.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "forecast_conclusion.h"
#include "forecast_fields.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"

namespace stepcast::report {
namespace {

Record breakdown_fields(const result::StageBreakdown& s) {
  return {{"stage", s.stage},
          {"compute", s.compute},
          {"recompute", s.recompute},
          {"slowdown", s.slowdown},
          {"exposed", object({{"tensor", s.tensor},
                              {"pipeline", s.pipeline},
                              {"data", s.data},
                              {"context", s.context},
                              {"expert", s.expert},
                              {"offload", s.offload},
                              {"other", s.other}})},
          {"bubble", s.bubble},
          {"host", s.host},
          {"optimizer", s.optimizer},
          {"stall", s.stall}};
}

Record stage_memory_fields(const result::StageMemory& s) {
  Record out = {{"stage", s.stage},
                {"peak", object({{"allocated", s.allocated},
                                 {"active", s.active},
                                 {"reserved", s.reserved},
                                 {"process", s.process}})},
                {"steady", s.steady},
                {"first_step_peak", s.first_step_peak}};
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    out.push_back({word, result::part_of(s, category)});
  }
  out.push_back({"at", s.at});
  return out;
}

Value memory_value(const result::Report& report) {
  Record out = {{"capacity", report.capacity}, {"fits", fit_value(report.fits)}};
  if (report.host_used > Bytes(0) || report.nvme_used > Bytes(0)) {  // of a node
    append(out, {{"host_capacity", report.host_capacity},
                 {"host_used", report.host_used},
                 {"nvme_capacity", report.nvme_capacity},
                 {"nvme_used", report.nvme_used}});
  }
  append(out, {{"peak", report.peak}, {"stages", rows(report.memory, stage_memory_fields)}});
  return object(std::move(out), false);
}

Value engine_value(const result::EngineFacts& e) {
  return object({{"fidelity", e.fidelity},
                 {"ranks", e.ranks},
                 {"classes", e.classes},
                 {"tasks", e.tasks},
                 {"events", e.events},
                 {"steps", e.steps},
                 {"periodic", e.periodic}});
}

}  // namespace

Record traffic_fields(const result::Traffic& t) {
  const double seconds = to_seconds(t.time);
  const double per_second = seconds > 0 ? static_cast<double>(t.bytes.count()) / seconds : 0;
  return {{"group", t.group, "group"},
          {"op", t.op, "operation"},
          {"count", t.count, "count", Show::count},
          {"bytes", t.bytes, "data", Show::size},
          {"time", t.time, "time", Show::duration},
          {"", per_second, "rate", Show::rate}};
}

Record calibration_use_fields(const result::CalibrationUse& use) {
  return {{"file", use.file, "curves"},
          {"device", use.device, "device"},
          {"provenance", use.provenance, "provenance", Show::prose},
          {"residual", use.residual, "residual", Show::percent},
          {"basis", std::string(to_string(use.basis)), "rests on"},
          {"share", use.share, "of the step", Show::percent}};
}

Record advice_fields(const result::Advice& a, double step) {
  const auto peak = static_cast<double>(a.peak.count());
  return {
      {"change", a.change, "--set"},
      {"peak", a.peak, "peak, GiB", Show::gib},
      {"", gibibytes(peak) + " GiB", "peak", Show::number},
      {"step_time", a.step_time, "step time", Show::duration},
      {"fits", fit_value(a.fits)},
      {"", fit_words(a.fits), "fits"},
      {"", signed_percent(to_seconds(a.step_time) / step - 1), "against this job", Show::number}};
}

std::string engine_line(const result::EngineFacts& e) {
  return fmt::format(
      "{} simulation of {} in {}: {} tasks, {} events, {} steps{}", e.fidelity,
      e.ranks == 1 ? "1 rank" : thousands(e.ranks) + " ranks",
      e.classes == 1 ? "1 class" : thousands(e.classes) + " classes", thousands(e.tasks),
      thousands(e.events), e.steps,
      e.periodic ? "" : "; the steps do not become periodic, so their mean is given");
}

std::string json(const result::Report& report) { return json(report, std::nullopt); }

std::string json(const result::Report& report, const std::optional<result::RunCost>& run) {
  const auto advised = [&](const result::Advice& a) {
    return advice_fields(a, report.step_time.value);
  };
  Record out = {
      {"schema", kFitSchema},
      {"stepcast", STEPCAST_VERSION},
      {"title", report.title},
      {"conclusion", conclusion(report)},
      {"job", Document{report.job_json}},
      {"parameters", report.parameters},
      {"active_parameters", report.active_parameters},
      {"tokens", report.tokens},
      {"step_time", Interval{report.step_time, true}},
      {"tokens_per_second_per_gpu", report.tokens_per_second_per_gpu},
      {"model_flops_per_gpu", report.model_flops_per_gpu},
      {"mfu", report.mfu},
      {"hfu", report.hfu},
      {"bubble_fraction", report.bubble_fraction},
      {"breakdown", rows(report.breakdown, breakdown_fields)},
      {"memory", memory_value(report)},
      {"traffic", rows(report.traffic, traffic_fields)},
      {"calibration", rows(report.calibration, calibration_use_fields)},
      {"advice", rows(report.advice, advised)},
  };
  if (run) {
    out.push_back({"run", object(run_fields(*run), false)});
  }
  append(out, {{"notes", lines(report.notes)}, {"engine", engine_value(report.engine)}});
  return json_of(std::move(out));
}

}  // namespace stepcast::report
