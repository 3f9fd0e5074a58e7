// configs/operations: what fails how often, and what that costs.
#include <fmt/format.h>

#include <map>

#include "file_reader.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {
namespace {

using text::Value;

Component component(FileReader& r, const Value& v) {
  const std::map<std::string, Component> names = {{"gpu", Component::gpu},
                                                  {"nic", Component::nic},
                                                  {"node", Component::node},
                                                  {"job", Component::job}};
  const auto at = names.find(text::to_string(v));
  if (at == names.end()) {
    r.fault(v.origin,
            fmt::format("'{}' is no component; expected gpu, nic, node or job", v.scalar));
    return Component::job;
  }
  return at->second;
}

}  // namespace

Operations read_operations(const std::filesystem::path& file) {
  const Value all = text::read_yaml(file);
  FileReader r;
  Operations o;
  o.name = file.stem().string();
  const auto failure = [&](const Value& v) {
    FailureKind f;
    bool sourced = false;
    r.map(v, "a failure",
          {{"name", [&](const Value& x) { f.name = text::to_string(x); }},
           {"of", [&](const Value& x) { f.of = component(r, x); }},
           {"per_hour", [&](const Value& x) { f.per_hour = r.number(x, 0, "per_hour"); }},
           {"source", [&](const Value& x) { sourced = !text::to_string(x).empty(); }}});
    if (f.name.empty() || !sourced) {
      r.fault(v.origin, "a failure needs a name and a source");
    }
    o.failures.push_back(std::move(f));
  };
  r.map(all, "operations",
        {{"failures", [&](const Value& v) { r.list(v, "failures", failure); }},
         {"detection", [&](const Value& v) { o.detection = r.time(v); }},
         {"restart", [&](const Value& v) { o.restart = r.time(v); }},
         {"repair", [&](const Value& v) { o.repair = r.time(v); }},
         {"spares",
          [&](const Value& v) {
            const std::int64_t n = text::to_integer(v);
            if (n < 0 || n > 1'000'000) {
              r.fault(v.origin, fmt::format("spares is {}; expected 0 to 1000000 nodes", n));
            }
            o.spares = static_cast<int>(n);
          }},
         {"data_stall", [&](const Value& v) { o.data_stall = r.time(v); }},
         {"checkpoint",
          [&](const Value& v) {
            r.map(v, "checkpoint",
                  {{"storage", [&](const Value& x) { o.storage = r.bandwidth(x); }},
                   {"node_storage", [&](const Value& x) { o.node_storage = r.bandwidth(x); }},
                   {"snapshot", [&](const Value& x) { o.snapshot = r.bandwidth(x); }},
                   {"asynchronous", [&](const Value& x) { o.asynchronous = text::to_bool(x); }}});
          }},
         {"stragglers", [&](const Value& v) {
            r.map(v, "stragglers",
                  {{"per_hour",
                    [&](const Value& x) { o.stragglers.per_hour = r.number(x, 0, "per_hour"); }},
                   {"slowdown",
                    [&](const Value& x) { o.stragglers.slowdown = r.number(x, 1, "slowdown"); }},
                   {"detection", [&](const Value& x) { o.stragglers.detection = r.time(x); }}});
          }}});
  r.done();
  return o;
}

}  // namespace stepcast::planner
