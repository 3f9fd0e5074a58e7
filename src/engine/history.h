// The tasks of the last steps, kept when a picture, an allocator trace or the critical path is
// asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/program/timeline.h"

namespace stepcast::engine {

class Machine;
struct Operation;

class History {
 public:
  explicit History(const Machine& machine);

  void record(std::uint32_t rs, std::int64_t now, const Operation* by);
  // Every stream has completed step `step`.
  bool complete(std::uint32_t step) const;

  std::vector<program::Slice> slices(std::uint32_t step, std::int64_t origin) const;
  // Allocator trace of one rank's step. A use that had not ended is placed one period after that of
  // the step before.
  std::vector<program::MemoryEvent> memory(std::uint32_t rank, std::uint32_t step,
                                           std::int64_t origin, std::int64_t period) const;
  // Seconds under each curve on the critical path of `span` picoseconds that leads to the end of
  // `step` on `rank`.
  std::vector<double> critical_path(std::uint32_t rank, std::uint32_t step,
                                    std::int64_t span) const;

 private:
  struct Record {
    std::int64_t arrive = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t operation_begin = 0;       // of the operation that ended last
    const program::Price* price = nullptr;  // its price
    std::uint32_t ordinal =
        program::kNone;      // how many tasks of the stream came before, since the start
    std::uint32_t last = 0;  // stream of its last member to arrive
    std::uint32_t last_ordinal = 0;
  };
  static constexpr std::uint32_t kSteps = 4;

  const Machine& machine_;
  std::vector<std::size_t> first_;  // by stream: of its records within a step
  std::size_t per_step_ = 0;
  std::vector<Record> records_;

  const Record* find(std::uint32_t rs, std::uint32_t ordinal) const;
  struct Place {
    std::uint32_t rs = program::kNone;
    std::uint32_t ordinal = 0;
  };
  Place before(Place p, std::int64_t& time) const;
  Place before_host(std::uint32_t rank, std::uint32_t step, std::uint32_t segment,
                    std::int64_t& time) const;
};

}  // namespace stepcast::engine
