// Steps 1 and 2: analyse the model's operators and the hardware.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ahp.h"
#include "stepcast/model/operators.h"

namespace stepcast::automatic {
namespace {

using result::AnalysedOperator;

// Seconds of a forward operator on a device that reaches the rates of its data sheet.
double roofline(const model::Operator& op, const job::Device& device, job::DType type) {
  const double peak = job::peak_of(device, type).count();
  const double bandwidth = device.memory_bandwidth.count();
  return std::max(peak > 0 ? op.forward.count() / peak : 0.0,
                  bandwidth > 0 ? static_cast<double>(op.forward_moved.count()) / bandwidth : 0.0);
}

// Marks the operators on the longest path.
std::vector<bool> critical(const model::OperatorGraph& graph, const std::vector<double>& time) {
  const std::size_t n = graph.operators.size();
  std::vector<double> end(time);
  std::vector<int> before(n, -1);
  // Operators are in topological order, so processing the edges by consumer settles every path.
  auto edges = graph.edges;
  std::sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  for (const auto& [from, to] : edges) {
    const auto f = static_cast<std::size_t>(from);
    const auto t = static_cast<std::size_t>(to);
    if (end[f] + time[t] > end[t]) {
      end[t] = end[f] + time[t];
      before[t] = from;
    }
  }
  std::vector<bool> out(n, false);
  auto at = static_cast<int>(std::max_element(end.begin(), end.end()) - end.begin());
  for (; n > 0 && at >= 0; at = before[static_cast<std::size_t>(at)]) {
    out[static_cast<std::size_t>(at)] = true;
  }
  return out;
}

struct Unit {
  std::string name;
  int times;
  model::OperatorGraph graph;
};

std::vector<Unit> units_of(const job::Job& job) {
  model::Shard shard;
  shard.sequences = job.workload.micro_batch;
  shard.sequence_length = job.workload.sequence_length;
  const model::Style style = model::style_of(job);
  std::vector<Unit> out = {{"embedding", 1, model::build_embedding(job.model, shard, style)}};
  const auto kinds = model::layer_kinds(job.model);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    int times = 0;
    for (int l = 0; l < model::layer_count(job.model); ++l) {
      times += model::layer_kind(job.model, l) == kinds[k] ? 1 : 0;
    }
    out.push_back({k == 0 ? "layer" : fmt::format("layer {}", k + 1), times,
                   model::build_layer(job.model, kinds[k], shard, style)});
  }
  out.push_back({"head", 1, model::build_head(job.model, shard, style)});
  return out;
}

std::string rate_text(double per_second, const char* unit) {
  return per_second >= 1e12 ? fmt::format("{:.4g} T{}/s", per_second / 1e12, unit)
                            : fmt::format("{:.4g} G{}/s", per_second / 1e9, unit);
}

std::string device_text(const job::Device& d, job::DType type) {
  const Bytes memory = d.usable_memory.count() > 0 ? d.usable_memory : d.memory;
  return fmt::format("{} ({} {}, {} memory at {})", d.name,
                     rate_text(job::peak_of(d, type).count(), "FLOP"), job::to_string(type),
                     gib_text(static_cast<double>(memory.count())),
                     rate_text(d.memory_bandwidth.count(), "B"));
}

}  // namespace

void Ahp::analyse(result::AlgorithmAnswer& out) const {
  result::AlgorithmStep step{"graph", "", {}};
  const job::Device& device = base_.cluster.device;
  double all = 0, products = 0;
  std::size_t operators = 0;
  for (const Unit& u : units_of(base_)) {
    std::vector<double> time;
    for (const model::Operator& op : u.graph.operators) {
      time.push_back(roofline(op, device, base_.workload.precision));
    }
    const std::vector<bool> longest = critical(u.graph, time);
    std::set<std::uint32_t> kept;
    double forward = 0, saved = 0, moved = 0, path = 0, sum = 0, parameters = 0;
    for (std::size_t i = 0; i < u.graph.operators.size(); ++i) {
      const model::Operator& op = u.graph.operators[i];
      AnalysedOperator row;
      row.unit = u.name;
      row.times = u.times;
      row.name = op.name;
      row.forward_flops = op.forward.count();
      row.backward_flops = op.input_grad.count() + op.weight_grad.count();
      row.moved = static_cast<double>(op.forward_moved.count());
      for (const model::Saved& s : op.saved) {
        row.saved += kept.insert(s.storage).second ? static_cast<double>(s.bytes.count()) : 0;
      }
      row.parameters = static_cast<double>(op.parameters + op.frozen);
      row.intensity = row.moved > 0 ? row.forward_flops / row.moved : 0;
      row.critical = longest[i];
      forward += row.forward_flops;
      all += u.times * (row.forward_flops + row.backward_flops);
      products += row.forward_flops > 0 ? 1 : 0;
      moved += row.moved;
      saved += row.saved;
      parameters += row.parameters;
      sum += time[i];
      path += longest[i] ? time[i] : 0;
      ++operators;
      out.operators.push_back(std::move(row));
    }
    step.details.push_back(fmt::format(
        "{} x {}: {} operators, {:.4g} M parameters, {:.4g} TFLOP forward, {:.4g} FLOP a byte, {} "
        "kept; longest path {} of {} by roofline",
        u.times, u.name, u.graph.operators.size(), parameters / 1e6, forward / 1e12,
        moved > 0 ? forward / moved : 0.0, gib_text(saved), seconds_text(path), seconds_text(sum)));
  }
  step.decision = fmt::format("{} operators, {:.0f} of them products; {:.4g} TFLOP a micro-batch",
                              operators, products, all / 1e12);
  out.steps.push_back(std::move(step));
}

result::AlgorithmStep Ahp::hardware() const {
  const job::Cluster& c = base_.cluster;
  const job::DType type = base_.workload.precision;
  result::AlgorithmStep step{"hardware", "", {}};
  step.decision = fmt::format("{} nodes of {} GPUs{}", c.nodes, c.node.gpus,
                              c.overrides.empty() ? "" : ", with different devices");
  step.details.push_back(device_text(c.device, type));
  for (const auto& o : c.overrides) {
    step.details.push_back(fmt::format("nodes {} to {}: {}", o.first, o.first + o.count - 1,
                                       device_text(o.device, type)));
  }
  const job::Node& n = c.node;
  constexpr const char* kIntra[] = {"NVSwitch", "an NVLink mesh", "PCIe"};
  step.details.push_back(fmt::format(
      "in a node {}{}{}; between nodes {} adapters of {}{}", kIntra[static_cast<int>(n.intra)],
      c.device.nvlink.count() > 0
          ? fmt::format(", {} a GPU and direction", rate_text(c.device.nvlink.count(), "B"))
          : "",
      n.nvls ? ", NVLS" : "", n.nics, rate_text(n.nic.count(), "B"),
      c.fabric.oversubscription > 1
          ? fmt::format(", oversubscribed {:.3g} : 1", c.fabric.oversubscription)
          : ""));
  if (n.host_memory.count() > 0) {
    step.details.push_back(fmt::format(
        "a host has {} cores, {} memory at {}{}", n.cpu_cores,
        gib_text(static_cast<double>(n.host_memory.count())),
        rate_text(n.host_memory_bandwidth.count(), "B"),
        n.nvme.count() > 0
            ? fmt::format(", drives of {} at {} read, {} written",
                          gib_text(static_cast<double>(n.nvme.count())),
                          rate_text(n.nvme_read.count(), "B"), rate_text(n.nvme_write.count(), "B"))
            : ""));
  }
  return step;
}

}  // namespace stepcast::automatic
