// The optimizer on the node's CPUs (ZeRO-Offload, 2101.06840; the step of ZeRO-Infinity), piece by
// piece: gradients down, Adam, parameters up; with states on NVMe read(k + 1) | Adam(k) |
// write(k - 1).
#include <algorithm>
#include <cmath>

#include "../offload/host_prices.h"
#include "../offload/state_offload.h"
#include "../stage/feature_list.h"
#include "states.h"

namespace stepcast::lower {

using program::Category;
using program::StreamIndex;

double state_width(const strategy::Plan& plan) {
  const auto& types = plan.precision;
  return moment_bytes(plan.optimizer_step.kind, plan.optimizer_step.momentum, types.moments) +
         (types.master ? width(*types.master) : 0);
}

std::vector<double> step_pieces(const Stage& stage) {
  std::vector<double> out;
  const double chunk = static_cast<double>(stage.plan.offload.chunk.count());
  const double count = stepped_elements(stage);
  if (chunk > 0) {
    const double bytes = count * width(stage.plan.precision.parameters);
    const double pieces = std::max(1.0, std::ceil(bytes / chunk));
    check_pieces(stage.context, pieces, "memory.offload.chunk");
    return std::vector<double>(static_cast<std::size_t>(pieces), count / pieces);
  }
  for (const auto& units : stage.units) {
    for (const Unit& unit : units) {
      const double elements = shard_elements(stage.plan, unit.passes->parameters.trained);
      if (elements > 0) {
        out.push_back(elements);
      }
    }
  }
  return out;
}

namespace {

class HostStep final : public Feature {
 public:
  void end_of_step(Stage& stage, StepEnd part) override;
};

// `touched`: bytes read and written a parameter.
void step_on_host(Stage& stage, double touched) {
  const strategy::Offload& o = stage.plan.offload;
  const double stepped = share_on_host(stage);
  const double gradients = o.gradients.share();
  const double parameters = o.parameters.share();
  if (stepped == 0 && parameters == 0) {
    return;
  }
  const auto& types = stage.plan.precision;
  const bool drives = o.optimizer.to == OffloadTarget::nvme;
  // PyTorch's AdamW on CPU tensors is fused where it is asked to be (torchtitan, torchtune), else
  // runs operator by operator (torch/optim/adamw.py).
  const bool unfused = !stage.plan.optimizer_step.fused;
  const double work = touched * (unfused ? kUnfusedCpuAdam : 1);
  const double wide = width(types.parameters);
  const auto follow = [&](StreamIndex stream, StreamIndex other) {
    stage.builder.wait(stream, stage.builder.mark(other));
  };
  std::vector<Mark> written;
  if (stepped > 0) {
    follow(stage.host_streams.cpu, stage.streams.compute);
    follow(stage.host_streams.cpu, stage.host_streams.to_host);
    const bool torch = stage.plan.optimizer_step.norm_on_host;
    if (torch && gradients > 0) {  // norm, then scaled in place
      carry(stage, stage.host_streams.cpu, Carrier::cpu,
            3 * 4 * gradients * stepped_elements(stage), "gradient norm", Category::optimizer);
    }
  }
  follow(stage.host_streams.to_host, stage.streams.compute);
  if (drives || o.gradients.to == OffloadTarget::nvme) {
    follow(stage.host_streams.nvme_read, stage.streams.compute);
    follow(stage.host_streams.nvme_read, stage.host_streams.nvme_write);
  }
  for (const double elements : step_pieces(stage)) {
    if (stepped > 0) {
      const double mine = elements * stepped;
      if (stepped > gradients) {
        carry(stage, stage.host_streams.to_host, Carrier::to_host,
              elements * (stepped - gradients) * width(types.gradients), "gradients");
        follow(stage.host_streams.cpu, stage.host_streams.to_host);
      }
      if (drives) {
        if (o.prefetch == 0) {
          follow(stage.host_streams.nvme_read, stage.host_streams.nvme_write);
        } else if (written.size() >= kStepBuffers) {
          stage.builder.wait(stage.host_streams.nvme_read, written[written.size() - kStepBuffers]);
        }
        carry(stage, stage.host_streams.nvme_read, Carrier::nvme_read,
              mine * state_width(stage.plan), "optimizer states");
        follow(stage.host_streams.cpu, stage.host_streams.nvme_read);
      }
      if (o.gradients.to == OffloadTarget::nvme) {
        carry(stage, stage.host_streams.nvme_read, Carrier::nvme_read,
              elements * std::min(stepped, gradients) * width(types.gradients), "gradients");
        follow(stage.host_streams.cpu, stage.host_streams.nvme_read);
      }
      carry(stage, stage.host_streams.cpu, Carrier::cpu, mine * work, "CPU Adam",
            Category::optimizer);
      if (drives) {
        follow(stage.host_streams.nvme_write, stage.host_streams.cpu);
        carry(stage, stage.host_streams.nvme_write, Carrier::nvme_write,
              mine * state_width(stage.plan), "optimizer states");
        written.push_back(stage.builder.mark(stage.host_streams.nvme_write));
      }
    }
    // Stepped here and kept there, or the other way round.
    if (stepped > parameters) {
      follow(stage.host_streams.to_device, stage.host_streams.cpu);
      carry(stage, stage.host_streams.to_device, Carrier::to_device,
            elements * (stepped - parameters) * wide, "updated parameters");
    } else {
      carry(stage, stage.host_streams.to_host, Carrier::to_host,
            elements * (parameters - stepped) * wide, "updated parameters");
    }
    if (o.parameters.to == OffloadTarget::nvme) {
      follow(stage.host_streams.nvme_write, stage.host_streams.to_host);
      if (stepped > 0) {
        follow(stage.host_streams.nvme_write, stage.host_streams.cpu);
      }
      carry(stage, stage.host_streams.nvme_write, Carrier::nvme_write, elements * parameters * wide,
            "updated parameters");
    }
  }
  if (stepped > 0) {
    // The host is what computes.
    stage.builder.host_sync(stage.builder.mark(stage.host_streams.cpu));
  }
  follow(stage.streams.compute, stage.host_streams.to_device);
}

void HostStep::end_of_step(Stage& stage, StepEnd part) {
  if (part == StepEnd::update) {
    const StepCost step = step_cost(stage.plan, shares(stage), stage_arrays(stage));
    step_on_host(stage, step.moved / std::max(1.0, stepped_elements(stage)));
  }
}

}  // namespace

std::unique_ptr<Feature> make_host_step() { return std::make_unique<HostStep>(); }

}  // namespace stepcast::lower
