// configs/operations: what fails how often, and what that costs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "stepcast/base/diagnostics.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {
namespace {

using text::Value;

class Reader {
 public:
  using Fields = std::map<std::string, std::function<void(const Value&)>>;

  void map(const Value& v, const std::string& what, const Fields& fields) {
    if (v.kind != Value::Kind::map) {
      fault(v.origin, fmt::format("{}: expected a map", what));
      return;
    }
    for (const auto& entry : v.entries) {
      const auto at = fields.find(entry.key);
      if (at == fields.end()) {
        std::vector<std::string> names;
        for (const auto& [name, read] : fields) {
          names.push_back(name);
        }
        fault(entry.origin, fmt::format("unknown key '{}' of {}; expected {}", entry.key, what,
                                        fmt::join(names, ", ")));
        continue;
      }
      try {
        at->second(entry.value);
      } catch (const InputError& error) {
        faults_.insert(faults_.end(), error.faults().begin(), error.faults().end());
      } catch (const std::invalid_argument& error) {
        fault(entry.value.origin, fmt::format("{}: {}", entry.key, error.what()));
      }
    }
  }

  double number(const Value& v, double least, const char* what) {
    const double x = text::to_number(v);
    if (!(x >= least)) {
      fault(v.origin, fmt::format("{} is {}; expected at least {}", what, x, least));
    }
    return x;
  }

  Seconds time(const Value& v) {
    const double s = to_seconds(parse_time(text::to_string(v)));
    if (s < 0) {
      fault(v.origin, fmt::format("'{}' is below zero", v.scalar));
    }
    return Seconds(s);
  }

  Bandwidth bandwidth(const Value& v) {
    const Bandwidth b = parse_bandwidth(text::to_string(v));
    if (!(b.count() > 0)) {
      fault(v.origin, fmt::format("'{}'; expected a bandwidth above zero", v.scalar));
    }
    return b;
  }

  Component component(const Value& v) {
    const std::map<std::string, Component> names = {{"gpu", Component::gpu},
                                                    {"nic", Component::nic},
                                                    {"node", Component::node},
                                                    {"job", Component::job}};
    const auto at = names.find(text::to_string(v));
    if (at == names.end()) {
      fault(v.origin,
            fmt::format("'{}' is no component; expected gpu, nic, node or job", v.scalar));
      return Component::job;
    }
    return at->second;
  }

  void fault(const Origin& where, std::string message) {
    faults_.push_back({where, std::move(message)});
  }
  void done() {
    if (!faults_.empty()) {
      throw InputError(std::move(faults_));
    }
  }

 private:
  std::vector<Fault> faults_;
};

}  // namespace

Operations read_operations(const std::filesystem::path& file) {
  const Value all = text::read_yaml(file);
  Reader r;
  Operations o;
  o.name = file.stem().string();
  const auto failure = [&](const Value& v) {
    FailureKind f;
    bool sourced = false;
    r.map(v, "a failure",
          {{"name", [&](const Value& x) { f.name = text::to_string(x); }},
           {"of", [&](const Value& x) { f.of = r.component(x); }},
           {"per_hour", [&](const Value& x) { f.per_hour = r.number(x, 0, "per_hour"); }},
           {"source", [&](const Value& x) { sourced = !text::to_string(x).empty(); }}});
    if (f.name.empty() || !sourced) {
      r.fault(v.origin, "a failure needs a name and a source");
    }
    o.failures.push_back(std::move(f));
  };
  r.map(all, "operations",
        {{"failures",
          [&](const Value& v) {
            if (v.kind != Value::Kind::sequence) {
              r.fault(v.origin, "failures: expected a list");
            }
            std::for_each(v.items.begin(), v.items.end(), failure);
          }},
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
