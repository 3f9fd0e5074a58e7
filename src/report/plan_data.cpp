// A plan for machines: JSON and CSV.
#include <fmt/format.h>

#include "json_writer.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/plan.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Plan;
using result::PlannedCluster;

void estimate(JsonWriter& json, const char* key, const Estimate& e) {
  json.key(key).object(true).key("value").number(e.value);
  json.key("low").number(e.low).key("high").number(e.high).close();
}

void limit(JsonWriter& json, const char* key, double value) {
  json.key(key);
  value > 0 ? json.number(value) : json.null();
}

void cluster_figures(JsonWriter& json, const PlannedCluster& c) {
  json.key("nodes").integer(c.nodes).key("gpus").integer(c.gpus);
  json.key("overrides").array(true);
  for (const std::string& text : c.overrides) {
    json.text(text);
  }
  json.close();
  estimate(json, "step_time", c.step_time);
  json.key("mfu").number(c.mfu).key("bubble_fraction").number(c.bubble_fraction);
  json.key("memory").object(true).key("capacity").bytes(c.capacity).key("fits").boolean(c.fits);
  estimate(json, "peak", c.peak_memory);
  json.close();
  json.key("busy").number(c.busy).key("communicating").number(c.communicating);
  estimate(json, "effective", c.effective);
  json.key("wait_days").number(c.wait_days);
  estimate(json, "days", c.days);
  estimate(json, "gpu_hours", c.gpu_hours);
  estimate(json, "cost", c.cost);
  json.key("rent").number(c.rent).key("depreciation").number(c.depreciation);
  json.key("electricity").number(c.electricity).key("capital").number(c.capital);
  estimate(json, "energy", c.energy);
  json.key("average_power").number(c.average_power).key("peak_power").number(c.peak_power);
  if (c.carbon) {
    estimate(json, "carbon", *c.carbon);
  } else {
    json.key("carbon").null();
  }
  json.key("objective").number(c.objective);
}

void write(JsonWriter& json, const PlannedCluster& c) {
  json.object().key("name").text(c.name).key("cluster").text(c.cluster);
  json.key("device").text(c.device).key("site").text(c.site);
  json.key("available");
  c.available.empty() ? json.null() : json.text(c.available);
  json.key("nodes_offered").integer(c.nodes_offered).key("bought").boolean(c.bought);
  json.key("meets").boolean(c.meets).key("simulated").boolean(c.simulated);
  json.key("shortfalls").array();
  for (const result::Shortfall& s : c.shortfalls) {
    json.object(true).key("limit").text(to_string(s.limit)).key("by").number(s.by);
    json.key("text").text(s.text).close();
  }
  json.close();
  if (c.simulated) {
    cluster_figures(json, c);
  }
  json.key("counts").array();
  for (const result::PlannedCount& n : c.counts) {
    json.object(true).key("nodes").integer(n.nodes).key("fits").boolean(n.fits);
    json.key("meets").boolean(n.meets).key("days").number(n.days).key("cost").number(n.cost);
    json.key("energy").number(n.energy).key("peak_power").number(n.peak_power).close();
  }
  json.close();
  json.key("search").object(true).key("counts_possible").integer(c.counts_possible);
  json.key("bounded").integer(c.bounded).key("engine_runs").integer(c.engine_runs);
  json.key("proven").boolean(c.proven).key("gap").number(c.gap).close();
  json.key("figures").array();
  for (const result::PlanFigure& f : c.figures) {
    json.object(true).key("name").text(f.name).key("value").number(f.value);
    json.key("unit").text(f.unit).key("source").text(f.source).close();
  }
  json.close().close();
}

// As RFC 4180 has it.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

std::string json(const Plan& p) {
  JsonWriter json;
  json.object().key("schema").integer(1).key("title").text(p.title);
  json.key("objective").text(p.objective).key("catalogue").text(p.catalogue);
  json.key("currency").text(p.currency).key("operations");
  p.operations.empty() ? json.null() : json.text(p.operations);
  json.key("start");
  p.start.empty() ? json.null() : json.text(p.start);
  json.key("tokens").number(p.tokens);
  json.key("limits").object(true);
  limit(json, "days", p.limits.days);
  limit(json, "budget", p.limits.budget);
  limit(json, "power", p.limits.watts);
  json.close();
  json.key("clusters").array();
  for (const PlannedCluster& c : p.clusters) {
    write(json, c);
  }
  json.close().close();
  return std::move(json).finish();
}

std::string csv(const Plan& p) {
  std::string out =
      "name,cluster,device,site,available,meets,nodes,gpus,step_time_s,mfu,fits,effective,days,"
      "days_low,days_high,gpu_hours,cost,cost_low,cost_high,energy_mwh,average_power_mw,"
      "peak_power_mw,carbon_t,proven,lacks,overrides\n";
  for (const PlannedCluster& c : p.clusters) {
    std::string lacks, overrides;
    for (const result::Shortfall& s : c.shortfalls) {
      lacks += (lacks.empty() ? "" : "; ") + s.text;
    }
    for (const std::string& text : c.overrides) {
      overrides += (overrides.empty() ? "" : " ") + text;
    }
    out += fmt::format("{},{},{},{},{},{},", cell(c.name), c.cluster, c.device, cell(c.site),
                       c.available, c.meets);
    if (c.simulated) {
      out +=
          fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", c.nodes, c.gpus,
                      c.step_time.value, c.mfu, c.fits, c.effective.value, c.days.value, c.days.low,
                      c.days.high, c.gpu_hours.value, c.cost.value, c.cost.low, c.cost.high,
                      c.energy.value / kMegawattHour, c.average_power * 1e-6, c.peak_power * 1e-6,
                      c.carbon ? fmt::format("{}", c.carbon->value * 1e-3) : "");
    } else {
      out += std::string(16, ',');
    }
    out += fmt::format(",{},{},{}\n", c.proven, cell(lacks), cell(overrides));
  }
  return out;
}

}  // namespace stepcast::report
