#include "nccl_collective.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "stepcast/interop/nccl_log.h"

namespace stepcast::interop {

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names{
      "all_gather", "all_reduce", "alltoall",       "broadcast", "gather",
      "hypercube",  "reduce",     "reduce_scatter", "scatter",   "sendrecv"};
  return names;
}

std::string collective_name(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (plain.ends_with("perf")) {
    plain.resize(plain.size() - 4);
  }
  for (const std::string& name : collective_names()) {
    std::string other = name;
    std::erase(other, '_');
    if (plain == other) {
      return name;
    }
  }
  return "";
}

std::string named_program(std::string_view line) {
  std::string name;
  for (std::size_t at = line.find("_perf"); at != std::string_view::npos;
       at = line.find("_perf", at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 ||
                         line[begin - 1] == '_')) {
      --begin;
    }
    const std::string found = collective_name(line.substr(begin, at - begin));
    name = found.empty() ? name : found;
  }
  return name;
}

std::string named_in(const std::string& file) {
  std::string flat;
  for (const char c : std::filesystem::path(file).stem().string()) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      flat += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  std::string best;
  std::size_t longest = 0;
  for (const std::string& name : collective_names()) {
    std::string plain = name;
    std::erase(plain, '_');
    if (flat.find(plain) != std::string::npos && plain.size() > longest) {
      best = name;
      longest = plain.size();
    }
  }
  return best;
}

std::set<std::string> possible(const std::vector<Row>& rows, bool redop_column, bool one_rank) {
  std::set<std::string> all(collective_names().begin(), collective_names().end());
  const auto keep = [&](const std::set<std::string>& these) {
    std::set<std::string> both;
    std::set_intersection(all.begin(), all.end(), these.begin(), these.end(),
                          std::inserter(both, both.begin()));
    all = both;
  };
  for (const Row& r : rows) {
    if (r.size == 0) {
      continue;
    }
    const bool reduces = !r.redop.empty() && r.redop != "none";
    const bool rooted = r.root && *r.root >= 0;
    if (reduces) {
      keep({"all_reduce", "reduce", "reduce_scatter"});
    } else {
      keep({"all_gather", "alltoall", "broadcast", "gather", "hypercube", "scatter", "sendrecv"});
    }
    if (r.root) {
      keep(rooted ? std::set<std::string>{"broadcast", "gather", "reduce", "scatter"}
                  : std::set<std::string>{"all_gather", "all_reduce", "alltoall", "hypercube",
                                          "reduce_scatter", "sendrecv"});
    } else if (reduces) {
      keep({"all_reduce", "reduce_scatter"});  // reduce has always printed its root
    } else if (!redop_column) {
      keep({"all_gather"});  // all others had the column, though it may be empty
    } else if (r.redop.empty()) {
      keep({"alltoall", "hypercube", "sendrecv"});
    }
    // Whole buffers count all their elements, sharded ones the share of one rank.
    if (!one_rank) {
      keep(r.size % r.element == 0 && r.count == r.size / r.element
               ? std::set<std::string>{"all_reduce", "broadcast", "reduce", "sendrecv"}
               : std::set<std::string>{"all_gather", "alltoall", "gather", "hypercube",
                                       "reduce_scatter", "scatter"});
    }
    if (r.in_place_unchecked) {
      keep({"alltoall", "sendrecv", "hypercube"});  // a run in place has no meaning for these
    }
  }
  return all;
}

std::string most_likely(const std::set<std::string>& names, const std::vector<Row>& rows) {
  if (names.size() == 1) {
    return *names.begin();
  }
  // With checks, all-to-all prints N/A in place; hypercube is not run in practice.
  const bool checked = std::any_of(rows.begin(), rows.end(),
                                   [](const Row& r) { return r.has_in_place && !r.unchecked; });
  const bool in_place_checked = checked && std::none_of(rows.begin(), rows.end(), [](const Row& r) {
                                  return r.in_place_unchecked;
                                });
  if (in_place_checked && names.count("all_gather") > 0) {
    return "all_gather";
  }
  if (checked && !in_place_checked && names.count("alltoall") > 0) {
    return "alltoall";
  }
  return "";
}

// The time is used and not algbw, which early versions printed with the factor included.
bool plausible(const std::string& collective, int ranks, const std::vector<Row>& rows) {
  const Row* largest = nullptr;
  for (const Row& r : rows) {
    if (r.bus_bandwidth >= 1 && r.microseconds[0] > 0 &&
        (largest == nullptr || r.bus_bandwidth > largest->bus_bandwidth)) {
      largest = &r;
    }
  }
  const double n = ranks;
  const bool all_reduce = collective == "all_reduce";
  if (largest == nullptr || ranks < 1 ||
      (!all_reduce && collective != "all_gather" && collective != "reduce_scatter" &&
       collective != "alltoall")) {
    return true;
  }
  const double factor = (all_reduce ? 2 : 1) * (n - 1) / n;
  const double rate = static_cast<double>(largest->size) / largest->microseconds[0] * 1e-3;
  constexpr double kRounding = 0.01;  // of both columns
  return std::abs(largest->bus_bandwidth / rate - factor) <= 2 * kRounding;
}

}  // namespace stepcast::interop
