#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "parts.h"
#include "run.h"
#include "stepcast/base/threads.h"

namespace stepcast::engine {

using program::Timeline;
using program::World;

namespace {

class Parts {
 public:
  Parts(const World& world, const Options& options, Prepared::Programs& programs,
        const Division& division)
      : world_(world), options_(options), programs_(programs), division_(division) {
    out_.ranks.resize(world.ranks.size());
    out_.memory.resize(options.record_memory ? world.ranks.size() : 0);
  }

  std::optional<Timeline> run() {
    const auto parts = static_cast<std::uint32_t>(division_.parts.size());
    on_threads(std::min<std::size_t>(parts, threads_of(options_.threads)),
               [this](const std::atomic<bool>& failed) { work(failed); });
    if (unlike_) {
      return std::nullopt;
    }
    // An operation of several parts is an operation, of which each part counted the events.
    out_.tasks *= parts;
    out_.skipped *= parts;
    out_.events = out_.events * parts - course_->shared_events * (parts - 1);
    return std::move(out_);
  }

 private:
  const World& world_;
  const Options& options_;
  Prepared::Programs& programs_;
  const Division& division_;
  Timeline out_;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<bool> unlike_{false};
  std::mutex mutex_;
  std::optional<Course> course_;  // of the part that was done first

  void work(const std::atomic<bool>& failed) {
    Excerpt excerpt(world_, programs_, division_);
    while (!unlike_ && !failed) {
      const std::uint32_t part = next_++;
      if (part >= division_.parts.size()) {
        return;
      }
      const World& world = excerpt.take(part);
      take(part, run_once(world, options_of(part), programs_, &excerpt.share()));
    }
  }

  // The first part tells what hangs on which curve: all end their steps at the same times.
  Options options_of(std::uint32_t part) const {
    Options o = options_;
    o.threads = 1;
    o.memory_if = nullptr;
    o.sensitivities = options_.sensitivities && part == 0;
    if (options_.record_memory && !options_.memory_of.empty()) {
      o.memory_of.clear();
      const std::vector<std::uint32_t>& ranks = division_.parts[part];
      for (const program::RankId r : options_.memory_of) {
        const auto at = std::lower_bound(ranks.begin(), ranks.end(), r.value());
        if (at != ranks.end() && *at == r) {
          o.memory_of.push_back(program::RankId::at(at - ranks.begin()));
        }
      }
      o.record_memory = !o.memory_of.empty();
    }
    return o;
  }

  void take(std::uint32_t part, Run run) {
    auto* const t = std::get_if<Timeline>(&run.outcome);
    const std::lock_guard lock(mutex_);
    if (t == nullptr || (course_ && *course_ != run.course)) {
      unlike_ = true;
      return;
    }
    course_ = run.course;
    const std::vector<std::uint32_t>& ranks = division_.parts[part];
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      out_.ranks[ranks[i]] = std::move(t->ranks[i]);
      if (!t->memory.empty()) {
        out_.memory[ranks[i]] = std::move(t->memory[program::RankId::at(i)]);
      }
    }
    if (part == 0) {
      t->ranks = std::move(out_.ranks);
      t->memory = std::move(out_.memory);
      out_ = std::move(*t);
    }
  }
};

}  // namespace

std::optional<Timeline> run_parts(const World& world, const Options& options,
                                  Prepared::Programs& programs, const Division& division) {
  return Parts(world, options, programs, division).run();
}

}  // namespace stepcast::engine
