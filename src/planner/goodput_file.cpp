// configs/operations: what fails how often, and what that costs.
#include <fmt/format.h>

#include <map>

#include "stepcast/base/diagnostics.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::planner {
namespace {

using text::Value;

Component component(text::Faults& faults, const Value& v) {
  const std::map<std::string, Component> names = {{"gpu", Component::gpu},
                                                  {"nic", Component::nic},
                                                  {"node", Component::node},
                                                  {"job", Component::job}};
  const auto at = names.find(text::to_string(v));
  if (at == names.end()) {
    faults.add(v.origin,
               fmt::format("'{}' is not a component; expected gpu, nic, node or job", v.scalar));
    return Component::job;
  }
  return at->second;
}

Seconds time_of(text::Faults& faults, const Value& v) {
  const double s = to_seconds(parse_time(text::to_string(v)));
  if (s < 0) {
    faults.add(v.origin, fmt::format("'{}' is below zero", v.scalar));
  }
  return Seconds(s);
}

Bandwidth bandwidth_of(text::Faults& faults, const Value& v) {
  const Bandwidth b = parse_bandwidth(text::to_string(v));
  if (!(b.count() > 0)) {
    faults.add(v.origin, fmt::format("'{}'; expected a bandwidth above zero", v.scalar));
  }
  return b;
}

}  // namespace

Operations read_operations(const std::filesystem::path& file) {
  const Value all = text::read_yaml(file);
  text::Faults faults;
  Operations o;
  o.name = file.stem().string();
  const auto time = [&](const Value& v) { return time_of(faults, v); };
  const auto bandwidth = [&](const Value& v) { return bandwidth_of(faults, v); };
  const auto failure = [&](const Value& v) {
    FailureKind f;
    bool sourced = false;
    faults.fields(
        v, "a failure",
        {{"name", [&](const Value& x) { f.name = text::to_string(x); }},
         {"of", [&](const Value& x) { f.of = component(faults, x); }},
         {"per_hour", [&](const Value& x) { f.per_hour = faults.number(x, 0, "per_hour"); }},
         {"source", [&](const Value& x) { sourced = !text::to_string(x).empty(); }}});
    if (f.name.empty() || !sourced) {
      faults.add(v.origin, "a failure needs a name and a source");
    }
    o.failures.push_back(std::move(f));
  };
  faults.fields(
      all, "operations",
      {{"failures", [&](const Value& v) { faults.list(v, "failures", failure); }},
       {"detection", [&](const Value& v) { o.detection = time(v); }},
       {"restart", [&](const Value& v) { o.restart = time(v); }},
       {"repair", [&](const Value& v) { o.repair = time(v); }},
       {"spares",
        [&](const Value& v) {
          const std::int64_t n = text::to_integer(v);
          if (n < 0 || n > 1'000'000) {
            faults.add(v.origin, fmt::format("spares is {}; expected 0 to 1000000 nodes", n));
          }
          o.spares = static_cast<int>(n);
        }},
       {"data_stall", [&](const Value& v) { o.data_stall = time(v); }},
       {"checkpoint",
        [&](const Value& v) {
          faults.fields(
              v, "checkpoint",
              {{"storage", [&](const Value& x) { o.storage = bandwidth(x); }},
               {"node_storage", [&](const Value& x) { o.node_storage = bandwidth(x); }},
               {"snapshot", [&](const Value& x) { o.snapshot = bandwidth(x); }},
               {"asynchronous", [&](const Value& x) { o.asynchronous = text::to_bool(x); }}});
        }},
       {"stragglers", [&](const Value& v) {
          faults.fields(
              v, "stragglers",
              {{"per_hour",
                [&](const Value& x) { o.stragglers.per_hour = faults.number(x, 0, "per_hour"); }},
               {"slowdown",
                [&](const Value& x) { o.stragglers.slowdown = faults.number(x, 1, "slowdown"); }},
               {"detection", [&](const Value& x) { o.stragglers.detection = time(x); }}});
        }}});
  faults.done();
  return o;
}

}  // namespace stepcast::planner
