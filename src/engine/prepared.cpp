#include "prepared.h"

#include <utility>

#include "repeats.h"
#include "stepcast/base/threads.h"

namespace stepcast::engine {

Prepared::Prepared() = default;
Prepared::~Prepared() = default;
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;

Prepared::Programs& Prepared::of(const std::vector<program::Program>& programs, int threads) {
  if (of_ == nullptr || !of_->are_of(programs)) {
    of_ = std::make_unique<Programs>(programs, threads_of(threads));
  }
  return *of_;
}

Prepared::Programs::Programs(const std::vector<program::Program>& programs, std::size_t threads)
    : ledgers(programs.size()),
      first_(programs.data()),
      before_(programs.size()),
      traces_(programs.size()),
      anchors_(programs.size()) {
  for_each_on_threads(programs.size(), worth(threads),
                      [&](std::size_t i) { ledgers[i] = replay(programs[i]); });
  for (const Ledger& l : ledgers) {
    steady_memory = steady_memory && l.periodic;
  }
}

// Tasks of all programs that are worth a thread: some thousands take as long as its start.
std::size_t Prepared::Programs::worth(std::size_t threads) const {
  constexpr std::size_t kWorthThreads = 200'000;
  std::size_t tasks = 0;
  for (std::size_t i = 0; i < ledgers.size(); ++i) {
    tasks += first_[i].tasks.size();
  }
  return tasks < kWorthThreads ? 1 : threads;
}

void Prepared::Programs::compile(std::size_t threads) {
  if (!compiled.empty()) {
    return;
  }
  const std::size_t count = ledgers.size();
  std::vector<CompiledProgram> made(count);
  std::vector<Concurrency> concurrent(count);
  for_each_on_threads(count, worth(threads), [&](std::size_t i) {
    made[i] = engine::compile(first_[i]);
    concurrent[i] = concurrency(made[i]);
  });
  compiled = std::move(made);
  at_once = std::move(concurrent);
}

bool Prepared::Programs::are_of(const std::vector<program::Program>& programs) const {
  return ledgers.size() == programs.size() && (programs.empty() || first_ == programs.data());
}

const std::vector<std::uint32_t>& Prepared::Programs::communicating_before(program::ProgramId id) {
  const std::lock_guard lock(asked_);
  std::vector<std::uint32_t>& out = before_[id];
  if (out.empty()) {
    const CompiledProgram& p = compiled[id];
    out.reserve(p.size + 1);
    out.push_back(0);
    for (std::size_t i = 0; i < p.size; ++i) {
      out.push_back(out.back() + (p.tasks[i].kind != program::TaskKind::kernel ? 1U : 0U));
    }
  }
  return out;
}

const HostTrace& Prepared::Programs::host_trace(program::ProgramId id) {
  {
    const std::lock_guard lock(asked_);
    if (traces_[id]) {
      return *traces_[id];
    }
  }
  HostTrace trace = engine::host_trace(compiled[id]);  // while others make those of other programs
  const std::lock_guard lock(asked_);
  if (!traces_[id]) {
    traces_[id] = std::move(trace);
  }
  return *traces_[id];
}

const std::vector<bool>& Prepared::Programs::anchors(program::ProgramId id) {
  const std::lock_guard lock(asked_);
  if (!anchors_[id]) {
    anchors_[id] = anchors_of(compiled[id]);
  }
  return *anchors_[id];
}

}  // namespace stepcast::engine
