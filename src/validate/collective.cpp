#include "stepcast/validate/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "stepcast/base/interval.h"
#include "stepcast/base/statistics.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/validate/compare.h"

namespace stepcast::validate {
namespace {

using cost::Collective;

// nccl-tests writes all-to-all as one word.
std::optional<Collective> collective_of(const std::string& op) {
  return op == "alltoall"     ? std::optional(Collective::all_to_all)
         : op == "all_to_all" ? std::nullopt
                              : parse<Collective>(op);
}

// Adds summaries by collective and by whether a size is below or above 1 MiB. To do so it copies
// the rows under the names of these classes.
void add_classes(result::Validation& validation, const std::vector<std::int64_t>& bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  std::vector<result::ValidationRow> named;
  std::map<std::string, int> ops;
  for (const auto& row : validation.rows) {
    ++ops[row.id.substr(0, row.id.find(' '))];
  }
  const auto add = [&](const std::string& op) {
    for (const bool large : {false, true}) {
      for (std::size_t i = 0; i < validation.rows.size(); ++i) {
        const auto& row = validation.rows[i];
        if ((bytes[i] >= kMiB) == large && (op == "all" || row.id.rfind(op + " ", 0) == 0)) {
          named.push_back(row);
          named.back().metric = op + (large ? " from 1 MiB" : " below 1 MiB");
        }
      }
    }
  };
  for (const auto& [op, count] : ops) {
    add(op);
  }
  if (ops.size() > 1) {
    add("all");
  }
  for (auto& summary : summarize(named)) {
    validation.summary.push_back(std::move(summary));
  }
}

}  // namespace

struct CollectiveModel::State {
  job::Cluster cluster;
  cluster::Topology topology;
  cost::CurveTable curves;
  cost::Collectives collectives;
  std::map<std::vector<int>, cluster::GroupShape> shapes;

  State(const input::Network& network, cluster::Topology&& built,
        const std::filesystem::path& calibration, const std::vector<std::string>& only)
      : cluster(network.cluster),
        topology(std::move(built)),
        collectives(network.cluster, network.nccl, calibration, only, curves) {}

  std::vector<int> slots(const std::vector<int>& ranks_per_node) const {
    std::vector<int> all;
    for (std::size_t node = 0; node < ranks_per_node.size(); ++node) {
      for (int local = 0; local < ranks_per_node[node]; ++local) {
        all.push_back(static_cast<int>(node) * cluster.node.gpus + local);
      }
    }
    return all;
  }

  const cluster::GroupShape& shape(const std::vector<int>& ranks_per_node) {
    const auto found = shapes.find(ranks_per_node);
    return found != shapes.end()
               ? found->second
               : shapes.emplace(ranks_per_node, topology.shape(slots(ranks_per_node)))
                     .first->second;
  }

  // Every rank sends to the next and receives from the previous one. The time is that of the
  // slowest pair.
  cost::CollectivePrice send_around(std::int64_t bytes,
                                    const std::vector<int>& ranks_per_node) const {
    const std::vector<int> ring = slots(ranks_per_node);
    cost::CollectivePrice slowest;
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const auto price = collectives.point_to_point(
          Bytes(bytes), topology.path(ring[i], ring[(i + 1) % ring.size()]));
      if (price.latency + price.fluid > slowest.latency + slowest.fluid) {
        slowest = price;
      }
    }
    return slowest;
  }

  // Errors of latency and of bandwidth are independent.
  result::Estimate estimate(const cost::CollectivePrice& price) const {
    const double latency = to_seconds(price.latency);
    const double fluid = to_seconds(price.fluid);
    const double spread = std::hypot(latency * curves.curves()[price.latency_curve].residual,
                                     fluid * curves.curves()[price.curve].residual);
    const double time = latency + fluid;
    return {time, std::max(0.0, time - kDeviations90 * spread), time + kDeviations90 * spread};
  }
};

CollectiveModel::CollectiveModel(const input::Network& network,
                                 const std::filesystem::path& data_directory,
                                 const std::vector<std::string>& calibration) {
  auto topology = cluster::Topology::build(network.cluster);
  if (const auto* why = std::get_if<Infeasible>(&topology)) {
    throw InputError(Fault{{why->key, 0, 0}, why->reason});
  }
  state_ = std::make_unique<State>(network, std::get<cluster::Topology>(std::move(topology)),
                                   data_directory / "calibration", calibration);
}
CollectiveModel::~CollectiveModel() = default;

const job::Cluster& CollectiveModel::cluster() const { return state_->cluster; }

std::vector<std::string> CollectiveModel::scaled(const std::vector<int>& ranks_per_node) const {
  std::set<std::string> all;
  for (const cost::Curve& curve : state_->curves.curves()) {
    if (ranks_per_node.size() > 1 && !curve.scaled.empty()) {
      all.insert(curve.scaled);
    }
  }
  return {all.begin(), all.end()};
}

std::optional<std::string> CollectiveModel::misplaced(
    const std::vector<int>& ranks_per_node) const {
  const job::Cluster& c = state_->cluster;
  if (static_cast<int>(ranks_per_node.size()) > c.nodes) {
    return fmt::format("{} nodes ran it; the cluster has {}", ranks_per_node.size(), c.nodes);
  }
  for (const int ranks : ranks_per_node) {
    if (ranks > c.node.gpus) {
      return fmt::format("{} GPUs of a node ran it; a {} has {}", ranks,
                         c.node.name.empty() ? "node" : c.node.name, c.node.gpus);
    }
  }
  return std::nullopt;
}

std::optional<result::CollectivePoint> CollectiveModel::price(
    const std::string& op, std::int64_t bytes, const std::vector<int>& ranks_per_node) {
  const int ranks = std::accumulate(ranks_per_node.begin(), ranks_per_node.end(), 0);
  const auto collective = collective_of(op);
  if (ranks < 2 || (!collective && op != "sendrecv")) {
    return std::nullopt;
  }
  const auto price = collective ? state_->collectives.price(*collective, Bytes(bytes),
                                                            state_->shape(ranks_per_node))
                                : state_->send_around(bytes, ranks_per_node);
  return result::CollectivePoint{bytes, state_->estimate(price), to_string(price.algorithm),
                                 to_string(price.protocol)};
}

std::vector<std::int64_t> test_sizes(const std::string& op, int ranks, std::int64_t min_bytes,
                                     std::int64_t max_bytes, int factor) {
  const auto c = collective_of(op);
  const bool sharded = c == Collective::all_gather || c == Collective::reduce_scatter ||
                       c == Collective::all_to_all || c == Collective::gather ||
                       c == Collective::scatter;
  // nccl-tests rounds each rank's share down to a multiple of 16 bytes (all_gather.cu and similar
  // files) and sends floats.
  constexpr std::int64_t kAlign = 16;
  constexpr std::int64_t kFloat = 4;
  const std::int64_t unit = sharded ? kAlign * std::max(ranks, 1) : kFloat;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = min_bytes; size <= max_bytes; size *= factor) {
    const std::int64_t rounded = size / unit * unit;
    if (rounded > 0 && (sizes.empty() || rounded != sizes.back())) {
      sizes.push_back(rounded);
    }
    if (size > max_bytes / factor) {
      break;
    }
  }
  return sizes;
}

namespace {

struct Measured {
  std::array<std::vector<double>, 2> seconds;  // out of place and in place
  double value() const { return median(seconds[0].empty() ? seconds[1] : seconds[0]); }
};

// The measurements of one collective on one placement.
struct MeasuredTable {
  std::string op;
  std::vector<int> placement;
  std::string type;
  std::vector<std::int64_t> order;  // sizes in the order of the log
  std::map<std::int64_t, Measured> sizes;
};

std::vector<MeasuredTable> measured_tables(const CollectiveModel& model,
                                           const interop::CollectiveLog& log,
                                           const std::vector<int>& ranks_per_node,
                                           const std::string& op) {
  std::vector<MeasuredTable> tables;
  std::map<std::pair<std::string, std::vector<int>>, std::size_t> index;
  std::vector<Fault> faults;
  for (const interop::CollectiveRun& run : log.runs) {
    const auto& placement = run.ranks_per_node.empty() ? ranks_per_node : run.ranks_per_node;
    if (const auto why = model.misplaced(placement)) {
      faults.push_back(
          {{log.file, run.line, 1}, *why + "; expected a larger cluster (--cluster, --nodes)"});
      continue;
    }
    for (const interop::CollectivePoint& p : run.points) {
      const std::string& name = p.collective.empty() ? op : p.collective;
      if (name.empty()) {
        faults.push_back(
            {{log.file, run.line, 1}, "the log does not name its collective; expected --op"});
        break;
      }
      const auto [at, fresh] = index.try_emplace({name, placement}, tables.size());
      if (fresh) {
        tables.push_back({name, placement, p.type, {}, {}});
      }
      MeasuredTable& table = tables[at->second];
      if (table.sizes.count(p.bytes) == 0) {
        table.order.push_back(p.bytes);
      }
      table.sizes[p.bytes].seconds[p.in_place ? 1 : 0].push_back(p.seconds);
    }
  }
  if (!faults.empty()) {
    throw InputError(std::move(faults));
  }
  return tables;
}

}  // namespace

Comparison compare_log(CollectiveModel& model, const interop::CollectiveLog& log,
                       const std::vector<int>& ranks_per_node, const std::string& op) {
  Comparison out;
  std::vector<std::int64_t> bytes;
  for (const MeasuredTable& measured : measured_tables(model, log, ranks_per_node, op)) {
    result::CollectiveTable table;
    table.op = measured.op;
    table.cluster = model.cluster().name;
    table.device = model.cluster().device.name;
    table.ranks_per_node = measured.placement;
    if (const auto element = interop::element_bytes(measured.type)) {
      table.type = measured.type;
      table.element_bytes = *element;
    }
    table.min_bytes = measured.sizes.begin()->first;
    table.max_bytes = measured.sizes.rbegin()->first;
    const int ranks = std::accumulate(measured.placement.begin(), measured.placement.end(), 0);
    for (const std::int64_t size : measured.order) {
      result::ValidationRow row;
      row.id = fmt::format("{} {}", measured.op, size);
      row.source = std::filesystem::path(log.file).stem().string();
      row.file = log.file;
      row.metric = "time";
      row.published = measured.sizes.at(size).value();
      result::CollectivePoint point;
      if (const auto price = model.price(measured.op, size, measured.placement)) {
        point = *price;
        row.predicted = price->time.value;
        row.low = price->time.low;
        row.high = price->time.high;
        if (row.published > 0) {
          row.error = (row.predicted - row.published) / row.published;
        } else {
          row.reason = "no measured value";
        }
      } else {
        point.bytes = size;
        point.priced = false;
        row.status = "skipped";
        row.reason = ranks < 2 ? std::string("one rank alone") : measured.op + " is not modelled";
      }
      point.measured = row.published;
      table.points.push_back(std::move(point));
      out.validation.rows.push_back(std::move(row));
      bytes.push_back(size);
    }
    out.tables.push_back(std::move(table));
  }
  out.validation.summary = summarize(out.validation.rows);
  add_classes(out.validation, bytes);
  return out;
}

result::Validation compare_collectives(CollectiveModel& model, const interop::CollectiveLog& log,
                                       const std::vector<int>& ranks_per_node,
                                       const std::string& op) {
  return compare_log(model, log, ranks_per_node, op).validation;
}

}  // namespace stepcast::validate
