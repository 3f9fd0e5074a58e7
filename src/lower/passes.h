// The passes of one unit (a layer, the embedding, the head) on one rank: kernels and tensor
// collectives in issue order, priced once and replayed for every micro-batch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "redone.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/lower/unit_memory.h"
#include "stepcast/model/operators.h"
#include "stepcast/program/program.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

class Labels {
 public:
  std::uint32_t id(const std::string& text);
  const std::vector<std::string>& all() const { return labels_; }

 private:
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

// Roles of communicators, the same index in every program. A role that a job does not need has no
// groups.
enum Role : std::uint32_t {
  kTensor,
  kTensorRow,  // a grid of tensor ranks, along each side (2.5D's depth; 3D: where X, W and Y are
               // cut)
  kTensorColumn,
  kTensorDepth,
  kData,          // dense gradients and parameters: data x context ranks, cut into shards
  kReplicas,      // the same shard of each copy
  kEmbedding,     // first and last stage, tied tables
  kNorm,          // ranks whose gradients make one norm
  kContext,       // context-parallel ranks
  kContextInner,  // hierarchical context parallelism: the all-to-all inside; rings run over equals
                  // of each
  kExpert,        // ranks that hold different experts
  kExpertTensor,  // ranks that share an expert's products
  kTensorExpert,  // both: whom the all-gather dispatcher gathers from
  kExpertData,    // ranks that hold the same experts, cut into shards
  kExpertReplicas,
  kPartition,  // ranks that hold a second copy for the backward gather (hpZ, FSDP2's reshard size)
  kPair,       // two stages with the same layers (bidirectional pipelines)
  kPipe,       // all stages of one pipeline, for vocabulary passes: the last stage's output
  kPipeStatistics,  // of the softmax
  kPipeGradient,    // of the last stage's output
  kPipeInput,       // embedded tokens
  kPipeInputGrad,
  kNode,    // of a data-parallel group, the ranks in one node
  kAcross,  // and the ranks at one place of each node
  kRoles
};

// What moves bytes, or touches them, beyond the GPU (host_prices.h).
enum class Carrier : std::uint8_t { to_device, to_host, nvme_read, nvme_write, cpu };
const char* to_string(Carrier by);
struct Movement {
  Carrier by = Carrier::to_device;
  std::int64_t bytes = 0;
  int pieces = 1;  // copies that they take, each with its latency
  bool operator==(const Movement&) const = default;
};

// Collectives by role, numbered once for all programs: the number is the price key. Messages
// between two ranks, of any role, have numbers of their own, and so have movements.
class PriceBook {
 public:
  std::uint32_t key(Role role, cost::Collective op, std::int64_t bytes);
  std::uint32_t key(Role role, const cost::TokenExchange& tokens);
  std::uint32_t message(std::int64_t bytes);
  std::uint32_t movement(const Movement& m);
  struct Entry {
    cost::Collective op;
    std::int64_t bytes;
    std::optional<cost::TokenExchange> tokens = {};  // in place of a collective
    cost::CollectivePrice price(const cost::Collectives& of,
                                const cluster::GroupShape& group) const;
    std::string name() const;
  };
  const std::vector<Entry>& entries(Role role) const { return entries_[role]; }
  const std::vector<std::int64_t>& messages() const { return messages_; }
  const std::vector<Movement>& movements() const { return movements_; }

 private:
  std::vector<Entry> entries_[kRoles];
  std::vector<std::int64_t> messages_;
  std::vector<Movement> movements_;
};

struct Item {
  // collective: the compute stream waits for it. async: on its role's stream, joined by the role's
  // next `join`. ring: a step round the role's ring, on its stream likewise. sync: the host waits
  // until the compute stream gets here. host: it works for `duration`. tile: a part of a weight is
  // whole from here to the next (tiles.cpp).
  enum class Kind : std::uint8_t {
    kernel,
    collective,
    async,
    ring,
    join,
    sync,
    host,
    tile
  } kind = Kind::kernel;
  program::Category category = program::Category::compute;
  Role role = kTensor;
  bool weight =
      false;  // part of the weight gradient: pass W of schedules that split the backward pass
  std::uint16_t kernels = 0;  // launches before it can start
  std::uint16_t more = 0;     // launches of kernels merged behind it
  program::CurveId curve = 0;
  std::int64_t duration = 0;  // picoseconds
  std::uint8_t slowdown = 0;  // kernel: kind, as slowdown.h counts them
  std::uint32_t label = 0;
  std::uint32_t price =
      0;  // collective, async: key in the role's book; ring: number of the message
  // tile: elements of it, none behind the last one of a weight; of the pass's next one; whether its
  // gradient is made here.
  std::int64_t elements = 0;
  std::int64_t next_elements = 0;
  bool makes_gradient = false;
};

// A tensor of trained parameters, what buckets are filled with and optimizers step. Of a mixture of
// experts: the weights of all its experts here, `elements` / (`rows` * `columns`) matrices.
struct Array {
  std::int64_t elements = 0;
  bool expert = false;    // reduced over the expert-data group
  std::int64_t rows = 0;  // of a matrix, as this rank holds it; 0: a vector
  std::int64_t columns = 0;
  bool table = false;  // an embedding, or the output projection
  bool cast = false;   // products read a copy in fewer bits
  bool tiled = false;  // gathered and reduced tile by tile
};

struct Passes {
  std::vector<Item> forward;
  std::vector<Item> recompute;  // forward again; empty when nothing is recomputed as a unit
  std::vector<Item> backward;   // input and weight gradient together
  std::vector<Item>
      input_grad;  // of schedules that split: the items of `backward` that are not `weight`
  std::vector<Item> weight_grad;      // and those that are
  std::int64_t saved = 0;             // bytes kept from forward to backward when the unit keeps all
  std::int64_t weight_inputs = 0;     // of `saved`: what the weight gradient reads
  std::int64_t output_gradients = 0;  // what it reads beside them: made by pass I, kept until W
  std::int64_t input = 0;             // bytes kept when the whole unit is recomputed
  std::int64_t remade = 0;            // bytes that operators which run again make in the backward
  double flops = 0;                   // of the forward pass: products and attention
  double redone_flops = 0;            // of these, what runs again inside the backward pass
  std::int64_t remade_inputs = 0;     // of `remade`: what the weight gradient reads
  UnitMemory memory;                  // the tensors behind these figures
  std::int64_t parameters = 0;        // trained elements on this rank, experts apart
  std::int64_t expert_parameters =
      0;                            // trained elements that are reduced over the expert-data group
  std::vector<model::Gemm> summed;  // products that add weight gradients to the main ones
  std::int64_t frozen_bytes = 0;    // parameters that take no gradient
  std::int64_t replicated = 0;      // of `parameters`, the same on every tensor rank
  std::vector<Array> arrays;        // of both, in forward order
  int tensors = 0;                  // operators with parameters
  int forward_kernels = 0;
  int backward_kernels = 0;
};

// What pricing a unit needs beside its graph.
struct PassContext {
  const strategy::Plan* plan = nullptr;
  const cost::Kernels* kernels = nullptr;
  Labels* labels = nullptr;
  PriceBook* book = nullptr;
  bool merge = true;
};

// `redone`: what runs again inside the backward pass.
Passes build_passes(const model::OperatorGraph& graph, const PassContext& context,
                    const Redone& redone = {});

// Merged kernels are priced by several curves: shares by curve, made world curves at the end.
class Blends {
 public:
  explicit Blends(program::CurveId first) : first_(first) {}
  program::CurveId add(const std::map<program::CurveId, std::int64_t>& time_by_curve);
  const std::vector<std::vector<std::pair<program::CurveId, double>>>& all() const {
    return blends_;
  }

 private:
  program::CurveId first_;
  std::vector<std::vector<std::pair<program::CurveId, double>>> blends_;
};

// Joins neighbouring kernels of one category and kind where `launch` (host time per kernel) cannot
// bind: the host issues each later kernel before those ahead of it can have ended, even if the
// first starts the moment it is issued. Times, breakdown and memory stay the same
// (tests/agree/forecast_test.cpp). Curves become a blend.
std::vector<Item> merge(const std::vector<Item>& items, std::int64_t launch, Blends& blends);

}  // namespace stepcast::lower
