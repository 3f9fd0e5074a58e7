// What jobs of one plan have in common: their programs. A job that differs in its network alone has those of its neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

struct LoweredPrograms;
struct ProgramKey;

// Programs of the last few plans. A world takes them from here and they come back when it is done with: they are moved,
// since they are most of what a job takes in memory. What is not brought back is lowered anew.
class ProgramMemo {
 public:
  ProgramMemo();
  ~ProgramMemo();
  ProgramMemo(ProgramMemo&&) noexcept;

  // Number of the world that build_world() made last with this memo, and that of its programs, which stay the same ones for
  // as long as they come back; 0: they do not.
  struct Lent {
    std::uint64_t world = 0;
    std::uint64_t programs = 0;
  };
  Lent last() const { return last_; }
  // The programs of a world, by its number, as build_world() made them.
  void bring_back(std::uint64_t world, std::vector<program::Program> programs);

  // For build_world(): the curve of the first blend in the last world's programs; 0: there was none.
  CurveId blends_from() const { return blends_from_; }
  // For build_world(): the programs for a key, which are lent to a new world from here on; none: not known.
  std::unique_ptr<LoweredPrograms> take(const ProgramKey& key);
  // All but the programs, which the world has; they stay out until they are brought back.
  void lend(ProgramKey key, std::unique_ptr<LoweredPrograms> without_programs);

 private:
  struct Known;
  void trim();

  std::vector<std::unique_ptr<Known>> known_;  // the last brought back first
  std::vector<std::unique_ptr<Known>> lent_;   // the last lent first
  CurveId blends_from_ = 0;
  std::uint64_t worlds_ = 0;
  std::uint64_t programs_ = 0;  // lowered
  Lent last_;
};

}  // namespace stepcast::lower
