// Fits collectives to the committed nccl-tests logs:
//   fit_collectives CALIBRATION_DIRECTORY            writes nccl/*.yaml
//   fit_collectives CALIBRATION_DIRECTORY --check    writes nothing; exits with 1 where a file
//                                                    differs from the fit
//   fit_collectives CALIBRATION_DIRECTORY --table    leaves out every log in turn, and every site,
//                                                    and prints the errors of time
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/interval.h"
#include "stepcast/cost/nccl_fit.h"

namespace {

using namespace stepcast;
using namespace stepcast::cost;

// ln(predicted / measured) of points of one collective and size class, by log.
using Errors = std::map<std::pair<int, int>, std::vector<double>>;  // (system, log)

struct Row {
  std::set<std::pair<int, int>> logs;
  int covered[2] = {0, 0};       // points inside the 90 % interval that follows from other logs
  int held[2] = {0, 0};          // the same of other sites, for curves that saw no log of the site
  std::vector<double> blind[2];  // predicted / measured, below and from 1 MiB
  std::vector<double> by_log[2];
  std::vector<double> by_site[2];
};

double share(std::vector<double> sorted, double part) {
  std::sort(sorted.begin(), sorted.end());
  const auto last = sorted.size() - 1;
  return sorted[std::min(last,
                         static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

double error(const std::vector<double>& ratios, double part) {
  std::vector<double> off;
  for (const double r : ratios) {
    off.push_back(std::abs(r - 1));
  }
  return 100 * share(off, part);
}

// Half width of the 90 % interval from the errors of all logs but one, as in nccl_fit.cpp; 0
// where there are too few.
double spread(const Errors& errors, std::pair<int, int> without) {
  std::vector<double> others;
  for (const auto& [log, values] : errors) {
    for (const double v : values) {
      if (log != without) {
        others.push_back(std::abs(v));
      }
    }
  }
  constexpr std::size_t kFew = 8;
  return others.size() < kFew ? 0 : share(others, 0.94);
}

std::string cells(const Row& row, int large) {
  const auto& r = row.by_log[large];
  if (r.empty()) {
    return "    -      -      -      -      -      -      - ";
  }
  const auto points = static_cast<double>(r.size());
  return fmt::format("{:6.1f} {:6.1f} {:+6.1f} {:6.0f} {:6.1f} {:6.0f} {:6.1f}", error(r, 0.5),
                     error(r, 0.9), 100 * (share(r, 0.5) - 1), 100.0 * row.covered[large] / points,
                     error(row.by_site[large], 0.5), 100.0 * row.held[large] / points,
                     error(row.blind[large], 0.5));
}

void print(const std::string& name, const Row& row) {
  fmt::print("{:40} {:4} {:5} {:5} | {} | {}\n", name, row.logs.size(), row.by_log[0].size(),
             row.by_log[1].size(), cells(row, 0), cells(row, 1));
}

int table(const std::filesystem::path& calibration) {
  const auto measured = read_nccl_data(calibration);
  const auto by_log = leave_out(measured, NcclLeave::log);
  const auto by_site = leave_out(measured, NcclLeave::site);
  // Errors of a collective, on one system and on all systems of its scope.
  std::map<std::tuple<int, std::string, int>, Errors> own;
  std::map<std::tuple<int, std::string, int>, Errors> scope;
  const auto parts = [&](const NcclLeftOut& o) {
    const NcclMeasured& m = measured[static_cast<std::size_t>(o.system)];
    const NcclPoint& p = m.points[static_cast<std::size_t>(o.point)];
    const int large = p.size >= Bytes(1048576) ? 1 : 0;
    const int network = m.system.scope == NcclScope::network ? 1 : 0;
    return std::tuple(p.collective, p.log, large, network);
  };
  for (const NcclLeftOut& o : by_log) {
    const auto [collective, log, large, network] = parts(o);
    const double e = std::log(o.predicted / o.measured);
    own[{o.system, collective, large}][{o.system, log}].push_back(e);
    scope[{network, collective, large}][{o.system, log}].push_back(e);
  }
  std::map<std::pair<int, std::string>, Row> rows;  // (system, collective)
  std::map<std::string, Row> operations;
  Row scopes[2];
  Row all;
  double squares[2] = {0, 0};
  for (std::size_t i = 0; i < by_log.size(); ++i) {
    const NcclLeftOut& o = by_log[i];
    const auto [collective, log, large, network] = parts(o);
    const std::pair<int, int> me = {o.system, log};
    double interval = spread(own[{o.system, collective, large}], me);
    if (interval <= 0) {
      interval = spread(scope[{network, collective, large}], me);
    }
    const bool covered = std::abs(std::log(o.predicted / o.measured)) <= interval;
    const bool held = std::abs(std::log(by_site[i].predicted / o.measured)) <=
                      kDeviations90 * by_site[i].residual;
    squares[large] += std::log(o.blind / o.measured) * std::log(o.blind / o.measured);
    const std::string op = (network == 1 ? "network " : "domain ") + collective;
    for (Row* row : {&rows[{o.system, collective}], &operations[op], &scopes[network], &all}) {
      row->logs.emplace(me);
      row->covered[large] += covered ? 1 : 0;
      row->held[large] += held ? 1 : 0;
      row->blind[large].push_back(o.blind / o.measured);
      row->by_log[large].push_back(o.predicted / o.measured);
      row->by_site[large].push_back(by_site[i].predicted / o.measured);
    }
  }
  fmt::print(
      "Errors of time, %, of curves that did not see the log: median, 90 % of points, bias; points "
      "within the 90 %\ninterval that other logs give; median of curves that saw no log of its "
      "site, and points within the 90 %\ninterval that other sites give; "
      "median of NCCL's plain model.\n{:40} {:>4} {:>5} {:>5} | {:49}| {}\n{:40} {:4} {:5} {:5} | "
      "{} | {}\n",
      "", "logs", "<1M", ">=1M", "below 1 MiB", "from 1 MiB", "", "", "", "",
      "median    90%   bias within   site within  plain",
      "median    90%   bias within   site within  plain");
  for (const auto& [key, row] : rows) {
    print(measured[static_cast<std::size_t>(key.first)].system.name + " " + key.second, row);
  }
  fmt::print("\n");
  for (const auto& [op, row] : operations) {
    print(op, row);
  }
  fmt::print("\n");
  print("domains", scopes[0]);
  print("networks", scopes[1]);
  print("all", all);
  // The constants of nccl_fit.cpp and nccl_match.cpp.
  for (const int large : {0, 1}) {
    std::vector<double> repeats;
    for (const auto& [key, errors] : own) {
      const double s = spread(errors, {-1, -1});
      if (std::get<2>(key) == large && errors.size() > 1 && s > 0) {
        repeats.push_back(s / kDeviations90);
      }
    }
    fmt::print(
        "standard deviation {}: {:.2f} of a further log of a system (median), {:.2f} of NCCL's "
        "plain model\n",
        large == 1 ? "from 1 MiB" : "below 1 MiB", share(repeats, 0.5),
        std::sqrt(squares[large] / static_cast<double>(all.blind[large].size())));
  }
  return 0;
}

int fit(const std::filesystem::path& calibration, bool write) {
  int differing = 0;
  std::set<std::string> files;
  for (const NcclText& text : fit_all(read_nccl_data(calibration))) {
    const auto file = calibration / text.file;
    files.insert(file.filename().string());
    if (write) {
      std::ofstream(file) << text.yaml;
      continue;
    }
    std::ifstream committed(file);
    const std::string now((std::istreambuf_iterator<char>(committed)),
                          std::istreambuf_iterator<char>());
    if (now != text.yaml) {
      fmt::print("{} is not what the logs give: run fit_collectives without --check\n", text.file);
      ++differing;
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(calibration / "nccl")) {
    const auto name = entry.path().filename();
    if (name.extension() == ".yaml" && files.count(name.string()) == 0) {
      fmt::print("nccl/{} has no logs in nccl/data\n", name.string());
      ++differing;
    }
  }
  return differing == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string option = argc > 2 ? argv[2] : "";
  if (argc < 2 || (!option.empty() && option != "--check" && option != "--table")) {
    fmt::print(stderr, "usage: fit_collectives CALIBRATION_DIRECTORY [--check | --table]\n");
    return 2;
  }
  try {
    return option == "--table" ? table(argv[1]) : fit(argv[1], option.empty());
  } catch (const InputError& e) {
    for (const auto& fault : e.faults()) {
      fmt::print(stderr, "{}\n", to_string(fault));
    }
    return 2;
  }
}
