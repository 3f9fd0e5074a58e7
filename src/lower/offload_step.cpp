// The optimizer on the node's CPUs (ZeRO-Offload, 2101.06840; the step of ZeRO-Infinity), piece by
// piece: gradients down, Adam, parameters up; with states on NVMe read(k + 1) | Adam(k) |
// write(k - 1).
#include <algorithm>
#include <cmath>

#include "host_prices.h"
#include "stage_builder.h"

namespace stepcast::lower {

using job::OffloadTarget;
using program::Category;
using program::StreamIndex;

// Bytes of the optimizer's states a parameter.
double StageBuilder::state_width() const {
  const auto& types = job_.memory.dtypes;
  return moment_bytes(job_.memory) + (types.master ? width(*types.master) : 0);
}

// Elements of this rank's shard that move and are stepped together.
std::vector<double> StageBuilder::step_pieces() const {
  std::vector<double> out;
  const double chunk = static_cast<double>(job_.memory.offload.chunk.count());
  const double count = stepped_elements();
  if (chunk > 0) {
    const double bytes = count * width(job_.memory.dtypes.parameters);
    const auto pieces = static_cast<std::size_t>(std::max(1.0, std::ceil(bytes / chunk)));
    return std::vector<double>(pieces, count / static_cast<double>(pieces));
  }
  for (const auto& units : units_) {
    for (const Unit& unit : units) {
      const double elements =
          static_cast<double>(unit.passes->parameters) / plan_.shard_ranks +
          static_cast<double>(unit.passes->expert_parameters) / strategy::expert_shards(plan_);
      if (elements > 0) {
        out.push_back(elements);
      }
    }
  }
  return out;
}

// Gradients that left, for the share that is stepped on the device.
void StageBuilder::bring_gradients_back() {
  const job::Offload& o = job_.memory.offload;
  const double back = share_away(o.gradients) - share_away(o.optimizer);
  if (back <= 0) {
    return;
  }
  b_.wait(to_device_, b_.mark(to_host_));
  copy(to_device_, Carrier::to_device,
       back * stepped_elements() * width(job_.memory.dtypes.gradients), "gradients");
  b_.wait(compute_, b_.mark(to_device_));
}

// `touched`: bytes read and written a parameter.
void StageBuilder::step_on_host(double touched) {
  const job::Offload& o = job_.memory.offload;
  const double stepped = share_away(o.optimizer);
  const double gradients = share_away(o.gradients);
  const double parameters = share_away(o.parameters);
  if (stepped == 0 && parameters == 0) {
    return;
  }
  const auto& types = job_.memory.dtypes;
  const bool drives = o.optimizer.to == OffloadTarget::nvme;
  // PyTorch's AdamW on CPU tensors is fused where it is asked to be (torchtitan, torchtune), else
  // runs operator by operator (torch/optim/adamw.py).
  const bool unfused = !job_.system.fused_optimizer;
  const double work = touched * (unfused ? kUnfusedCpuAdam : 1);
  const double wide = width(types.parameters);
  const auto follow = [&](StreamIndex stream, StreamIndex other) {
    b_.wait(stream, b_.mark(other));
  };
  std::vector<Mark> written;
  if (stepped > 0) {
    follow(cpu_, compute_);
    follow(cpu_, to_host_);
    const bool torch = job_.system.family == job::System::Family::fsdp2;
    if (torch && gradients > 0) {  // norm, then scaled in place
      copy(cpu_, Carrier::cpu, 3 * 4 * gradients * stepped_elements(), "gradient norm",
           Category::optimizer);
    }
  }
  follow(to_host_, compute_);
  if (drives || o.gradients.to == OffloadTarget::nvme) {
    follow(nvme_read_, compute_);
    follow(nvme_read_, nvme_write_);
  }
  for (const double elements : step_pieces()) {
    if (stepped > 0) {
      const double mine = elements * stepped;
      if (stepped > gradients) {
        copy(to_host_, Carrier::to_host, elements * (stepped - gradients) * width(types.gradients),
             "gradients");
        follow(cpu_, to_host_);
      }
      if (drives) {
        if (o.prefetch == 0) {
          follow(nvme_read_, nvme_write_);
        } else if (written.size() >= kStepBuffers) {
          b_.wait(nvme_read_, written[written.size() - kStepBuffers]);
        }
        copy(nvme_read_, Carrier::nvme_read, mine * state_width(), "optimizer states");
        follow(cpu_, nvme_read_);
      }
      if (o.gradients.to == OffloadTarget::nvme) {
        copy(nvme_read_, Carrier::nvme_read,
             elements * std::min(stepped, gradients) * width(types.gradients), "gradients");
        follow(cpu_, nvme_read_);
      }
      copy(cpu_, Carrier::cpu, mine * work, "CPU Adam", Category::optimizer);
      if (drives) {
        follow(nvme_write_, cpu_);
        copy(nvme_write_, Carrier::nvme_write, mine * state_width(), "optimizer states");
        written.push_back(b_.mark(nvme_write_));
      }
    }
    // Stepped here and kept there, or the other way round.
    if (stepped > parameters) {
      follow(to_device_, cpu_);
      copy(to_device_, Carrier::to_device, elements * (stepped - parameters) * wide,
           "updated parameters");
    } else {
      copy(to_host_, Carrier::to_host, elements * (parameters - stepped) * wide,
           "updated parameters");
    }
    if (o.parameters.to == OffloadTarget::nvme) {
      follow(nvme_write_, to_host_);
      if (stepped > 0) {
        follow(nvme_write_, cpu_);
      }
      copy(nvme_write_, Carrier::nvme_write, elements * parameters * wide, "updated parameters");
    }
  }
  if (stepped > 0) {
    b_.host_sync(b_.mark(cpu_));  // the host is what computes
  }
  follow(compute_, to_device_);
}

}  // namespace stepcast::lower
