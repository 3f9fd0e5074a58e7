// Recomputation that is optimal for a budget of bytes: each chunk's layers are a chain, whose best
// order of forward passes (strategy/rotor.h) is lowered as it is. The budget holds allocated bytes;
// what the units do not own is measured on a first lowering, in which every layer runs again.
#include <algorithm>
#include <optional>

#include "recomputation.h"
#include "stage_driver.h"

namespace stepcast::lower {

using strategy::Chain;
using strategy::ChainStage;

namespace {

constexpr int kAttempts = 6;

Time kernel_time(const std::vector<Item>& items) {
  Time sum{0};
  for (const Item& item : items) {
    sum += item.kind == Item::Kind::kernel ? item.duration : Time{0};
  }
  return sum;
}

struct Peaks {
  std::int64_t all = 0;
  std::int64_t others = 0;  // what units do not own, while they own anything
};

struct Built {
  program::Program program;
  std::vector<program::BufferIndex> of_units;  // buffers
};

// In host order, as buffers are allocated and released.
Peaks peaks_of(const Built& built) {
  const program::Program& p = built.program;
  std::vector<bool> owned(p.buffers.size(), false);
  for (const program::BufferIndex id : built.of_units) {
    owned[id] = true;
  }
  std::vector<bool> seen(p.buffers.size(), false);
  std::int64_t units = 0;
  std::int64_t others = 0;
  for (const program::HostOp& op : p.host) {
    const bool releases = op.kind == program::HostKind::release;
    if ((releases || op.kind == program::HostKind::allocate) && !seen[op.buffer]) {
      seen[op.buffer] = true;
      others += releases ? p.buffers[op.buffer].bytes.count() : 0;  // from the step before
    }
  }
  for (const program::Buffer& b : p.buffers) {
    others += b.persistent ? b.bytes.count() : 0;
  }
  Peaks out{others, others};
  for (const program::HostOp& op : p.host) {
    if (op.kind != program::HostKind::release && op.kind != program::HostKind::allocate) {
      continue;
    }
    const program::Buffer& b = p.buffers[op.buffer];
    const std::int64_t more =
        op.kind == program::HostKind::allocate ? b.bytes.count() : -b.bytes.count();
    (owned[op.buffer] ? units : others) += more;
    out.all = std::max(out.all, units + others);
    out.others = units > 0 ? std::max(out.others, others) : out.others;
  }
  return out;
}

struct ChunkChain {
  strategy::Chain chain;
  int in_flight = 1;
  std::int64_t whole = 0;  // bytes with everything kept
};

std::vector<ChunkChain> chains(const Stage& stage) {
  std::vector<ChunkChain> out;
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    ChunkChain chunk;
    chunk.in_flight = in_flight(stage, static_cast<int>(c));
    const auto& units = stage.units[c];
    for (std::size_t u = 0; u < units.size(); ++u) {
      const Passes& p = *units[u].passes;
      const bool embedding = units[u].kind == Unit::Kind::embedding;
      const std::int64_t input = embedding ? 0 : p.input;
      chunk.chain.input = u == 0 ? input : chunk.chain.input;
      ChainStage s;
      s.fixed = units[u].kind != Unit::Kind::layer;
      s.forward = kernel_time(p.forward).count();
      s.backward = kernel_time(p.backward).count();
      s.saved = std::max<std::int64_t>(0, p.memory.saved.bytes - input);
      s.output = u + 1 < units.size() ? p.input : 0;
      s.forward_extra = std::max<std::int64_t>(0, p.memory.forward.bytes - s.output);
      s.sweep_extra = std::max<std::int64_t>(0, p.memory.unkept.bytes - s.output);
      s.backward_extra = stage.passes.splits
                             ? p.memory.input_grad.bytes + p.memory.remade_inputs.bytes +
                                   p.memory.output_gradients.bytes
                             : p.memory.backward.bytes;
      chunk.whole += s.saved + s.output;
      chunk.chain.stages.push_back(s);
    }
    out.push_back(std::move(chunk));
  }
  return out;
}

// A chunk's share of the budget, in proportion to its bytes with everything kept.
double share_of(const std::vector<ChunkChain>& chunks, std::size_t c) {
  double all = 0;
  for (const ChunkChain& chunk : chunks) {
    all += static_cast<double>(chunk.whole) * chunk.in_flight;
  }
  return all > 0 ? static_cast<double>(chunks[c].whole) * chunks[c].in_flight / all : 1;
}

// ChainOrders of the stage's chunks that use at most `activations` bytes in all; nothing where that
// is too little.
std::optional<ChainOrders> optimal_orders(const Stage& stage, std::int64_t activations) {
  const auto chunks = chains(stage);
  ChainOrders out;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto memory =
        static_cast<std::int64_t>(static_cast<double>(activations) * share_of(chunks, c));
    auto plan = strategy::optimal_chain(
        chunks[c].chain,
        {memory, chunks[c].in_flight - 1, strategy::solver_unit(chunks[c].chain, chunks[c].whole)});
    if (!plan) {
      return std::nullopt;
    }
    out.push_back(std::move(plan->steps));
  }
  return out;
}

// Of each chunk, its first `count` layers run again.
ChainOrders redo_first(const Stage& stage, int count) {
  ChainOrders out;
  for (const ChunkChain& chunk : chains(stage)) {
    out.push_back(strategy::redo_first(chunk.chain, count));
  }
  return out;
}

// Units of a chunk, at most.
int most_layers(const Stage& stage) {
  std::size_t most = 0;
  for (const auto& units : stage.units) {
    most = std::max(most, units.size());
  }
  return static_cast<int>(most);
}

std::int64_t least_activations(const Stage& stage) {
  const auto chunks = chains(stage);
  double least = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const std::int64_t one =
        strategy::least_memory(chunks[c].chain, chunks[c].in_flight - 1,
                               strategy::solver_unit(chunks[c].chain, chunks[c].whole));
    least = std::max(least, static_cast<double>(one + 1) / share_of(chunks, c));
  }
  return static_cast<std::int64_t>(least) + 1;
}

Built built(const StageContext& context, int number, ChainOrders orders, Recomputed& found) {
  Stage stage = make_stage(context, number, std::move(orders));
  Built out;
  out.program = run_stage(stage);
  out.of_units = stage.passes.buffers;
  found.flops = {stage.again.flops};
  return out;
}

// The program whose peak stays within the budget; where none does, the smallest, and its peak.
program::Program lower_optimal(const StageContext& context, int number, Recomputed& found) {
  const std::int64_t budget = context.plan->recompute.budget.count();
  Stage probe = make_stage(context, number);
  const program::Program redone = run_stage(probe);
  std::int64_t activations = budget - peaks_of({redone, probe.passes.buffers}).others;
  // What the orders change beside activations (gathered parameters of units that run again
  // together) shows in their own peak.
  // Chunks do not all peak at once: what is left over is given out again.
  std::optional<program::Program> best;
  Recomputed of_best;
  for (int n = 0; n < kAttempts && activations > 0; ++n) {
    auto orders = optimal_orders(probe, activations);
    if (!orders) {
      break;
    }
    Built out = built(context, number, std::move(*orders), found);
    const std::int64_t peak = peaks_of(out).all;
    if (peak <= budget && (!best || found.flops.front() < of_best.flops.front())) {
      best = std::move(out.program);
      of_best = found;
    }
    activations -= peak - budget;
  }
  if (best) {
    found = of_best;
    return std::move(*best);
  }
  // Gathered parameters may leave orders of one layer at a time alone: the fewest that fit.
  int low = -1;
  int high = most_layers(probe);
  const auto first = [&](int count) {
    return built(context, number, redo_first(probe, count), found);
  };
  Built out = first(high);
  std::int64_t least = peaks_of(out).all;
  if (least > budget) {
    out = built(context, number, *optimal_orders(probe, least_activations(probe)), found);
    least = std::min(least, peaks_of(out).all);
    found.least_budget = Bytes(least > budget ? least : 0);
    return std::move(out.program);
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (peaks_of(first(middle)).all <= budget ? high : low) = middle;
  }
  return first(high).program;
}

}  // namespace

program::Program lower_stage(const StageContext& context, int number, Recomputed& found) {
  if (context.plan->recompute.kind == RecomputeKind::optimal) {
    return lower_optimal(context, number, found);
  }
  Stage stage = make_stage(context, number);
  program::Program out = run_stage(stage);
  found.flops = {stage.again.flops};
  return out;
}

}  // namespace stepcast::lower
