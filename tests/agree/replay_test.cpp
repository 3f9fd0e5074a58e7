// Compares the allocator's replay of whole jobs with the engine's ledger, which does not know
// blocks, and step with step.
#include "stepcast/memory/replay.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

struct Case {
  std::string file;
  std::vector<std::string> sets;
};

const std::vector<Case> kCases = {
    {"llama70b.yaml", {}},
    {"llama70b.yaml", {"parallelism.virtual_pipeline=1", "parallelism.overlap.pipeline=false"}},
    {"llama8b-fsdp.yaml", {}},
    {"mixtral-8x7b.yaml", {}},
};

result::Report report_of(const Case& c, forecast::Options options) {
  auto outcome = forecast::Forecaster(text::data_directory())
                     .forecast(config::load(c.file, c.sets).job, options);
  return std::get<result::Report>(std::move(outcome));
}

}  // namespace

TEST_CASE("the replay's peak is the ledger's, less what passes free before they end") {
  for (const Case& c : kCases) {
    INFO(c.file);
    forecast::Options options;
    options.trace = true;
    const result::Report report = report_of(c, options);
    const auto& [world, timeline] = *report.trace;
    for (const program::RankId r :
         {program::RankId(0), program::RankId::at(world.ranks.size() - 1)}) {
      const program::Program& p = world.programs[world.ranks[r].program];
      memory::ReplayOptions replay;
      replay.allocator.expandable_segments = true;  // a remainder of any size is split off
      replay.period = timeline.period;
      const memory::Replayed of = memory::replay(p, timeline.memory[r], replay);
      bool scripted = false;
      std::int64_t tensors = 0;
      for (const program::Buffer& b : p.buffers) {
        scripted = scripted || (b.transient && b.blocks > 0);
        tensors += std::max<std::int64_t>(1, b.blocks);
      }
      const std::int64_t rounding = 512 * tensors;
      CHECK(of.peak.allocated <= timeline.ranks[r].peak_allocated.count() + rounding);
      CHECK(of.first.allocated <= timeline.ranks[r].first_step_peak.count() + rounding);
      if (!scripted) {
        CHECK(of.peak.allocated >= timeline.ranks[r].peak_allocated.count());
        CHECK(of.first.allocated >= timeline.ranks[r].first_step_peak.count());
      }
      CHECK(of.steady.allocated >= timeline.ranks[r].steady.count());
      CHECK(of.steady.allocated <= timeline.ranks[r].steady.count() + rounding);
      std::int64_t sum = 0;
      for (const std::int64_t bytes : of.at_peak_by_category) {
        sum += bytes;
      }
      CHECK(sum == of.peak.allocated);
      CHECK(of.peak.reserved >= of.peak.active);
      CHECK(of.peak.active >= of.peak.allocated);
      // A steady step ends as it began, so further steps show the same.
      replay.steps = 4;
      const memory::Replayed later = memory::replay(p, timeline.memory[r], replay);
      CHECK(later.peak.allocated == of.peak.allocated);
      CHECK(later.steady.allocated == of.steady.allocated);
    }
  }
}

TEST_CASE("a full world has the memory of the folded one") {
  for (const Case& c : kCases) {
    INFO(c.file);
    const result::Report folded = report_of(c, {});
    forecast::Options options;
    options.fidelity = forecast::Fidelity::full;
    const result::Report full = report_of(c, options);
    REQUIRE(folded.memory.size() == full.memory.size());
    for (std::size_t i = 0; i < folded.memory.size(); ++i) {
      CHECK(folded.memory[i].allocated == full.memory[i].allocated);
      CHECK(folded.memory[i].active == full.memory[i].active);
      CHECK(folded.memory[i].reserved == full.memory[i].reserved);
      CHECK(folded.memory[i].process == full.memory[i].process);
    }
  }
}

// Verdict, probability and interval say the same: all are those of the memory that the job needs,
// and where the process's own interval says less, the report says why.
void check_one_distribution(const result::Report& report) {
  const result::Fit& fit = report.fits;
  REQUIRE((fit.probability && fit.needed));
  const auto capacity = static_cast<double>(report.capacity.count());
  const auto& [value, low, high] = *fit.needed;
  INFO("needs " << low << " to " << high << " of " << capacity << ", probability "
                << *fit.probability);
  CHECK(value <= std::max(report.peak.value, capacity));
  CHECK(fit.fits == (value <= capacity));
  CHECK(fit.fits == (fit.spare >= Bytes(0)));
  // The interval's ends are the quantiles of 5 and 95 %; at its very ends rounding decides.
  constexpr double kRounding = 1e-4;
  if (std::abs(high / capacity - 1) > kRounding) {
    CHECK((result::verdict_of(fit) == result::Verdict::yes) == (high < capacity));
  }
  if (std::abs(low / capacity - 1) > kRounding) {
    CHECK((result::verdict_of(fit) == result::Verdict::no) == (low > capacity));
  }
  if (result::verdict_of(fit) == result::Verdict::yes && report.peak.high > capacity) {
    CHECK(fit.frees_cache);
  }
}

TEST_CASE(
    "a GPU a little too small for what is cached is large enough by retries, a smaller one is "
    "not") {
  // The lists of a foreach optimizer would fill the cache that retries free.
  job::Job job = config::load("llama8b-fsdp.yaml", {"system.foreach_optimizer=false"}).job;
  forecast::Forecaster forecaster(text::data_directory());
  const auto plenty = std::get<result::Report>(forecaster.forecast(job));
  REQUIRE(plenty.fits);
  const result::StageMemory& m = plenty.memory.front();
  const Bytes outside = m.process - m.reserved;
  // Every job that does not fit without a limit takes no more than the limit when there is one.
  int by_retries = 0;
  std::optional<double> probability = plenty.fits.probability;
  for (int k = 1; k <= 8; ++k) {
    const std::int64_t less = (m.reserved - m.allocated).count() * k / 4;
    job.cluster.device.usable_memory = m.process - Bytes(less);
    const auto report = std::get<result::Report>(forecaster.forecast(job));
    const bool noted =
        std::any_of(report.notes.begin(), report.notes.end(), [](const std::string& n) {
          return n.find("the allocator frees its cache") != std::string::npos;
        });
    CHECK(noted == report.fits.fits);
    // The replay within the capacity decides, so the probability agrees with it.
    CHECK((report.fits.probability >= 0.5) == report.fits.fits);
    CHECK(report.fits.probability <= probability);
    probability = report.fits.probability;
    check_one_distribution(report);
    if (report.fits) {
      ++by_retries;
      CHECK(report.memory.front().process <= job.cluster.device.usable_memory);
    } else {
      CHECK(report.memory.front().process == m.process);
    }
    if (job.cluster.device.usable_memory < m.allocated + outside) {
      CHECK_FALSE(report.fits);
    }
  }
  CHECK(by_retries > 0);
}

TEST_CASE("verdict, probability and interval of memory come from one distribution") {
  job::Job job = config::load("llama8b-fsdp.yaml", {"system.foreach_optimizer=false"}).job;
  forecast::Forecaster forecaster(text::data_directory());
  const auto plenty = std::get<result::Report>(forecaster.forecast(job));
  int by_freeing = 0;
  std::set<result::Verdict> verdicts;
  for (double share = 0.65; share < 1.45; share += 0.025) {
    job.cluster.device.usable_memory = Bytes(static_cast<std::int64_t>(share * plenty.peak.value));
    const auto report = std::get<result::Report>(forecaster.forecast(job));
    check_one_distribution(report);
    verdicts.insert(result::verdict_of(report.fits));
    by_freeing += report.fits.frees_cache ? 1 : 0;
  }
  CHECK(by_freeing > 0);
  CHECK(verdicts.size() == 5);
}
