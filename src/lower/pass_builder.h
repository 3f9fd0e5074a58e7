// The state that prices one unit's passes. Its parts live in passes.cpp (operators in order, I and
// W), passes_tensor.cpp (tensor parallelism), passes_context.cpp (context parallelism) and
// passes_expert.cpp (expert parallelism).
#pragma once

#include <string>
#include <vector>

#include "passes.h"
#include "slowdown.h"
#include "stepcast/model/experts.h"

namespace stepcast::lower {

// The caching allocator's granule (CUDACachingAllocator.cpp).
inline std::int64_t round_512(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

// A grid of tensor ranks cuts every parameter: the graph with what one rank holds.
model::OperatorGraph cut_parameters(const model::OperatorGraph& graph, const strategy::Plan& plan);

// Each tile learns of the next one of its pass.
void link_tiles(std::vector<Item>& items);

class PassBuilder {
 public:
  PassBuilder(const model::OperatorGraph& graph, const PassContext& context, const Redone& redone);
  Passes build();

 private:
  friend class ContextAttention;  // passes_context.cpp
  using Operator = model::Operator;
  using Items = std::vector<Item>;

  // passes.cpp
  void forward(std::size_t i, program::Category category, Items& out);
  void backward(std::size_t i, Items& out);
  void gemm_backward(std::size_t i, Items& out);
  Array shaped(const model::Operator& op, std::int64_t elements, bool apart) const;
  void again(std::size_t i, Items& out);
  void count(Passes& out) const;
  std::int64_t count_policy() const;
  // passes_memory.cpp
  void count_memory(Passes& out) const;
  TensorRules tensor_rules(std::size_t i) const;
  bool input_made_again(const Operator& op) const;
  bool dummy_kept(const Operator& op) const;

  // The collective of a role: `blocking` on the compute stream, else on the role's own stream until
  // its next join.
  void collective(Items& out, Role role, bool blocking, cost::Collective op, std::int64_t bytes,
                  program::Category category, const std::string& label);
  // One step round the ring of a role: `bytes` to the next member and as many from the previous
  // one, on the role's own stream until its next join.
  void ring_step(Items& out, Role role, std::int64_t bytes, program::Category category,
                 const std::string& label);
  void join(Items& out, Role role);
  void kernel(Items& out, cost::Priced priced, int launches, program::Category category,
              const std::string& label, std::uint8_t kind = kArithmeticBound);
  cost::Priced memory(const Operator& op, Bytes moved, int launches) const;
  cost::Priced matrix(const Operator& op, const model::Gemm& shape, cost::Layout layout,
                      bool accumulate) const;
  int launches(const Operator& op) const;  // of one product
  std::int64_t gemm_bytes(std::int64_t rows, std::int64_t columns, std::int64_t batch) const;
  std::int64_t input_bytes(const Operator& op) const;
  std::int64_t output_bytes(const Operator& op) const;

  // passes_tensor.cpp. What surrounds an operator that tensor parallelism cuts. `Bracket` of the
  // backward pass: around the input gradient and the weight gradient of a product.
  void find_regions();
  void tensor_before(std::size_t i, Items& out);
  void tensor_after(std::size_t i, Items& out);
  void tensor_before_backward(std::size_t i, Items& out);
  void tensor_before_dgrad(std::size_t i, Items& out);
  void tensor_between(std::size_t i,
                      Items& out);  // behind the input gradient, before the weight gradient
  void tensor_after_wgrad(std::size_t i, Items& out);
  int linears_of(const model::Operator& op) const;  // that read a column operator's input
  bool tensor_async() const;  // collectives of the backward pass run beside products
  bool keeps_gathered() const;
  void copy_sequence(std::int64_t bytes, const std::string& label, Items& out);

  // passes_tensor_overlap.cpp. True: the product was emitted here, with what it exchanges.
  bool tensor_product(std::size_t i, const model::Gemm& shape, cost::Layout layout,
                      program::Category category, Items& out);
  job::TensorOverlap tensor_overlap() const;
  bool chunked(const Operator& op) const;
  bool chunked_gather(std::size_t i, cost::Layout layout) const;
  bool chunked_scatter(std::size_t i, cost::Layout layout) const;
  cost::Priced chunk(const Operator& op, const model::Gemm& shape, cost::Layout layout,
                     int parts) const;

  // passes_tensor_grid.cpp
  model::Gemm grid_block(const Operator& op) const;
  bool grid_product(std::size_t i, cost::Layout layout, program::Category category, Items& out);
  void square_product(const Operator& op, cost::Layout layout, program::Category category,
                      Items& out);
  void cube_product(const Operator& op, cost::Layout layout, program::Category category,
                    Items& out);
  void grid_around(std::size_t i, bool backward, Items& out);

  // passes_quantise.cpp
  bool quantised(const Operator& op) const;           // its operands are cast below 16 bits
  job::DType product_type(const Operator& op) const;  // of a product's operands
  double operand_width(const Operator& op) const;
  bool reads_as_before(std::size_t i) const;
  enum class Cast { input, weight, gradient, input_again };  // the last for the weight gradient
  void cast(const std::string& label, Cast which, double elements, program::Category category,
            Items& out);
  bool casts_twice() const;
  void cast_input(std::size_t i, program::Category category, Items& out);
  void cast_gradient(std::size_t i, Items& out);

  // passes_tiles.cpp: memory-centric tiling.
  bool tiled(const Operator& op) const;
  bool tiled_product(const Operator& op, program::Category category, Items& out);
  bool tiled_backward(const Operator& op, Items& out);
  void tile(std::int64_t elements, bool makes_gradient, Items& out);

  // passes_context.cpp. True: the attention operator was emitted here, kernels and exchanges.
  bool context_attention(std::size_t i, bool backward, program::Category category, Items& out);
  // The same for the products of unfused attention.
  bool context_product(std::size_t i, bool backward, program::Category category, Items& out);
  // Bytes that live while it runs, beside what the operator has alone.
  std::int64_t context_temporary(const Operator& op, bool backward) const;
  std::int64_t context_kept(const Operator& op) const;

  // passes_expert.cpp. Dispatch and return of tokens around the operators of a mixture of experts.
  void expert_before(std::size_t i, Items& out);
  void expert_after(std::size_t i, Items& out);
  void expert_before_backward(std::size_t i, Items& out);
  void expert_after_backward(std::size_t i, Items& out);
  void to_experts(const Operator& op, bool gradients, Items& out);
  void from_experts(const Operator& op, bool gradients, Items& out);
  void exchange(Items& out, std::int64_t bytes, const std::string& label);
  void send_tokens(Items& out, const std::string& label);
  void wait_for_counts(Items& out);
  void prepare_product(const Operator& op, Items& out);
  void await_tokens(Items& out);
  void travel(bool to, bool gradients, Items& out);
  bool shared_border(std::size_t i, int step) const;
  bool sends_copies() const;

  const model::OperatorGraph& graph_;
  const PassContext& context_;
  const strategy::Plan& plan_;
  const Redone& redone_;
  int tensor_ = 1;
  bool sequence_parallel_ = false;
  bool gridded_ = false;  // 2D, 2.5D or 3D tensor parallelism
  job::DType dtype_ = job::DType::bf16;
  job::DType gemm_dtype_ = job::DType::bf16;
  double width_ = 2;
  job::MoeRuntime::Dispatcher dispatcher_ = job::MoeRuntime::Dispatcher::alltoall;
  bool beside_ = false;      // what is exchanged now runs beside shared experts
  bool travelling_ = false;  // and has not been awaited
  model::ExpertRows rows_;   // of a mixture of experts
  std::vector<bool> opens_;  // by operator: gathers its input
  bool weight_ = false;      // what is emitted now belongs to the weight gradient
};

}  // namespace stepcast::lower
