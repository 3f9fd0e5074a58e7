// What a run works out of a world's programs alone, which worlds of the same programs share.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "binding.h"
#include "compile.h"
#include "history.h"
#include "ledger.h"
#include "stepcast/engine/engine.h"

namespace stepcast::engine {

struct Prepared::Programs {
  // With their ledgers alone, which is all that their memory takes. On up to so many threads.
  Programs(const std::vector<program::Program>& programs, std::size_t threads);
  // And what every run needs besides; the first time.
  void compile(std::size_t threads);

  // So many threads, or one where the programs are small.
  std::size_t worth(std::size_t threads) const;

  // Whether these lie where the ones that this is of lay.
  bool are_of(const std::vector<program::Program>& programs) const;
  // Worked out when first asked for, by whatever thread: of each compiled task of a program, and of
  // its end, how many communicate before it.
  const std::vector<std::uint32_t>& communicating_before(program::ProgramId id);
  // As host_trace().
  const HostTrace& host_trace(program::ProgramId id);
  // As anchors_of().
  const std::vector<bool>& anchors(program::ProgramId id);

  std::vector<Ledger> ledgers;
  bool steady_memory = true;              // of all ledgers
  std::vector<CompiledProgram> compiled;  // none before compile()
  std::vector<Concurrency> at_once;

 private:
  const program::Program* first_ = nullptr;  // where they lie
  std::mutex asked_;
  std::vector<std::vector<std::uint32_t>> before_;
  std::vector<std::optional<HostTrace>> traces_;
  std::vector<std::optional<std::vector<bool>>> anchors_;
};

}  // namespace stepcast::engine
