#include "prepared.h"

#include "repeats.h"

namespace stepcast::engine {

Prepared::Prepared() = default;
Prepared::~Prepared() = default;
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;

Prepared::Programs& Prepared::of(const std::vector<program::Program>& programs) {
  if (of_ == nullptr || !of_->are_of(programs)) {
    of_ = std::make_unique<Programs>(programs);
  }
  return *of_;
}

Prepared::Programs::Programs(const std::vector<program::Program>& programs)
    : first_(programs.data()),
      before_(programs.size()),
      traces_(programs.size()),
      anchors_(programs.size()) {
  ledgers.reserve(programs.size());
  for (const program::Program& p : programs) {
    ledgers.push_back(replay(p));
    steady_memory = steady_memory && ledgers.back().periodic;
  }
}

void Prepared::Programs::compile() {
  compiled.reserve(ledgers.size());
  at_once.reserve(ledgers.size());
  while (compiled.size() < ledgers.size()) {
    compiled.push_back(engine::compile(first_[compiled.size()]));
    at_once.push_back(concurrency(compiled.back()));
  }
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
  const std::lock_guard lock(asked_);
  if (!traces_[id]) {
    traces_[id] = engine::host_trace(compiled[id]);
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
