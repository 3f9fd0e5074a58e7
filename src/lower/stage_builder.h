// The state that lowers one stage; its parts live in stage.cpp (units), states.cpp (what stands in
// memory), pipeline.cpp (messages) and data_parallel.cpp (gradients, parameters, optimizer).
#pragma once

#include <utility>
#include <vector>

#include "stage.h"

namespace stepcast::lower {

// Whole blocks of the caching allocator (512 bytes, CUDACachingAllocator.cpp).
inline std::int64_t round_512(double bytes) {
  return (static_cast<std::int64_t>(bytes) + 511) / 512 * 512;
}

// Bytes of optimizer moments per parameter.
double moment_bytes(const job::Memory& memory);

class StageBuilder {
 public:
  StageBuilder(const StageContext& context, int stage);
  program::Program build();

 private:
  // stage.cpp
  void make_units();
  void make_streams();
  void make_persistent_buffers();
  Bytes outside_allocator() const;
  void run_slot(const schedule::Slot& slot);
  void forward(int chunk, int micro_batch);
  void backward(int chunk, int micro_batch);
  void recompute(int chunk, std::size_t unit);
  program::StreamIndex stream_of(Role role) const;
  void replay(const std::vector<Item>& items);
  std::int64_t kept_bytes(const Unit& unit) const;
  std::uint32_t& activation(int chunk, std::size_t unit, int micro_batch);
  void memory_kernel(double bytes, cost::MemoryOp op, program::Category category, const char* label,
                     int launches = 1);
  void tensor_collective(cost::Collective op, std::int64_t bytes, program::Category category,
                         const char* label);

  // pipeline.cpp
  struct Message {
    bool needed = false;
    program::Transfer transfer;
  };
  Message receive_of(const schedule::Slot& slot) const;
  Message send_of(const schedule::Slot& slot) const;
  void exchange(const std::vector<Message>& messages);
  void after_receive(const std::vector<Message>& messages);
  void run_local();
  void run_blocking();
  void run_interleaved_blocking();
  void run_overlapped();

  // data_parallel.cpp
  bool reduces(int micro_batch) const;
  void gather_parameters_at_start();
  void before_forward(int chunk, std::size_t unit, int micro_batch);
  void after_forward(int chunk, std::size_t unit);
  void before_backward(int chunk, std::size_t unit);
  void after_backward(int chunk, std::size_t unit, int micro_batch);
  void end_of_backward(int chunk, int micro_batch);
  void reduce_bucket(std::int64_t elements, program::StreamIndex stream);
  void gather_unit(int chunk, std::size_t unit);
  void use_gathered(int chunk, std::size_t unit);
  void finish_step();
  void optimizer_step();
  double width(job::DType t) const { return job::bytes_per_element(t); }
  bool fully_sharded() const { return plan_.data_comm == strategy::DataComm::shard_all; }

  const StageContext& context_;
  const strategy::Plan& plan_;
  const job::Job& job_;
  int stage_;
  Builder b_;
  std::int64_t launch_ = 0;

  program::StreamIndex compute_ = 0;
  program::StreamIndex tensor_ = 0;
  program::StreamIndex tensor_column_ = 0;
  program::StreamIndex context_stream_ = 0;
  program::StreamIndex expert_stream_ = 0;
  std::uint32_t ring_key_ = 0;     // ring steps in program order: a mispairing is a detected fault
  program::StreamIndex data_ = 0;  // gradients; FSDP: reduce-scatter
  program::StreamIndex gather_ = 0;    // FSDP: all-gather
  program::StreamIndex replicas_ = 0;  // HSDP: all-reduce
  program::StreamIndex send_forward_ = 0, receive_forward_ = 0, send_backward_ = 0,
                       receive_backward_ = 0;

  std::vector<Passes> passes_;                                        // owned, merged
  std::vector<std::vector<Unit>> units_;                              // by chunk
  std::vector<std::vector<std::vector<std::uint32_t>>> activations_;  // [chunk][unit][micro-batch]
  std::vector<std::pair<std::size_t, std::uint32_t>>
      recomputed_;  // unit, buffer: live until its backward ends
  StageParameters parameters_;
  std::vector<std::int64_t> pending_elements_;  // by chunk: gradients waiting for their bucket
  std::vector<std::vector<Mark>>
      parameter_ready_;  // by chunk, unit: gathered at the start of the step

  struct Sharded {  // FSDP state of a unit
    bool unsharded = false;
    bool issued = false;
    Mark gathered;
    std::uint32_t gather_buffer = program::kNone;
    std::uint32_t parameters = program::kNone;
  };
  std::vector<std::vector<Sharded>> sharded_;
  Mark last_copy_out_;
  Mark last_reduce_;
  std::uint32_t last_gather_buffer_ = program::kNone;
  std::uint32_t last_reduce_buffer_ = program::kNone;
  std::vector<std::uint32_t> kept_inputs_;         // by chunk: see make_persistent_buffers
  std::uint32_t main_gradients_ = program::kNone;  // the optimizer's fp32 copy of 16-bit gradients
  std::vector<std::uint32_t> gradient_buffers_;    // released when gradients are set to none
};

}  // namespace stepcast::lower
