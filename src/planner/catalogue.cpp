// configs/catalogue: what can be rented or bought, at what price and power.
#include "stepcast/planner/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "stepcast/base/suggestion.h"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/text/map.h"

namespace stepcast::planner {
namespace {

using text::Value;

constexpr const char* kNoSource = "not stated";  // a fault says so, and need not say it twice

// A figure is {value: NUMBER, source: TEXT}; `read` makes the number of the value.
Figure figure(text::Faults& faults, const Value& v, const std::string& what,
              const std::function<double(const Value&)>& read) {
  Figure out;
  if (v.kind != Value::Kind::map) {
    const bool bare = v.kind == Value::Kind::scalar;
    faults.add(v.origin, fmt::format("{}{}; expected {{value: {}, source: TEXT}}: every figure "
                                     "states where it is from",
                                     what, bare ? fmt::format(" is '{}'", v.scalar) : "",
                                     bare ? v.scalar : "NUMBER"));
    out.source = kNoSource;
    return out;
  }
  bool stated = false;
  faults.fields(v, what,
                {{"value",
                  [&](const Value& x) {
                    stated = true;
                    out.value = read(x);
                  }},
                 {"source", [&](const Value& x) { out.source = text::to_string(x); }}});
  if (!stated || out.source.empty()) {
    faults.add(v.origin, fmt::format("{} needs a value and a source", what));
    out.source = kNoSource;
  }
  return out;
}

class CatalogueReader {
 public:
  explicit CatalogueReader(const std::filesystem::path& file)
      : all_(text::read_yaml(file)), clusters_(config::list("clusters")) {
    out_.name = file.stem().string();
  }

  Catalogue read() {
    faults_.fields(all_, "the catalogue",
                   {{"currency", [&](const Value& v) { out_.currency = text::to_string(v); }},
                    {"sites", [&](const Value& v) { sites(v); }},
                    {"devices", [&](const Value& v) { devices(v); }},
                    {"hosts", [&](const Value& v) { hosts(v); }},
                    {"offers", [&](const Value& v) {
                       faults_.list(v, "offers", [&](const Value& x) { offer(x); });
                     }}});
    if (all_.kind == Value::Kind::map && (out_.currency.empty() || out_.offers.empty())) {
      faults_.add(all_.origin, "a catalogue needs a currency and offers");
    }
    for (const Offer& o : out_.offers) {
      check(o);
    }
    check_devices();
    faults_.done();
    return std::move(out_);
  }

 private:
  Figure number(const Value& v, const std::string& what, double least) {
    return figure(faults_, v, what,
                  [&](const Value& x) { return faults_.number(x, least, what.c_str()); });
  }
  Figure watts(const Value& v, const std::string& what) {
    return figure(faults_, v, what,
                  [](const Value& x) { return parse_power(text::to_string(x)).count(); });
  }

  void sites(const Value& v) {
    faults_.named(v, "sites", [&](const Value::Entry& e) {
      Site& s = out_.sites[e.key];
      faults_.fields(
          e.value, "a site",
          {{"pue", [&](const Value& x) { s.pue = number(x, "pue", 1); }},
           {"carbon", [&](const Value& x) { s.carbon = number(x, "carbon", 0); }},
           {"electricity", [&](const Value& x) { s.electricity = number(x, "electricity", 0); }},
           {"utilisation", [&](const Value& x) { s.utilisation = number(x, "utilisation", 0.01); }},
           {"interest", [&](const Value& x) { s.interest = number(x, "interest", 0); }},
           {"colocation", [&](const Value& x) { s.colocation = number(x, "colocation", 0); }},
           {"staff", [&](const Value& x) { s.staff = number(x, "staff", 0); }}});
      if (s.utilisation && s.utilisation->value > 1) {
        faults_.add(e.origin, fmt::format("the utilisation of {} is above 1", e.key));
      }
      if (s.pue.source.empty()) {
        faults_.add(e.origin, fmt::format("the site {} needs a pue", e.key));
      }
    });
  }

  void devices(const Value& v) {
    faults_.named(v, "devices", [&](const Value::Entry& e) {
      const std::string name = device_named(e);
      places_[name] = e.origin;
      DevicePower& d = out_.devices[name];
      faults_.fields(
          e.value, "a device",
          {{"idle", [&](const Value& x) { d.idle = watts(x, "idle"); }},
           {"communicating", [&](const Value& x) { d.communicating = watts(x, "communicating"); }},
           {"load", [&](const Value& x) { d.load = watts(x, "load"); }}});
      if (!(d.idle.value <= d.communicating.value && d.communicating.value <= d.load.value)) {
        faults_.add(e.origin,
                    fmt::format("power of {}: expected idle <= communicating <= load", e.key));
      }
    });
  }

  // The name of the device that an entry is about: the key, or that of the file to which it leads.
  static std::string device_named(const Value::Entry& e) {
    const std::string named =
        config::as_named({Value::Kind::scalar, e.origin, e.key, true, {}, {}});
    std::error_code error;
    return std::filesystem::is_regular_file(named, error) ? config::device(named).name : e.key;
  }

  // An entry of devices is about one of configs/devices, of a file, or of a cluster on offer.
  void check_devices() {
    if (unread_) {
      return;  // it may be the device of a cluster that is at fault
    }
    std::vector<std::string> known = config::list("devices");
    known.insert(known.end(), offered_.begin(), offered_.end());
    for (const auto& [name, place] : places_) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        unknown(place, "device", name, known);
      }
    }
  }

  void hosts(const Value& v) {
    faults_.named(v, "hosts", [&](const Value::Entry& e) {
      HostPower& h = out_.hosts[e.key];
      faults_.fields(e.value, "a host",
                     {{"idle", [&](const Value& x) { h.idle = watts(x, "idle"); }},
                      {"load", [&](const Value& x) { h.load = watts(x, "load"); }},
                      {"peak", [&](const Value& x) { h.peak = watts(x, "peak"); }},
                      {"network", [&](const Value& x) { h.network = watts(x, "network"); }}});
      if (!(h.idle.value <= h.load.value && h.load.value <= h.peak.value)) {
        faults_.add(e.origin, fmt::format("power of {}: expected idle <= load <= peak", e.key));
      }
    });
  }

  void offer(const Value& v) {
    Offer o;
    o.origin = v.origin;
    faults_.fields(
        v, "an offer",
        {{"name", [&](const Value& x) { o.name = text::to_string(x); }},
         {"cluster", [&](const Value& x) { o.cluster = config::as_named(x); }},
         {"site", [&](const Value& x) { o.site = text::to_string(x); }},
         {"host", [&](const Value& x) { o.host = text::to_string(x); }},
         {"available",
          [&](const Value& x) {
            o.available = text::to_string(x);
            parse_date(o.available);
          }},
         {"nodes", [&](const Value& x) { o.nodes = nodes(x, "nodes"); }},
         {"slice", [&](const Value& x) { o.slice = nodes(x, "slice"); }},
         {"rent", [&](const Value& x) { rent(x, o); }},
         {"purchase", [&](const Value& x) { o.purchase = number(x, "purchase", 0); }},
         {"fabric", [&](const Value& x) { o.fabric = number(x, "fabric", 0); }},
         {"lifetime", [&](const Value& x) { o.lifetime = number(x, "lifetime", 0.1); }}});
    out_.offers.push_back(std::move(o));
  }

  // {value: unknown, source}: a price that nobody stated, which a user fills in.
  void rent(const Value& v, Offer& o) {
    const Value* value = v.find("value");
    if (value == nullptr || value->scalar != "unknown") {
      o.rent = number(v, "rent", 0);
      return;
    }
    figure(faults_, v, "rent", [&](const Value&) { return 0.0; });
    const Value* source = v.find("source");
    o.unpriced = source != nullptr ? source->scalar : "";
  }

  Figure nodes(const Value& v, const char* what) {
    return figure(faults_, v, what, [&, what](const Value& x) {
      const std::int64_t n = text::to_integer(x);
      if (n < 1 || n > 1'000'000) {
        faults_.add(x.origin, fmt::format("{} is {}; expected 1 to 1000000", what, n));
      }
      return static_cast<double>(n);
    });
  }

  // What an offer names must be there, and what it costs must follow.
  void check(const Offer& o) {
    if (o.name.empty() || !names_.insert(o.name).second) {
      faults_.add(o.origin, o.name.empty() ? "an offer needs a name"
                                           : fmt::format("the offer {} is listed twice", o.name));
    }
    if (o.nodes.source.empty()) {
      faults_.add(o.origin, fmt::format("the offer {} needs nodes", o.name));
    }
    const int prices = (o.rent ? 1 : 0) + (o.purchase ? 1 : 0) + (o.unpriced.empty() ? 0 : 1);
    if (prices != 1) {
      faults_.add(o.origin, fmt::format("the offer {} needs either a rent or a purchase", o.name));
    }
    if (o.purchase && !o.lifetime) {
      faults_.add(o.origin, fmt::format("the offer {} is bought and needs a lifetime", o.name));
    }
    if (!o.purchase && (o.lifetime || o.fabric)) {
      faults_.add(
          o.origin,
          fmt::format("the offer {} is rented; expected neither lifetime nor fabric", o.name));
    }
    const auto site = out_.sites.find(o.site);
    if (site == out_.sites.end()) {
      unknown(o.origin, "site", o.site, keys(out_.sites));
    } else if (o.purchase && !site->second.electricity) {
      faults_.add(o.origin, fmt::format("the offer {} is bought: its site {} needs electricity",
                                        o.name, o.site));
    }
    if (out_.hosts.find(o.host) == out_.hosts.end()) {
      unknown(o.origin, "host", o.host, keys(out_.hosts));
    }
    check_cluster(o);
  }

  // The cluster of an offer: one of configs/clusters, or a file. Its own faults keep their places.
  void check_cluster(const Offer& o) {
    if (!config::looks_like_path(o.cluster) &&
        std::find(clusters_.begin(), clusters_.end(), o.cluster) == clusters_.end()) {
      unknown(o.origin, "cluster", o.cluster, clusters_);
      unread_ = true;
      return;
    }
    job::Cluster cluster;
    try {
      cluster = input::network(o.cluster, 1, {}, o.name).cluster;
    } catch (const InputError& error) {
      unread_ = true;
      for (const Fault& fault : error.faults()) {
        faults_.add(fault.where.line > 0 ? fault.where : o.origin, fault.message);
      }
      return;
    }
    const std::string& device = cluster.device.name;
    for (const config::Lacking& one : config::lacking(cluster.device)) {
      faults_.add(o.origin, fmt::format("the device of {} states no {}; expected {}", o.cluster,
                                        one.key, one.expected));
    }
    if (o.slice && cluster.fabric.kind != job::Fabric::Kind::torus) {
      faults_.add(o.origin, fmt::format("the offer {} states a slice, but {} is no torus", o.name,
                                        o.cluster));
    }
    offered_.insert(device);
    if (out_.devices.find(device) == out_.devices.end()) {
      faults_.add(o.origin,
                  fmt::format("the offer {}: devices has no entry for {}", o.name, device));
    }
  }

  template <class T>
  static std::vector<std::string> keys(const std::map<std::string, T>& all) {
    std::vector<std::string> out;
    for (const auto& [name, value] : all) {
      out.push_back(name);
    }
    return out;
  }

  void unknown(const Origin& where, const char* what, const std::string& name,
               const std::vector<std::string>& known) {
    faults_.add(where, fmt::format("there is no {} '{}'{}", what, name, suggestion(name, known)));
  }

  Value all_;
  std::vector<std::string> clusters_;
  text::Faults faults_;
  Catalogue out_;
  std::set<std::string> names_;           // of offers
  std::map<std::string, Origin> places_;  // of the entries of devices
  std::set<std::string> offered_;         // devices of the clusters on offer
  bool unread_ = false;                   // a cluster on offer is at fault
};

}  // namespace

std::optional<int> Offer::slices(int count) const {
  const int whole = slice ? static_cast<int>(slice->value) : count;
  if (count <= whole) {
    return 1;
  }
  return count % whole == 0 ? std::optional(count / whole) : std::nullopt;
}

Catalogue read_catalogue(const std::filesystem::path& file) { return CatalogueReader(file).read(); }

long parse_date(const std::string& text) {
  const auto digits = [&](std::size_t at, std::size_t count) {
    int out = 0;
    for (std::size_t i = at; i < at + count; ++i) {
      const char c = i < text.size() ? text[i] : ' ';
      if (c < '0' || c > '9') {
        return -1;
      }
      out = 10 * out + (c - '0');
    }
    return out;
  };
  const bool whole = text.size() == 10 && text[7] == '-';
  if ((whole || text.size() == 7) && text[4] == '-') {
    const int year = digits(0, 4), month = digits(5, 2), day = whole ? digits(8, 2) : 1;
    if (year >= 0 && month >= 0 && day >= 0) {
      const std::chrono::year_month_day date{std::chrono::year(year),
                                             std::chrono::month(static_cast<unsigned>(month)),
                                             std::chrono::day(static_cast<unsigned>(day))};
      if (date.ok()) {
        return std::chrono::sys_days(date).time_since_epoch().count();
      }
    }
  }
  throw std::invalid_argument(
      fmt::format("'{}' is not a date; expected one such as 2025-06-01 or 2025-06", text));
}

}  // namespace stepcast::planner
