// The machine-readable reports. Keys are a contract: more may be added, none renamed.
#include <cmath>

#include "json_writer.h"
#include "run_parts.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"

namespace stepcast::report {
namespace {

constexpr int kSchema = 1;

void write(JsonWriter& out, std::string_view key, const result::Estimate& estimate) {
  out.key(key).object(true);
  out.key("value").number(estimate.value);
  out.key("low").number(estimate.low);
  out.key("high").number(estimate.high);
  out.close();
}

void write_breakdown(JsonWriter& out, const std::vector<result::StageBreakdown>& breakdown) {
  out.key("breakdown").array();
  for (const result::StageBreakdown& stage : breakdown) {
    out.object(true);
    out.key("stage").integer(stage.stage);
    out.key("compute").time(stage.compute);
    out.key("recompute").time(stage.recompute);
    out.key("slowdown").time(stage.slowdown);
    out.key("exposed").object();
    out.key("tensor").time(stage.tensor);
    out.key("pipeline").time(stage.pipeline);
    out.key("data").time(stage.data);
    out.key("context").time(stage.context);
    out.key("expert").time(stage.expert);
    out.key("offload").time(stage.offload);
    out.key("other").time(stage.other);
    out.close();
    out.key("bubble").time(stage.bubble);
    out.key("host").time(stage.host);
    out.key("optimizer").time(stage.optimizer);
    out.key("stall").time(stage.stall);
    out.close();
  }
  out.close();
}

void write_memory(JsonWriter& out, const result::Report& report) {
  out.key("memory").object();
  out.key("capacity").bytes(report.capacity);
  out.key("fits").boolean(report.fits);
  if (report.host_used > Bytes(0) || report.nvme_used > Bytes(0)) {  // of a node
    out.key("host_capacity").bytes(report.host_capacity);
    out.key("host_used").bytes(report.host_used);
    out.key("nvme_capacity").bytes(report.nvme_capacity);
    out.key("nvme_used").bytes(report.nvme_used);
  }
  write(out, "peak", report.peak);
  out.key("stages").array();
  for (const result::StageMemory& stage : report.memory) {
    out.object(true);
    out.key("stage").integer(stage.stage);
    out.key("peak").object();
    out.key("allocated").bytes(stage.allocated);
    out.key("active").bytes(stage.active);
    out.key("reserved").bytes(stage.reserved);
    out.key("process").bytes(stage.process);
    out.close();
    out.key("steady").bytes(stage.steady);
    out.key("first_step_peak").bytes(stage.first_step_peak);
    for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
      out.key(word).bytes(result::part_of(stage, category));
    }
    out.key("at").time(stage.at);
    out.close();
  }
  out.close();
  out.close();
}

void write_optional(JsonWriter& out, std::string_view key, const std::optional<int>& value) {
  out.key(key);
  value ? out.integer(*value) : out.null();
}

template <class T>
void write_list(JsonWriter& out, std::string_view key, const std::vector<T>& values) {
  out.key(key).array(true);
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, int>) {
      out.integer(value);
    } else {
      out.number(value);
    }
  }
  out.close();
}

}  // namespace

std::string json(const result::Report& report) { return json(report, std::nullopt); }

std::string json(const result::Report& report, const std::optional<result::RunCost>& run) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(kSchema);
  out.key("stepcast").text(STEPCAST_VERSION);
  out.key("title").text(report.title);
  out.key("job").document(report.job_json);
  out.key("step_time").object(true);
  out.key("value").fixed_seconds(report.step_time.value);
  out.key("low").fixed_seconds(report.step_time.low);
  out.key("high").fixed_seconds(report.step_time.high);
  out.close();
  write(out, "tokens_per_second_per_gpu", report.tokens_per_second_per_gpu);
  write(out, "model_flops_per_gpu", report.model_flops_per_gpu);
  write(out, "mfu", report.mfu);
  write(out, "hfu", report.hfu);
  out.key("bubble_fraction").number(report.bubble_fraction);
  write_breakdown(out, report.breakdown);
  write_memory(out, report);
  out.key("traffic").array();
  for (const result::Traffic& traffic : report.traffic) {
    out.object(true);
    out.key("group").text(traffic.group);
    out.key("op").text(traffic.op);
    out.key("count").integer(traffic.count);
    out.key("bytes").bytes(traffic.bytes);
    out.key("time").time(traffic.time);
    out.close();
  }
  out.close();
  out.key("calibration").array();
  for (const result::CalibrationUse& use : report.calibration) {
    out.object(true);
    out.key("file").text(use.file);
    out.key("device").text(use.device);
    out.key("provenance").text(use.provenance);
    out.key("residual").number(use.residual);
    out.close();
  }
  out.close();
  out.key("advice").array();
  for (const result::Advice& advice : report.advice) {
    out.object(true);
    out.key("change").text(advice.change);
    out.key("peak").bytes(advice.peak);
    out.key("step_time").time(advice.step_time);
    out.close();
  }
  out.close();
  if (run) {
    write_run(out, *run);
  }
  out.key("notes").array();
  for (const std::string& note : report.notes) {
    out.text(note);
  }
  out.close();
  out.key("engine").object(true);
  out.key("fidelity").text(report.engine.fidelity);
  out.key("ranks").integer(report.engine.ranks);
  out.key("classes").integer(report.engine.classes);
  out.key("tasks").integer(report.engine.tasks);
  out.key("events").integer(report.engine.events);
  out.key("steps").integer(report.engine.steps);
  out.key("periodic").boolean(report.engine.periodic);
  out.close();
  out.close();
  return std::move(out).finish();
}

std::string json(const result::Validation& validation) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(kSchema);
  out.key("rows").array();
  for (const result::ValidationRow& row : validation.rows) {
    out.object(true);
    out.key("id").text(row.id);
    out.key("source").text(row.source);
    out.key("file").text(row.file);
    out.key("metric").text(row.metric);
    out.key("primary").boolean(row.primary);
    write_optional(out, "stage", row.stage);
    write_optional(out, "rank", row.rank);
    out.key("status").text(row.status);
    out.key("published").number(row.published);
    out.key("predicted").number(row.predicted);
    out.key("low").number(row.low);
    out.key("high").number(row.high);
    out.key("error").number(row.error);
    out.key("reason");
    row.reason ? out.text(*row.reason) : out.null();
    out.key("accepted").boolean(row.accepted);
    out.key("deviations").number(row.deviations);
    out.key("open").array(true);
    for (const std::string& fact : row.open) {
      out.text(fact);
    }
    out.close();
    out.key("system").text(row.system);
    out.key("path").object();
    for (const result::PathShare& part : row.path) {
      out.key(part.category).number(part.seconds);
    }
    out.close();
    out.key("doubts").object();
    for (const auto& [kind, deviation] : row.doubts) {
      out.key(kind).number(deviation);
    }
    out.close();
    out.key("why").text(row.why);
    out.close();
  }
  out.close();
  out.key("summary").array();
  for (const result::ValidationSummary& summary : validation.summary) {
    out.object(true);
    out.key("file").text(summary.file);
    out.key("metric").text(summary.metric);
    out.key("rows").integer(summary.rows);
    out.key("simulated").integer(summary.simulated);
    out.key("median").number(summary.median);
    out.key("mean").number(summary.mean);
    out.key("bias").number(summary.bias);
    out.key("p90").number(summary.p90);
    out.key("worst").object();
    out.key("id").text(summary.worst_id);
    out.key("error").number(summary.worst);
    out.close();
    out.key("coverage").number(summary.coverage);
    out.key("half_width").number(summary.half_width);
    out.key("interval_score").number(summary.interval_score);
    out.key("accepted").integer(summary.accepted);
    out.key("simulated_share").number(summary.simulated_share());
    out.key("of_all").object();
    out.key("median").number(summary.median_of_all);
    out.key("mean").number(summary.mean_of_all);
    out.key("p90").number(summary.p90_of_all);
    out.close();
    out.close();
  }
  out.close();
  out.key("skips").array();
  for (const result::SkipCount& skip : validation.skips) {
    out.object(true);
    out.key("kind").text(skip.kind).key("accepted").boolean(skip.accepted);
    out.key("rows").integer(skip.rows).close();
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

std::string json(const schedule::Played& played) {
  JsonWriter out;
  out.object();
  out.key("makespan").number(played.makespan);
  write_list(out, "idle", played.idle);
  write_list(out, "idle_inside", played.idle_inside);
  write_list(out, "peak_until_w", played.peak_until_w);
  write_list(out, "peak_until_i", played.peak_until_i);
  out.key("tasks").array();
  for (const schedule::Played::Task& task : played.tasks) {
    out.object(true);
    out.key("rank").integer(task.rank);
    out.key("stage").integer(task.stage);
    out.key("micro_batch").integer(task.micro_batch);
    out.key("kind").text(std::string(1, static_cast<char>(task.pass)));
    out.key("start").number(task.start);
    out.key("end").number(task.end);
    out.close();
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

}  // namespace stepcast::report
