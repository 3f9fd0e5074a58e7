// Fits calibration files to points of nccl-tests logs (collective/pool.h), and determines the
// errors of the files on logs that were left out of the fit.
#include "stepcast/cost/nccl_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "nccl_place.h"
#include "stepcast/base/interval.h"

namespace stepcast::cost {
namespace {

constexpr double kLarge = 1048576;  // bytes: sizes from 1 MiB on are large

// Residuals of a further log of a machine about a curve fitted to one log: median over the
// systems and operations with several logs, as `fit_collectives --table` prints it.
constexpr Residuals kRepeat = {0.27, 0.14};

std::string join(const std::set<std::string>& names) {
  std::string s;
  for (const auto& n : names) {
    s += (s.empty() ? "" : ", ") + n;
  }
  return s;
}

// ---- files

bool share_a_name(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const std::string& y) { return normal_name(x) == normal_name(y); });
  });
}

// Curves of a machine, or of its kind or class, for all operations that its class has logs of.
void fill(NcclFile& file, const Pool& pool, const Machine& machine) {
  for (int op = 0; op < kOps; ++op) {
    for (const auto& [size, points] : pool.sizes(machine, op)) {
      file.fits[op].push_back({size, points, fit_of(pool.at(machine, op, size))});
    }
  }
}

NcclFile file_of(const NcclMeasured& m, const Machine& machine, const Pool& pool) {
  const NcclSystem& s = m.system;
  NcclFile f;
  f.system = s.name;
  f.file = "nccl/" + s.name + ".yaml";
  f.scope = scope_of(s);
  f.devices = s.devices;
  f.nodes = s.nodes;
  f.fabrics = s.fabrics;
  f.compute_capability = s.cluster.device.compute_capability;
  f.nvlink = s.cluster.device.nvlink.count() > 0;
  f.pairs = has_pairs(s.cluster);
  f.nic = port_rate(s.cluster);
  f.sockets = s.link == "tcp" ? kSocketRate : 0;
  std::set<std::string> versions;
  for (const auto& log : m.logs) {
    f.logs.emplace_back(log.name, log.source);
    versions.insert(log.nccl.empty() ? "not stated" : log.nccl);
  }
  f.provenance = fmt::format("{} nccl-tests log{}; NCCL {}", m.logs.size(),
                             m.logs.size() == 1 ? "" : "s", join(versions));
  fill(f, pool, machine);
  return f;
}

// A kind of network by its own name and those of all its systems, whether or not their logs are
// among those fitted: a fabric's kind is known without them.
std::vector<std::string> fabrics_of_kind(const std::vector<NcclMeasured>& measured,
                                         const std::vector<Machine>& machines, const Machine& of) {
  std::vector<std::string> all = {of.kind};
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (machines[i].group != of.group || machines[i].kind != of.kind) {
      continue;
    }
    for (const auto& name : measured[i].system.fabrics) {
      if (!share_a_name(all, {name})) {
        all.push_back(name);
      }
    }
  }
  return all;
}

// Files of kinds and classes of machines.
std::map<std::string, std::pair<Machine, NcclFile>> pooled_files(
    const std::vector<NcclMeasured>& measured, const std::vector<Machine>& machines,
    const std::set<int>& present, const Pool& pool) {
  std::map<std::string, std::pair<Machine, NcclFile>> files;
  std::map<std::string, int> logs;
  for (const int i : present) {
    const NcclSystem& s = measured[static_cast<std::size_t>(i)].system;
    const Machine& m = machines[static_cast<std::size_t>(i)];
    if (m.kind == "staged" || (m.group == "nvlink" && !s.link.empty())) {
      continue;  // not a kind that a device's name implies
    }
    for (const Machine& of : {Machine{m.group, m.kind, ""}, Machine{m.group, "", ""}}) {
      if (m.group == "pcie" && of.kind.empty()) {
        continue;  // the class has one kind only
      }
      NcclFile f;
      f.pooled = true;
      f.scope = scope_of(s);
      f.nvlink = m.group != "pcie" && s.cluster.device.nvlink.count() > 0;
      f.system = of.group + (of.kind.empty() || of.kind == of.group ? "" : "-" + of.kind);
      f.file = "nccl/" + f.system + ".yaml";
      if (!of.kind.empty() && f.scope == Scope::domain && f.nvlink) {
        f.compute_capability = std::floor(s.cluster.device.compute_capability);
        f.pairs = has_pairs(s.cluster);
      }
      const auto [slot, fresh] = files.try_emplace(f.system, of, f);
      NcclFile& file = slot->second.second;
      if (fresh) {
        fill(file, pool, of);
      }
      if (fresh && !of.kind.empty() && f.scope == Scope::network) {
        file.fabrics = fabrics_of_kind(measured, machines, m);
        file.sockets = m.kind == "tcp" ? kSocketRate : 0;
      }
      logs[file.system] += static_cast<int>(measured[static_cast<std::size_t>(i)].logs.size());
      file.provenance =
          fmt::format("{} nccl-tests logs of all systems of this kind", logs[file.system]);
    }
  }
  return files;
}

std::vector<NcclFile> all_files(const std::vector<NcclMeasured>& measured,
                                const std::vector<Machine>& machines,
                                const std::vector<const Sample*>& samples, const Pool& pool) {
  std::set<int> present;
  for (const Sample* s : samples) {
    present.insert(s->machine);
  }
  std::vector<NcclFile> files;
  for (const int i : present) {
    const auto at = static_cast<std::size_t>(i);
    files.push_back(file_of(measured[at], machines[at], pool));
  }
  for (auto& [name, entry] : pooled_files(measured, machines, present, pool)) {
    files.push_back(std::move(entry.second));
  }
  return files;
}

// ---- predictions of points that were left out

struct Guess {
  double seconds = 0;
  std::string file;
};

// What is known of a machine whose site was left out: its own names, or not even its kind.
enum class Known { names, nothing };

Guess guess(const std::vector<NcclFile>& files, const NcclSystem& system, const Sample& s,
            Known known) {
  // A system that names no device, node or fabric is found by its own name.
  std::vector<std::string> only;
  if (system.devices.empty() && system.nodes.empty() && system.fabrics.empty()) {
    only.push_back(system.name + ".yaml");
  }
  job::Cluster cluster = system.cluster;
  if (known == Known::nothing) {
    cluster.name = cluster.node.name = cluster.fabric.name = "";
  } else if (cluster.fabric.name.empty()) {
    cluster.fabric.name = system.link;  // whoever has the machine knows its kind of network
  }
  const NcclFile* file = match_file(files, scope_of(system), cluster, only);
  const auto* fits = find_fits(file, s.op);
  return {predict(s.point.offer, fit_for(fits, s.size), s.point.bytes).total(),
          fits == nullptr ? "datasheet" : file->file};
}

// Predicts every sample for which `wanted` holds, by files fitted without the samples of its fold.
std::vector<Guess> guesses(const std::vector<NcclMeasured>& measured, const Everything& all,
                           const std::vector<std::string>& fold_of_log,
                           const std::function<bool(const Sample&)>& wanted,
                           Known known = Known::names) {
  const auto fold = [&](const Sample& s) {
    return std::pair(all.machines[static_cast<std::size_t>(s.machine)].group,
                     fold_of_log[static_cast<std::size_t>(s.log)]);
  };
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> folds;
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    if (wanted(all.samples[i])) {
      folds[fold(all.samples[i])].push_back(i);
    }
  }
  std::vector<Guess> result(all.samples.size());
  for (const auto& [key, out] : folds) {
    std::vector<const Sample*> rest;
    for (const Sample& s : all.samples) {
      const auto other = fold(s);
      if (other.first == key.first && other.second != key.second) {
        rest.push_back(&s);
      }
    }
    const Pool pool(all.machines, rest);
    const auto files = all_files(measured, all.machines, rest, pool);
    for (const std::size_t i : out) {
      const Sample& s = all.samples[i];
      result[i] = guess(files, measured[static_cast<std::size_t>(s.machine)].system, s, known);
    }
  }
  return result;
}

// ---- residuals

// Collects errors, and gives the standard deviation of which 1.645 cover 90 % of the points of a
// further log. At least eight errors are needed.
struct Spread {
  std::vector<double> errors[2];  // |ln(predicted / measured)|, below and from 1 MiB

  void add(const Sample& s, const Guess& g) {
    errors[s.point.bytes < kLarge ? 0 : 1].push_back(
        std::abs(std::log(g.seconds / s.point.seconds)));
  }
  Residuals sum_up(const Residuals& otherwise) const {
    return {of(0, otherwise.small), of(1, otherwise.large)};
  }

 private:
  double of(int which, double otherwise) const {
    constexpr std::size_t kFew = 8;
    // The errors come from few logs: the interval that covers this share of them covers 90 % of a
    // log that is not among them (`fit_collectives --table`: within).
    constexpr double kHeldOfOthers = 0.94;
    constexpr double kMinDeviation = 0.02;
    std::vector<double> e = errors[which];
    if (e.size() < kFew) {
      return otherwise;
    }
    std::sort(e.begin(), e.end());
    const auto last = static_cast<std::size_t>(kHeldOfOthers * static_cast<double>(e.size()));
    return std::max(kMinDeviation, e[std::min(last, e.size() - 1)] / kDeviations90);
  }
};

// Errors of sites that were left out, by kind of machine, operation and site. The deviation to
// expect of a further site is that of the nearest level that has enough sites: the operation on its
// kind, the kind, the operation on the class, the class. All sites weigh alike there, however many
// logs they have.
class SiteSpread {
 public:
  void add(const Machine& machine, const Sample& s, const Guess& g) {
    const int which = s.point.bytes < kLarge ? 0 : 1;
    const double e = std::abs(std::log(g.seconds / s.point.seconds));
    for (const std::string& kind : {machine.kind, std::string()}) {
      for (const int op : {s.op, -1}) {
        errors_[{machine.group, kind, op, which}][s.site].push_back(e);
      }
    }
  }
  // Of a site that is not among them: `without` is left out, -1: none.
  double deviation(const Machine& machine, int op, int which, int without) const {
    for (const std::string& kind : {machine.kind, std::string()}) {
      for (const int o : {op, -1}) {
        const auto found = errors_.find({machine.group, kind, o, which});
        if (found == errors_.end()) {
          continue;
        }
        const double d = of(found->second, without);
        if (d > 0) {
          return d;
        }
      }
    }
    return which == 0 ? 2 * kRepeat.small : 2 * kRepeat.large;
  }

 private:
  static double of(const std::map<int, std::vector<double>>& sites, int without) {
    // Few sites tell how far apart sites are, not how far the next one is: the share that is held
    // was found by leaving each site out (`fit_collectives --table`: within).
    constexpr std::size_t kFewSites = 3;
    constexpr double kHeldOfOtherSites = 0.96;
    std::vector<std::pair<double, double>> weighted;
    std::size_t count = 0;
    for (const auto& [site, errors] : sites) {
      if (site != without) {
        ++count;
        for (const double e : errors) {
          weighted.emplace_back(e, 1 / static_cast<double>(errors.size()));
        }
      }
    }
    if (count < kFewSites) {
      return 0;
    }
    std::sort(weighted.begin(), weighted.end());
    double sum = 0;
    for (const auto& [e, weight] : weighted) {
      sum += weight;
      if (sum >= kHeldOfOtherSites * static_cast<double>(count)) {
        return e / kDeviations90;
      }
    }
    return weighted.back().first / kDeviations90;
  }

  std::map<std::tuple<std::string, std::string, int, int>, std::map<int, std::vector<double>>>
      errors_;
};

// Sets the residuals of every operation of a system: the errors of its logs, each predicted without
// that log.
void set_residuals(NcclFile& file, const Everything& all, int machine,
                   const std::vector<Guess>& by_log) {
  std::map<int, Spread> spreads;
  std::map<int, std::set<int>> logs;
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    const Sample& s = all.samples[i];
    if (s.machine == machine) {
      spreads[s.op].add(s, by_log[i]);
      logs[s.op].insert(s.log);
    }
  }
  Spread together;
  for (const auto& [op, spread] : spreads) {
    for (int which = 0; which < 2; ++which) {
      auto& e = together.errors[which];
      e.insert(e.end(), spread.errors[which].begin(), spread.errors[which].end());
    }
  }
  const Residuals usual = together.sum_up(kRepeat);
  for (int op = 0; op < kOps; ++op) {
    if (file.fits[op].empty()) {
      continue;
    }
    // With a single log, a repeat of it is expected to be nearer than the curve that was fitted
    // without it.
    file.residuals[op] = logs[op].empty()       ? usual
                         : logs[op].size() == 1 ? kRepeat
                                                : spreads[op].sum_up(usual);
  }
}

NcclDeviations deviations_of(const std::vector<const Sample*>& samples,
                             const std::vector<double>& predicted) {
  std::vector<const Point*> points;
  for (const Sample* s : samples) {
    points.push_back(&s->point);
  }
  return deviations(points, predicted);
}

}  // namespace

NcclFitted fit_nccl(const NcclSystem& system, const std::vector<NcclLog>& logs,
                    const std::vector<NcclPoint>& points,
                    const std::filesystem::path& calibration_dir) {
  // The system is fitted together with the committed systems of the same class.
  std::vector<NcclMeasured> measured;
  NcclMeasured own = {system, logs, points};
  const std::string group = machine_of(system).group;
  if (std::filesystem::exists(calibration_dir / "nccl" / "data" / "systems.yaml")) {
    for (auto& m : read_nccl_data(calibration_dir)) {
      if (machine_of(m.system).group != group) {
        continue;
      }
      if (own.system.link.empty() && share_a_name(m.system.fabrics, system.fabrics)) {
        own.system.link = m.system.link;
      }
      if (m.system.name != system.name) {
        measured.push_back(std::move(m));
      }
    }
  }
  measured.push_back(std::move(own));
  const int mine = static_cast<int>(measured.size()) - 1;
  const Everything all = place_all(measured);
  std::vector<const Sample*> samples;
  for (const Sample& s : all.samples) {
    samples.push_back(&s);
  }
  const Pool pool(all.machines, samples);
  NcclFile file = file_of(measured.back(), all.machines.back(), pool);
  const auto by_log =
      guesses(measured, all, all.logs, [&](const Sample& s) { return s.machine == mine; });
  set_residuals(file, all, mine, by_log);

  NcclFitted result;
  result.yaml = to_yaml(file);
  result.predicted.resize(points.size());
  struct Members {
    std::vector<const Sample*> samples;
    std::vector<double> blind;
    std::vector<double> fitted;
    std::vector<double> left_out;
  };
  std::map<std::pair<int, int>, Members> series;  // (operation, size)
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    const Sample& s = all.samples[i];
    if (s.machine != mine) {
      continue;
    }
    Members& m = series[{s.op, s.size}];
    const double fitted =
        predict(s.point.offer, fit_for(find_fits(&file, s.op), s.size), s.point.bytes).total();
    m.samples.push_back(&s);
    m.blind.push_back(predict(s.point.offer, Fit{}, s.point.bytes).total());
    m.fitted.push_back(fitted);
    m.left_out.push_back(by_log[i].seconds);
    result.predicted[static_cast<std::size_t>(all.from[i].second)] = seconds(fitted);
  }
  for (const auto& [key, m] : series) {
    result.series.push_back({op_name(key.first), key.second, static_cast<int>(m.samples.size()),
                             deviations_of(m.samples, m.blind), deviations_of(m.samples, m.fitted),
                             deviations_of(m.samples, m.left_out)});
  }
  return result;
}

std::vector<NcclText> fit_all(const std::vector<NcclMeasured>& measured, NcclResiduals residuals) {
  const Everything all = place_all(measured);
  std::vector<const Sample*> samples;
  std::set<int> present;
  for (const Sample& s : all.samples) {
    samples.push_back(&s);
    present.insert(s.machine);
  }
  const Pool pool(all.machines, samples);
  const auto everyone = [&](const Sample&) { return residuals == NcclResiduals::left_out; };
  const auto by_log = guesses(measured, all, all.logs, everyone);
  const auto by_site = guesses(measured, all, all.sites, everyone);
  const auto by_class = guesses(measured, all, all.sites, everyone, Known::nothing);
  std::vector<NcclText> texts;
  for (const int i : present) {
    const auto at = static_cast<std::size_t>(i);
    NcclFile file = file_of(measured[at], all.machines[at], pool);
    set_residuals(file, all, i, by_log);
    texts.push_back({file.file, to_yaml(file)});
  }
  SiteSpread named;
  SiteSpread unnamed;
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    const Machine& m = all.machines[static_cast<std::size_t>(all.samples[i].machine)];
    named.add(m, all.samples[i], by_site[i]);
    unnamed.add(m, all.samples[i], by_class[i]);
  }
  for (auto& [name, entry] : pooled_files(measured, all.machines, present, pool)) {
    auto& [of, file] = entry;
    const SiteSpread& spread = of.kind.empty() ? unnamed : named;
    for (int op = 0; op < kOps; ++op) {
      if (!file.fits[op].empty()) {
        file.residuals[op] = {spread.deviation(of, op, 0, -1), spread.deviation(of, op, 1, -1)};
      }
    }
    texts.push_back({file.file, to_yaml(file)});
  }
  return texts;
}

std::vector<NcclLeftOut> leave_out(const std::vector<NcclMeasured>& measured, NcclLeave leave,
                                   int every) {
  const Everything all = place_all(measured);
  const bool by_log = leave == NcclLeave::log;
  const auto wanted = [&](const Sample& s) { return (by_log ? s.log : s.site) % every == 0; };
  const auto found = guesses(measured, all, by_log ? all.logs : all.sites, wanted);
  SiteSpread spread;
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    if (!by_log && wanted(all.samples[i])) {
      spread.add(all.machines[static_cast<std::size_t>(all.samples[i].machine)], all.samples[i],
                 found[i]);
    }
  }
  std::vector<NcclLeftOut> result;
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    if (!wanted(all.samples[i])) {
      continue;
    }
    const Point& p = all.samples[i].point;
    result.push_back(
        {all.from[i].first, all.from[i].second, predict(p.offer, Fit{}, p.bytes).total(),
         found[i].seconds, p.seconds, found[i].file,
         by_log
             ? 0
             : spread.deviation(all.machines[static_cast<std::size_t>(all.samples[i].machine)],
                                all.samples[i].op, p.bytes < kLarge ? 0 : 1, all.samples[i].site)});
  }
  return result;
}

NcclExpected expect_nccl(const NcclSystem& system, const NcclLog& log, const NcclPoint& point,
                         const std::filesystem::path& calibration_dir) {
  const auto files = read_nccl_heads(calibration_dir);
  const NcclFile* file = match_file(*files, scope_of(system), system.cluster, {});
  NcclSystem known = system;
  if (file != nullptr && file->sockets > 0) {
    known.link = "tcp";
  }
  const Sample s = Places(known).sample(log, point);
  const auto* fits = find_fits(file, s.op);
  const Residuals r = residuals(file, fits);
  NcclExpected e;
  e.time = seconds(predict(s.point.offer, fit_for(fits, s.size), s.point.bytes).total());
  e.residual = s.point.bytes < kLarge ? r.small : r.large;
  e.file = fits == nullptr ? "datasheet" : file->file;
  return e;
}

}  // namespace stepcast::cost
