#include "program_memo.h"

#include <algorithm>
#include <utility>

namespace stepcast::lower {
namespace {

// Programs of two plans, since some forecasts come in pairs (a job, and the same recomputed), and
// in bytes of all but the last.
constexpr std::size_t kMost = 2;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;
// Worlds whose programs may still come back.
constexpr std::size_t kMostLent = 4;

template <class T>
std::size_t size_of(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

std::size_t bytes_of(const std::vector<program::Program>& programs) {
  std::size_t out = 0;
  for (const program::Program& p : programs) {
    out += size_of(p.tasks) + size_of(p.waits) + size_of(p.transfers) + size_of(p.host) +
           size_of(p.buffers) + size_of(p.blocks) + size_of(p.first_steps) + size_of(p.making);
  }
  return out;
}

}  // namespace

struct ProgramMemo::Known {
  ProgramKey key;
  std::unique_ptr<LoweredPrograms> of;
  std::uint64_t world = 0;  // that it was lent to
  std::size_t bytes = 0;
};

ProgramMemo::ProgramMemo() = default;
ProgramMemo::~ProgramMemo() = default;
ProgramMemo::ProgramMemo(ProgramMemo&&) noexcept = default;

std::unique_ptr<LoweredPrograms> ProgramMemo::take(const ProgramKey& key) {
  last_ = {};
  const auto at =
      std::find_if(known_.begin(), known_.end(), [&](const auto& one) { return one->key == key; });
  if (at == known_.end()) {
    return nullptr;
  }
  std::unique_ptr<LoweredPrograms> out = std::move((*at)->of);
  known_.erase(at);
  return out;
}

void ProgramMemo::lend(ProgramKey key, std::unique_ptr<LoweredPrograms> without_programs) {
  if (without_programs->number == 0) {
    without_programs->number = ++programs_;
  }
  last_ = {++worlds_, without_programs->number};
  blends_from_ = without_programs->blends_from;
  lent_.insert(lent_.begin(), std::make_unique<Known>(Known{
                                  std::move(key), std::move(without_programs), last_.world, 0}));
  lent_.resize(std::min(lent_.size(), kMostLent));
}

void ProgramMemo::bring_back(std::uint64_t world, std::vector<program::Program> programs) {
  const auto at = std::find_if(lent_.begin(), lent_.end(),
                               [&](const auto& one) { return one->world == world; });
  if (at == lent_.end() || programs.empty()) {
    return;
  }
  std::unique_ptr<Known> one = std::move(*at);
  lent_.erase(at);
  one->bytes = bytes_of(programs);
  one->of->programs = std::move(programs);
  // Of nested worlds of one key, the last one's stay.
  known_.erase(std::remove_if(known_.begin(), known_.end(),
                              [&](const auto& other) { return other->key == one->key; }),
               known_.end());
  known_.insert(known_.begin(), std::move(one));
  trim();
}

void ProgramMemo::trim() {
  std::size_t bytes = 0;
  std::size_t kept = 0;
  for (const auto& one : known_) {
    bytes += one->bytes;
    if (kept == kMost || bytes > kMostBytes) {
      break;
    }
    ++kept;
  }
  known_.resize(kept);
}

}  // namespace stepcast::lower
