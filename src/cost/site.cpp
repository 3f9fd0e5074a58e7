#include "stepcast/cost/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {
namespace {

using text::fault;
using text::need;
using text::Value;

struct Row {
  const char* words;
  double usual;  // without a site file; the launch and layer times of a job then come from its
                 // training system
  SiteRange range;
};

// Ranges: a sustained clock between half of the calibration's (a hard power cap) and 1.1 (the
// calibration itself was throttled); 1 us is less than any measured launch on the host, 50 us that
// of an eager framework under a debugger; vTrain's Megatron-LM of 2022 spends 3.5 ms of host time
// on a layer's three passes, and twice that is more than any published figure; from no slow-down
// beside communication to four times the calibration's; a network from a fifth of its rate (TCP) to
// slightly above the calibration's.
constexpr std::array<Row, kSiteParameters> kRows = {{
    {"sustained clock", 1, {0.5, 1.1}},
    {"host time per kernel", 5e-6, {1e-6, 50e-6}},
    {"host time per layer and pass", 0, {0, 3e-3}},
    {"slow-down beside communication", 1, {0.02, 4}},
    {"network bandwidth", 1, {0.2, 1.1}},
}};

const Row& row(SiteParameter p) { return kRows[static_cast<std::size_t>(p)]; }

void expect_known(const Value& v, const std::string& what, const std::vector<std::string>& keys) {
  text::expect_keys(text::expect_map(v, "expected " + what), {keys, " of " + what});
}

double ranged_number(const Value& map, std::string_view key, double low, double high) {
  const Value& v = need(map, key);
  const double x = text::to_number(v);
  if (!(x >= low && x <= high)) {
    fault(v.origin, fmt::format("{} is {}; expected {} to {}", key, x, low, high));
  }
  return x;
}

SiteParameter parameter_of(const std::string& name, const Origin& where) {
  if (const auto parameter = parse<SiteParameter>(name)) {
    return *parameter;
  }
  fault(where,
        fmt::format(
            "'{}' is not a parameter of a site; expected clock, launch, layer, overlap or fabric",
            name));
}

void read_value(const Value& v, SiteParameter p, Site& site) {
  expect_known(v, "a parameter", {"value", "prior", "deviation", "determined", "reason"});
  SiteValue& out = site[p];
  const SiteRange range = row(p).range;
  out.prior = ranged_number(v, "prior", 0, range.high);
  out.determined = text::to_bool(need(v, "determined"));
  out.value = ranged_number(v, "value", out.determined ? range.low : 0, range.high);
  out.deviation = ranged_number(v, "deviation", 0, p == SiteParameter::layer ? 3e-3 : 3);
  if (const Value* reason = v.find("reason")) {
    out.reason = text::to_string(*reason);
  }
  if (!out.determined && out.value != out.prior) {
    fault(v.origin, "a value that is not determined differs from its prior");
  }
  if (out.determined && out.deviation <= 0) {
    fault(v.origin, "a value that is determined has a deviation above 0");
  }
}

void read_correlations(const Value& list, Site& site) {
  for (const Value& item : text::expect_list(list, "expected a list of correlations").items) {
    expect_known(item, "a correlation", {"of", "value"});
    const Value& of = need(item, "of");
    if (of.kind != Value::Kind::sequence || of.items.size() != 2) {
      fault(of.origin, "expected two parameters");
    }
    const auto a =
        static_cast<std::size_t>(parameter_of(text::to_string(of.items[0]), of.items[0].origin));
    const auto b =
        static_cast<std::size_t>(parameter_of(text::to_string(of.items[1]), of.items[1].origin));
    if (a == b) {
      fault(of.origin, "a parameter's correlation with itself is 1");
    }
    site.correlation[a][b] = site.correlation[b][a] = ranged_number(item, "value", -1, 1);
  }
}

std::string yaml_quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

bool is_site_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    return line.starts_with("kind: site");
  }
  return false;
}

}  // namespace

const char* describe(SiteParameter p) { return row(p).words; }
SiteRange range_of(SiteParameter p) { return row(p).range; }

Site::Site() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    values[i].value = values[i].prior = kRows[i].usual;
    correlation[i][i] = 1;
  }
}

Site read_site(const std::filesystem::path& file) {
  const Value doc = text::read_yaml(file);
  expect_known(doc, "a site calibration",
               {"kind", "name", "devices", "system", "fabric", "provenance", "scatter",
                "parameters", "correlations"});
  const Value& kind = need(doc, "kind");
  if (text::to_string(kind) != "site") {
    fault(kind.origin, "expected the kind 'site'");
  }
  Site site;
  site.file = file.filename().string();
  site.name = text::to_string(need(doc, "name"));
  site.devices = text::expect_texts(need(doc, "devices"), "expected a list of device names");
  site.system = text::to_string(need(doc, "system"));
  site.fabric = text::to_string(need(doc, "fabric"));
  site.provenance = text::to_string(need(doc, "provenance"));
  site.scatter = ranged_number(doc, "scatter", 0, 1);
  for (const auto& entry :
       text::expect_map(need(doc, "parameters"), "expected a map of parameters").entries) {
    read_value(entry.value, parameter_of(entry.key, entry.origin), site);
  }
  if (const Value* correlations = doc.find("correlations")) {
    read_correlations(*correlations, site);
  }
  return site;
}

std::string to_yaml(const Site& site) {
  std::string out = fmt::format(
      "kind: site\n"
      "# Written by simulate calibrate; the law of each parameter: src/cost/site.cpp, "
      "src/forecast/site.cpp.\n"
      "name: {}\ndevices: [{}]\nsystem: {}\nfabric: {}\nprovenance: {}\nscatter: "
      "{:.4g}\nparameters:\n",
      yaml_quoted(site.name), fmt::join(site.devices, ", "), yaml_quoted(site.system),
      yaml_quoted(site.fabric), yaml_quoted(site.provenance), site.scatter);
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const SiteValue& v = site.values[i];
    out += fmt::format("  {}: {{value: {:.6g}, prior: {:.6g}, deviation: {:.4g}, determined: {}",
                       to_string(static_cast<SiteParameter>(i)), v.value,
                       v.determined ? v.prior : v.value, v.deviation, v.determined);
    out += v.reason.empty() ? "}\n" : fmt::format(", reason: {}}}\n", yaml_quoted(v.reason));
  }
  std::string pairs;
  for (std::size_t a = 0; a < kRows.size(); ++a) {
    for (std::size_t b = a + 1; b < kRows.size(); ++b) {
      if (site.values[a].deviation > 0 && site.values[b].deviation > 0 &&
          site.correlation[a][b] != 0) {
        pairs += fmt::format("  - {{of: [{}, {}], value: {:.3f}}}\n",
                             to_string(static_cast<SiteParameter>(a)),
                             to_string(static_cast<SiteParameter>(b)), site.correlation[a][b]);
      }
    }
  }
  return pairs.empty() ? out : out + "correlations:\n" + pairs;
}

std::optional<Site> take_site(std::vector<std::string>& calibration,
                              const std::filesystem::path& directory) {
  std::optional<Site> found;
  std::string first;
  for (auto it = calibration.begin(); it != calibration.end();) {
    std::filesystem::path path(*it);
    std::error_code error;
    if (path.is_relative() && !std::filesystem::exists(path, error)) {
      path = directory / path;
    }
    if (*it == "auto" || !std::filesystem::is_regular_file(path, error) || !is_site_file(path)) {
      ++it;
      continue;
    }
    if (found) {
      fault({path.string(), 1, 1},
            fmt::format("a second site calibration in addition to {}; expected one", first));
    }
    found = read_site(path);
    found->file = *it;
    first = path.string();
    it = calibration.erase(it);
  }
  return found;
}

}  // namespace stepcast::cost
