#include "optimizer_states.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "../data/parameter_formats.h"

namespace stepcast::lower {

using strategy::DataComm;

namespace {

// 8-bit states: a scale in fp32 for each block of so many elements; arrays below so many stay in
// fp32 (bitsandbytes: min_8bit_size; torchao: OptimState8bit).
constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kMin8BitElements = 4096;
// States of arrays from so many elements on are paged (bitsandbytes 0.45.5,
// optim/optimizer.py:327).
constexpr std::int64_t kMinPagedElements = 100000;
constexpr std::int64_t kScale = 4;  // bytes of a factor or scale, fp32

bool matrix(const Array& a) { return a.rows > 0 && a.columns > 0; }

// Muon steps hidden matrices; embeddings, the output projection and vectors are AdamW's.
bool orthogonalised(const strategy::OptimizerStep& step, const Array& a) {
  return step.kind == Optimizer::muon && matrix(a) && !a.table;
}

std::int64_t bytes_of(std::int64_t elements, double width) {
  return static_cast<std::int64_t>(static_cast<double>(elements) * width);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int ranks_of(const Array& a, const Shares& s) { return a.expert ? s.expert : s.dense; }

// One flat partition of all arrays (DeepSpeed: _flatten_dense_tensors), or each array for itself.
bool flat(const strategy::Plan& plan) {
  return plan.state_layout.partition == StatePartition::flat;
}

// Elements of an array that a rank of its shards holds; FSDP2 cuts whole rows and pads them
// (fsdp/_fully_shard/_fsdp_param.py).
std::int64_t held(const strategy::Plan& plan, const Array& a, const Shares& s) {
  const int n = ranks_of(a, s);
  const bool rows = plan.state_layout.partition == StatePartition::by_row && matrix(a) &&
                    a.elements == a.rows * a.columns;
  return rows ? ceil_div(a.rows, n) * a.columns : ceil_div(a.elements, n);
}

// The moments of `elements` of an array; `shaped`: they are rows and columns as the array has them.
void add_moments(const strategy::Plan& plan, const Array& a, std::int64_t elements, bool shaped,
                 std::vector<std::int64_t>& out) {
  const double each = bytes_per_element(plan.precision.moments);
  const auto add = [&](int tensors, std::int64_t bytes) {
    out.insert(out.end(), static_cast<std::size_t>(tensors), bytes);
  };
  switch (plan.optimizer_step.kind) {
    case Optimizer::adamw:
      return add(2, bytes_of(elements, each));
    case Optimizer::adamw_bf16:
      return add(2, 2 * elements);
    case Optimizer::adamw_8bit:
    case Optimizer::adamw_8bit_paged:
      if (elements < kMin8BitElements) {
        return add(2, 4 * elements);
      }
      add(2, elements);
      return add(2, kScale * ceil_div(elements, kBlock));
    case Optimizer::sgd:
      return add(plan.optimizer_step.momentum > 0 ? 1 : 0, bytes_of(elements, each));
    case Optimizer::lion:
      return add(1, bytes_of(elements, each));
    case Optimizer::muon:
      return add(orthogonalised(plan.optimizer_step, a) ? 1 : 2, bytes_of(elements, each));
    case Optimizer::adafactor:
      // Means over rows and over columns (Shazeer and Stern, 1804.04235), which no rank shards; of
      // what is no matrix, or part of a flat partition, the second moment itself.
      if (shaped && matrix(a)) {
        const std::int64_t matrices = a.elements / (a.rows * a.columns);
        add(1, kScale * matrices * a.rows);
        return add(1, kScale * matrices * a.columns);
      }
      return add(1, kScale * elements);
  }
}

std::int64_t sum(const std::vector<Array>& arrays, bool expert) {
  std::int64_t all = 0;
  for (const Array& a : arrays) {
    all += a.expert == expert ? a.elements : 0;
  }
  return all;
}

// Megatron-LM's buffers: an array starts at a multiple of 64 elements, a bucket ends where 128 and
// the number of ranks divide it (distributed/param_and_grad_buffer.py).
std::int64_t padded(const std::vector<Array>& arrays, bool expert, int ranks) {
  constexpr std::int64_t kStart = 64;
  constexpr std::int64_t kEnd = 128;
  std::int64_t all = 0;
  for (const Array& a : arrays) {
    all += a.expert == expert ? ceil_div(a.elements, kStart) * kStart : 0;
  }
  const std::int64_t end = std::lcm(kEnd, static_cast<std::int64_t>(ranks));
  return ceil_div(all, end) * end;
}

// The first rank's range of a bucket, which may end within an array.
void add_range(const std::vector<Array>& bucket, int ranks, std::vector<Array>& out) {
  std::int64_t left = 0;
  for (const Array& a : bucket) {
    left += a.elements;
  }
  left = ceil_div(left, ranks);
  for (const Array& a : bucket) {
    if (left <= 0) {
      return;
    }
    Array part = a;
    part.elements = std::min(left, a.elements);
    if (part.elements < a.elements) {
      part.rows = 0;  // no matrix any more
    }
    left -= part.elements;
    out.push_back(part);
  }
}

// The arrays in the first rank's ranges of a distributed optimizer's buffers. Each model chunk has
// a buffer, last array first (megatron-core 0.16.1, distributed/param_and_grad_buffer.py:711), of
// which every bucket is divided by itself (optimizer/distrib_optimizer.py:174,
// _build_model_gbuf_range).
std::vector<Array> ranges_of(const std::vector<Array>& arrays, const Shares& s) {
  std::vector<Array> out;
  int chunks = 0;
  for (const Array& a : arrays) {
    chunks = std::max(chunks, a.chunk + 1);
  }
  for (const bool expert : {false, true}) {
    const int ranks = expert ? s.expert : s.dense;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::vector<Array> bucket;
      std::int64_t filled = 0;
      for (auto a = arrays.rbegin(); a != arrays.rend(); ++a) {
        if (a->expert != expert || a->chunk != chunk) {
          continue;
        }
        bucket.push_back(*a);
        filled += a->elements;
        if (chunk < s.chunks_in_buckets && filled >= s.bucket) {
          add_range(bucket, ranks, out);
          bucket.clear();
          filled = 0;
        }
      }
      add_range(bucket, ranks, out);
    }
  }
  return out;
}

struct Parts {  // what a rank steps
  std::vector<Array> arrays;
  bool shaped = true;
};

// Arrays as one flat tensor.
Array flattened(const std::vector<Array>& arrays, bool expert) {
  Array out;
  out.elements = sum(arrays, expert);
  out.expert = expert;
  return out;
}

Parts stepped(const strategy::Plan& plan, const Shares& s, const std::vector<Array>& arrays) {
  if (plan.optimizer_step.by_owner) {
    const std::vector<Array> owned = owned_arrays(plan, arrays, s);
    if (!flat(plan)) {
      return {owned, true};
    }
    Parts out{{}, false};
    for (const bool expert : {false, true}) {
      if (const Array one = flattened(owned, expert); one.elements > 0) {
        out.arrays.push_back(one);
      }
    }
    return out;
  }
  // Also of a rank that is alone: ZeRO's optimizers flatten whatever the number of ranks (DeepSpeed
  // 0.19.8, runtime/zero/stage_1_and_2.py:505; InternEvo 0.4.9,
  // solver/optimizer/hybrid_zero_optim.py:205, 216).
  if (flat(plan)) {
    Parts out{{}, false};
    for (const bool expert : {false, true}) {
      // Muon's moments differ from AdamW's: a partition of each (groups by use_muon).
      for (const bool muon : {false, true}) {
        std::int64_t all = 0;
        for (const Array& a : arrays) {
          all +=
              a.expert == expert && orthogonalised(plan.optimizer_step, a) == muon ? a.elements : 0;
        }
        if (all > 0) {
          const std::int64_t part = ceil_div(all, expert ? s.expert : s.dense);
          // As a matrix of one column, which Muon steps.
          out.arrays.push_back(
              {part, expert, muon ? part : 0, muon ? std::int64_t{1} : 0, false, false});
        }
      }
    }
    return out;
  }
  if (plan.state_layout.partition == StatePartition::buffer_range &&
      (s.dense > 1 || s.expert > 1)) {
    return {ranges_of(arrays, s), false};
  }
  Parts out{arrays, true};
  for (Array& a : out.arrays) {
    a.elements = held(plan, a, s);
  }
  return out;
}

}  // namespace

double moment_bytes(Optimizer kind, double momentum, DType moments) {
  const double width = bytes_per_element(moments);
  switch (kind) {
    case Optimizer::adamw:
      return 2 * width;
    case Optimizer::adamw_bf16:
      return 4;
    case Optimizer::adamw_8bit_paged:
      return 0;  // none of it is the allocator's
    case Optimizer::adamw_8bit:
      return 2 + 2 * static_cast<double>(kScale) / kBlock;
    case Optimizer::sgd:
      return momentum > 0 ? width : 0;
    case Optimizer::lion:
    case Optimizer::muon:
      return width;
    case Optimizer::adafactor:
      return 0;
  }
  return 0;
}

namespace {

// Sorted by size and dealt to and fro (Megatron-LM, layer_wise_optimizer.py: shard_params).
std::vector<std::vector<Array>> dealt_to_and_fro(const std::vector<Array>& arrays, bool expert,
                                                 int ranks) {
  std::vector<Array> sorted;
  std::copy_if(arrays.begin(), arrays.end(), std::back_inserter(sorted),
               [&](const Array& a) { return a.expert == expert; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Array& a, const Array& b) { return a.elements < b.elements; });
  std::vector<std::vector<Array>> dealt(static_cast<std::size_t>(std::max(ranks, 1)));
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::size_t turn = i % (2 * dealt.size());
    dealt[turn < dealt.size() ? turn : 2 * dealt.size() - 1 - turn].push_back(sorted[i]);
  }
  return dealt;
}

}  // namespace

std::vector<Array> owned_arrays(const strategy::Plan& plan, const std::vector<Array>& arrays,
                                const Shares& shares) {
  std::vector<Array> out;
  for (const bool expert : {false, true}) {
    const int ranks = expert ? shares.expert : shares.dense;
    const auto dealt = plan.parameter_gather.from_owners ? dealt_by_size(arrays, expert, ranks)
                                                         : dealt_to_and_fro(arrays, expert, ranks);
    const auto most = std::max_element(dealt.begin(), dealt.end(), [&](auto& a, auto& b) {
      return sum(a, expert) < sum(b, expert);
    });
    out.insert(out.end(), most->begin(), most->end());
  }
  return out;
}

std::vector<std::vector<Array>> dealt_by_size(const std::vector<Array>& arrays, bool expert,
                                              int ranks) {
  std::vector<Array> sorted;
  std::copy_if(arrays.begin(), arrays.end(), std::back_inserter(sorted),
               [&](const Array& a) { return a.expert == expert; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Array& a, const Array& b) { return a.elements > b.elements; });
  std::vector<std::vector<Array>> dealt(static_cast<std::size_t>(std::max(ranks, 1)));
  // Elements so far and number of a rank: the first of those with the fewest is next.
  using Load = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (std::size_t rank = 0; rank < dealt.size(); ++rank) {
    loads.push({0, rank});
  }
  for (const Array& a : sorted) {
    const auto [load, rank] = loads.top();
    loads.pop();
    dealt[rank].push_back(a);
    loads.push({load + a.elements, rank});
  }
  return dealt;
}

namespace {

// The shards of `ranks` ranks of `whole` elements that stand in one buffer; 8-bit weights have a
// buffer of their own.
void add_buffers(const strategy::Plan& plan, const std::vector<Array>& arrays, bool expert,
                 std::int64_t whole, int ranks, std::vector<std::int64_t>& out) {
  std::int64_t narrow = 0;
  for (const Array& a : arrays) {
    narrow += stands_in_few_bits(plan) && a.cast && a.expert == expert ? a.elements : 0;
  }
  if (narrow > 0) {
    out.push_back(bytes_of(ceil_div(narrow, ranks), standing_width(plan, true)));
  }
  if (whole > narrow) {
    out.push_back(bytes_of(ceil_div(whole - narrow, ranks), standing_width(plan, false)));
  }
}

}  // namespace

StateTensors state_tensors(const strategy::Plan& plan, const Shares& s,
                           const std::vector<Array>& arrays) {
  const strategy::Precision& types = plan.precision;
  const strategy::StateLayout& layout = plan.state_layout;
  const double gradient = bytes_per_element(types.gradients);
  // FSDP's SHARD_GRAD_OP gathers parameters once a step from shards.
  const bool all = s.comm == DataComm::shard_all ||
                   (s.comm == DataComm::shard_grads && plan.parameter_gather.zero2_by_units);
  const bool stands = layout.gradients_stand && !(all && layout.gradients_in_parameters);
  const bool cut_gradients = all || s.comm == DataComm::shard_grads;
  const bool buffers = layout.partition == StatePartition::buffer_range &&
                       s.comm == DataComm::shard_states && !plan.optimizer_step.by_owner;
  StateTensors out;
  for (const bool expert : {false, true}) {
    const int ranks = expert ? s.expert : s.dense;
    const std::int64_t elements = sum(arrays, expert);
    if (elements == 0) {
      continue;
    }
    const std::int64_t whole = buffers ? padded(arrays, expert, ranks) : elements;
    // Contiguous: Megatron-LM's gradients always, its parameters with a distributed optimizer,
    // DeepSpeed's flat groups.
    if (buffers || flat(plan)) {
      add_buffers(plan, arrays, expert, whole, all ? ranks : 1, out.parameters);
    }
    if (stands) {
      out.gradients.push_back(bytes_of(cut_gradients ? ceil_div(whole, ranks) : whole, gradient));
    }
  }
  if (!buffers && !flat(plan)) {
    for (const Array& a : arrays) {
      out.parameters.push_back(
          bytes_of(all ? held(plan, a, s) : a.elements, standing_width(plan, a.cast)));
    }
  }
  const Parts parts = stepped(plan, s, arrays);
  if (types.master && layout.master_is_one) {
    std::int64_t elements = 0;
    for (const Array& a : parts.arrays) {
      elements += a.elements;
    }
    out.master.push_back(bytes_of(elements, bytes_per_element(*types.master)));
  }
  for (const Array& a : parts.arrays) {
    if (types.master && !layout.master_is_one) {
      out.master.push_back(bytes_of(a.elements, bytes_per_element(*types.master)));
    }
    if (types.master && gradient < 4 && plan.optimizer_step.widens_gradients) {
      out.wide_gradients.push_back(bytes_of(a.elements, 4));
    }
    const bool paged =
        plan.optimizer_step.kind == Optimizer::adamw_8bit_paged && a.elements >= kMinPagedElements;
    if (!paged) {
      add_moments(plan, a, a.elements, parts.shaped, out.moments);
    }
  }
  return out;
}

namespace {

// What a rank steps.
struct Stepped {
  double elements = 0;
  std::int64_t largest = 0;  // elements of an array
  std::int64_t moments = 0;  // bytes
  int tensors = 0;
  double parameters = 0;  // bytes as they stand
};

// `arrays`: those of the stage, of which every rank steps a part.
Stepped sum_up(const strategy::Plan& plan, const Parts& parts, const std::vector<Array>& arrays) {
  Stepped out;
  for (const Array& a : parts.arrays) {
    out.elements += static_cast<double>(a.elements);
    out.largest = std::max(out.largest, a.elements);
    std::vector<std::int64_t> tensors;
    add_moments(plan, a, a.elements, parts.shaped, tensors);
    out.moments += std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
  }
  out.tensors = static_cast<int>(parts.arrays.size());
  double elements = 0, bytes = 0;
  for (const Array& a : arrays) {
    elements += static_cast<double>(a.elements);
    bytes += static_cast<double>(a.elements) * standing_width(plan, a.cast);
  }
  out.parameters = elements > 0 ? out.elements * (bytes / elements) : 0;
  return out;
}

// Bytes of a gradient's element as the optimizer reads it.
double gradient_width(const strategy::Plan& plan) {
  constexpr double kWide = 4;
  return plan.optimizer_step.widens_gradients ? kWide : bytes_per_element(plan.precision.gradients);
}

// Of fp32 weights the half that bf16 parameters lack, which only together with them is read
// (transformer_engine 2.13.0, pytorch/optimizers/fused_adam.py:97).
bool keeps_remainders(const strategy::Plan& plan) {
  const strategy::Precision& types = plan.precision;
  return types.master == DType::bf16 && types.parameters == DType::bf16 &&
         !plan.optimizer_step.widens_gradients;
}

// Each state, the gradient and the stepped weight read once and written once.
StepCost one_pass_step(const strategy::Plan& plan, const Stepped& of) {
  const strategy::Precision& types = plan.precision;
  const double master = (types.master ? bytes_per_element(*types.master) : 0) * of.elements;
  const double read = gradient_width(plan) * of.elements + static_cast<double>(of.moments) +
                      (master > 0 ? master : of.parameters) +
                      (keeps_remainders(plan) ? of.parameters : 0);
  const double written = static_cast<double>(of.moments) + master + of.parameters;
  StepCost out;
  out.moved = read + written;
  // Multi-tensor Adam takes up to 320 chunks of 65,536 elements a launch (apex,
  // multi_tensor_apply.cuh). One tensor at a time, AdamW is eight kernels (decay, two moments in
  // three, root, division, epsilon, update: torch's _single_tensor_adam).
  constexpr double kElementsPerLaunch = 320 * 65536.0;
  constexpr int kKernelsPerTensor = 8;
  if (plan.optimizer_step.fused) {
    out.launches =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(of.elements / kElementsPerLaunch));
  } else {
    out.launches = kKernelsPerTensor * of.tensors;
    out.temporary = 4 * of.largest;  // the root of the second moment, tensor by tensor
  }
  return out;
}

// torch's _multi_tensor_adamw: decay, the first moment's lerp, the second's product and addcmul,
// root, division, epsilon, update. The root is a list of its own; up to torch 2.0 the sum with
// epsilon is one more (torch 2.0.1, optim/adamw.py:566; 2.1.2, :602, adds in place).
void step_by_operations(const strategy::Plan& plan, const std::vector<Array>& arrays,
                        const Stepped& of, StepCost& out) {
  constexpr int kOperations = 8;
  const strategy::Precision& types = plan.precision;
  const double moment = bytes_per_element(types.moments);
  const double weight = bytes_per_element(types.master ? *types.master : types.parameters);
  out.launches *= kOperations;
  out.moved = of.elements * (4 * weight + 14 * moment + 2 * gradient_width(plan));
  const int lists = plan.optimizer_step.foreach_denominator ? 2 : 1;
  out.temporary = lists * static_cast<std::int64_t>(of.elements * moment);
  for (const bool expert : {false, true}) {
    std::vector<std::int64_t> list;
    for (int n = 0; n < lists; ++n) {
      for (const Array& a : arrays) {
        if (a.expert == expert) {
          list.push_back(bytes_of(a.elements, moment));
        }
      }
    }
    if (!list.empty()) {
      out.temporaries.push_back(std::move(list));
    }
  }
}

// Twelve kernels a tensor (torch's _single_tensor_adafactor): squares of the gradient meet rows and
// columns, their product is written, its root times the gradient written and read thrice (norm,
// clip, update).
void step_adafactor(const Stepped& of, StepCost& out) {
  constexpr int kKernels = 12;
  constexpr double kMore = 2 * 4 + 5 * 4;
  out.launches = kKernels * of.tensors;
  out.moved += kMore * of.elements;
  out.temporary = 2 * 4 * of.largest;
}

// An owner orthogonalises the matrices that it steps; otherwise every rank does so with all of
// them, of which the shards arrive first.
void step_muon(const strategy::Plan& plan, const Shares& s, const std::vector<Array>& owned,
               const std::vector<Array>& arrays, StepCost& out) {
  const strategy::OptimizerStep& step = plan.optimizer_step;
  constexpr double kUpdate = 2;  // bytes: updates travel as bf16
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> shapes;
  for (const Array& a : step.by_owner ? owned : arrays) {
    if (!orthogonalised(step, a)) {
      continue;
    }
    const std::int64_t matrices = a.elements / (a.rows * a.columns);
    shapes[std::minmax(a.rows, a.columns)] += matrices;
    if (!step.by_owner && ranks_of(a, s) > 1) {
      out.gathered += kUpdate * static_cast<double>(a.elements);
    }
  }
  // Megatron-LM iterates in fp32 storage, others in bf16: X, its successor and what normalises it,
  // A and B.
  const std::int64_t width = step.orthogonalises_in_fp32 ? 4 : 2;
  for (const auto& [shape, count] : shapes) {
    const auto [m, n] = shape;
    out.orthogonal.push_back({m, n, count});
    out.temporary = std::max(out.temporary, width * (3 * m * n + 2 * m * m));
  }
}

// DeepSpeed's partition: see StepCost.
void copy_partition(const strategy::Plan& plan, const Stepped& of, const Shares& s,
                    const std::vector<Array>& arrays, StepCost& out) {
  constexpr std::int64_t kWide = 8;  // bytes of fp64
  std::int64_t largest = 0;
  for (const Array& a : arrays) {
    largest = std::max(largest, plan.parameter_gather.by_units ? held(plan, a, s) : a.elements);
  }
  if (!plan.optimizer_step.norm_widens) {
    out.norm_temporary = kWide * std::min(largest, static_cast<std::int64_t>(of.elements));
  }
  // A part of a single tensor is flat as it is (torch/csrc/utils/tensor_flatten.h).
  const bool single = !plan.parameter_gather.by_units && !arrays.empty() &&
                      of.elements <= static_cast<double>(arrays.front().elements);
  constexpr double kSubGroup = 1e9;  // elements (runtime/zero/config.py: sub_group_size)
  const double together =
      plan.parameter_gather.by_units ? std::min(of.elements, kSubGroup) : of.elements;
  out.flat_gradients =
      single ? 0
             : static_cast<std::int64_t>(together * bytes_per_element(plan.precision.gradients));
}

// fp32 copies of the gradients that this rank steps, tensor by tensor.
void widen_for_norm(const strategy::Plan& plan, const Shares& s, const std::vector<Array>& arrays,
                    StepCost& out) {
  constexpr std::int64_t kFloat = 4;
  if (plan.optimizer_step.by_owner) {
    for (const Array& a : owned_arrays(plan, arrays, s)) {
      out.norm_copies.push_back(kFloat * a.elements);
    }
    return;
  }
  for (const Array& a : arrays) {
    out.norm_copies.push_back(kFloat * held(plan, a, s));
  }
}

// Stage 3 flattens the gradients of a sub-group of shards and steps those on the device (DeepSpeed
// 0.19.8, runtime/zero/stage3.py:2683, _prepare_fp32_grad_for_sub_group; :2419).
bool flattens_shards(const strategy::Plan& plan) {
  return plan.parameter_gather.by_units && plan.state_layout.partition == StatePartition::flat &&
         plan.precision.master && bytes_per_element(plan.precision.gradients) < 4 &&
         plan.offload.optimizer.share() == 0;
}

// Experts that run one by one are modules of their own, each with its weights in a row
// (megatron-core 0.16.1, transformer/moe/experts.py: SequentialMLP); grouped ones are a list of
// weights for each product, as `arrays` has them.
std::vector<Array> by_expert(const std::vector<Array>& arrays) {
  std::vector<Array> out;
  for (std::size_t begin = 0; begin < arrays.size();) {
    const Array& one = arrays[begin];
    std::size_t end = begin, experts = 0;  // of a layer; with a first product each
    while (end < arrays.size() && arrays[end].expert == one.expert &&
           arrays[end].chunk == one.chunk && arrays[end].op >= one.op) {
      experts += arrays[end].op == one.op ? 1 : 0;
      ++end;
    }
    const bool alike = one.expert && (end - begin) % experts == 0;
    const std::size_t products = alike ? (end - begin) / experts : end - begin;
    for (std::size_t n = begin; n < end; ++n) {
      const std::size_t e = (n - begin) / products, product = (n - begin) % products;
      out.push_back(alike ? arrays[begin + product * experts + e] : arrays[n]);
    }
    begin = end;
  }
  return out;
}

}  // namespace

// Array by array, until the share of all elements is passed: those with weight decay ahead of
// vectors, dense ones and experts each for themselves (megatron-core 0.16.1,
// optimizer/cpu_offloading/hybrid_optimizer.py:251, _get_sub_optimizer_param_groups;
// optimizer/__init__.py:189, _get_param_groups).
double share_on_host(const strategy::Plan& plan, const Shares& s,
                     const std::vector<Array>& arrays) {
  const double stated = plan.offload.optimizer.share();
  if (!plan.offload.whole_arrays || stated <= 0 || stated >= 1) {
    return stated;
  }
  const std::vector<Array> parts =
      stepped(plan, s, plan.expert_dispatch.grouped ? arrays : by_expert(arrays)).arrays;
  double all = 0, away = 0;
  for (const bool expert : {false, true}) {
    const auto most = static_cast<double>(sum(parts, expert));
    double taken = 0;
    for (const bool decays : {true, false}) {
      for (const Array& a : parts) {
        if (a.expert == expert && (a.columns > 0) == decays && taken < stated * most) {
          taken += static_cast<double>(a.elements);
        }
      }
    }
    all += most;
    away += taken;
  }
  return all > 0 ? away / all : stated;
}

StepCost step_cost(const strategy::Plan& plan, const Shares& s, const std::vector<Array>& arrays) {
  const strategy::OptimizerStep& step = plan.optimizer_step;
  const Parts parts = stepped(plan, s, arrays);
  const Stepped of = sum_up(plan, parts, arrays);
  StepCost out = one_pass_step(plan, of);
  if (step.copies_partition || flattens_shards(plan)) {
    copy_partition(plan, of, s, arrays, out);
  }
  if (step.norm_widens) {
    widen_for_norm(plan, s, arrays, out);
  }
  switch (step.kind) {
    case Optimizer::adamw:
    case Optimizer::adamw_bf16:
      if (step.fused && step.foreach) {
        step_by_operations(plan, parts.arrays, of, out);
      } else if (!step.fused) {
        // The root of the second moment and its quotient (torch 2.7 optim/adam.py:525).
        const std::int64_t largest = bytes_of(of.largest, 4);
        out.temporaries.push_back({largest, largest});
      }
      break;
    case Optimizer::sgd:
    case Optimizer::lion:
      break;
    case Optimizer::adamw_8bit:
    case Optimizer::adamw_8bit_paged:  // a kernel a tensor, which dequantises in registers
      out.launches = of.tensors;
      out.temporary = 0;
      break;
    case Optimizer::adafactor:
      step_adafactor(of, out);
      break;
    case Optimizer::muon:
      step_muon(plan, s, parts.arrays, arrays, out);
      break;
  }
  return out;
}

}  // namespace stepcast::lower
