// Builds one rank's program in issue order.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "../passes/roles.h"
#include "../passes/slowdown.h"
#include "stepcast/lower/unit_memory.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// "All that was issued so far on this stream": what a wait waits for.
struct Mark {
  program::StreamIndex stream;
  std::uint32_t position = 0;
};

class Builder {
 public:
  program::StreamIndex stream(const std::string& name);

  Mark mark(program::StreamIndex stream) const { return {stream, issued_[stream]}; }
  // The next task of `waiter` waits for this. Marks of its own stream are dropped: streams are
  // FIFOs.
  void wait(program::StreamIndex waiter, Mark mark);
  // The next task of `waiter` waits for the whole of a stream's previous step.
  void wait_previous_step(program::StreamIndex waiter, program::StreamIndex stream);

  // `launch`: host time to issue it. Returns the task for details that few tasks have.
  program::Task& task(program::StreamIndex stream, program::TaskKind kind, Time launch);
  program::Task& kernel(program::StreamIndex stream, Time duration, program::CurveId curve,
                        program::Category category, program::LabelIndex label, Time launch,
                        std::uint8_t kind = kMemoryBound);
  program::Task& collective(program::StreamIndex stream, Role role, program::PriceKey price,
                            program::Category category, program::Category waiting,
                            program::LabelIndex label, Time launch);
  program::Task& exchange(program::StreamIndex stream,
                          const std::vector<program::Transfer>& transfers,
                          program::LabelIndex label, Time launch);

  // `price`: number of the movement in the book.
  program::Task& copy(program::StreamIndex stream, program::PriceKey price,
                      program::Category category, program::LabelIndex label, Time launch);

  void host_work(Time duration);
  void host_sync(Mark mark);
  // From here on the host waits for each kernel and collective that it launches.
  void wait_for_launches() { waits_for_launches_ = true; }

  program::BufferIndex persistent(std::int64_t bytes, program::MemoryCategory category,
                                  program::LabelIndex label);
  // A buffer allocated here in host order; 0 bytes give kNone, which release() ignores.
  program::BufferIndex allocate(std::int64_t bytes, program::MemoryCategory category,
                                program::LabelIndex label, program::StreamIndex stream = 0);
  // The tensors of a list; buffers of one list share their blocks, so the list must outlive this.
  program::BufferIndex allocate(const TensorList& list, program::MemoryCategory category,
                                program::LabelIndex label, bool transient);
  // What stands in this buffer's place in the first step; the list must outlive this.
  void in_first_step(program::BufferIndex buffer, const TensorList& list);
  // A buffer that outlives its step: released early in each step, allocated again later in it.
  program::BufferIndex declare(std::int64_t bytes, program::MemoryCategory category,
                               program::LabelIndex label);
  void allocate(program::BufferIndex buffer);
  // `streams`: bit mask of other streams that used it.
  void release(program::BufferIndex buffer, std::uint32_t streams = 0);

  // Where a buffer lives, when not on the device; kNone stays as it is. Returns the buffer.
  program::BufferIndex place(program::BufferIndex buffer, program::Place at);

  // What later tasks carry, for pictures.
  void set_micro_batch(int micro_batch, int chunk);

  // A builder for a part of this one's program, which append() puts in: as often as it recurs.
  static Builder part_of(const Builder& whole);
  // As if all that a part was given were given here, with this micro-batch and chunk, and
  // `first_key` added to its transfers' keys. A part has tasks, their transfers, waits of this step
  // and host operations, but no buffers. `again`: it was appended before.
  void append(const Builder& part, bool again, std::uint32_t first_key = 0);

  // Room for about as much as another stage's program holds.
  void reserve(const program::Program& like);

  // Resolves waits on the previous step and hands the program over.
  program::Program finish();

  program::Program program;
  std::uint32_t moves = 0;        // allocations and releases so far
  std::uint8_t slowdown_row = 1;  // of World::slowdowns, first of this device's kinds of kernels

 private:
  // The first of a list's blocks in the program.
  std::uint32_t blocks_of(const TensorList& list);

  std::vector<std::uint32_t> issued_;
  std::vector<std::vector<program::Wait>> pending_;  // by waiting stream
  std::unordered_map<const TensorList*, std::uint32_t> first_block_;
  std::uint32_t distinct_from_ = 0;      // where the last tasks end that were appended again
  std::vector<std::size_t> whole_step_;  // indices into program.waits
  std::uint16_t micro_batch_ = 0xffff;
  std::uint8_t chunk_ = 0;
  bool waits_for_launches_ = false;
};

}  // namespace stepcast::lower
