// The values of `simulate memory` add up for every job.
#include "laws/memory_timeline.h"

#include <algorithm>
#include <numeric>

using namespace stepcast;
using test::kMemoryJobs;
using test::memory_of;

namespace {

std::int64_t sum(const result::MemoryByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("Categories add up to the allocated bytes at every moment, and a step ends as it began") {
  const auto& [name, text] = GENERATE(from_range(kMemoryJobs));
  INFO(name);
  for (const result::StageTimeline& s : memory_of(text).stages) {
    INFO("stage " << s.stage);
    REQUIRE(s.samples.size() > 2);
    std::int64_t most = 0;
    Time before = s.samples.front().at;
    for (const result::MemorySample& sample : s.samples) {
      REQUIRE(sum(sample.by_category) == sample.allocated);
      REQUIRE(*std::min_element(sample.by_category.begin(), sample.by_category.end()) >= 0);
      REQUIRE(sample.active >= sample.allocated);
      REQUIRE(sample.reserved >= sample.active);
      REQUIRE(sample.at >= before);
      before = sample.at;
      most = std::max(most, sample.allocated);
    }
    CHECK(most == s.allocated.count());  // thinning keeps the peak
    CHECK(s.samples.front().by_category == s.samples.back().by_category);
    CHECK(s.samples.front().allocated == s.steady.count());
    CHECK(s.samples.size() <= 1202);  // two per slot, plus the first and the last
  }
}

TEST_CASE("What stands at the peak adds up to it, by tensor and by category") {
  const auto& [name, text] = GENERATE(from_range(kMemoryJobs));
  INFO(name);
  for (const result::StageTimeline& s : memory_of(text).stages) {
    INFO("stage " << s.stage);
    result::MemoryByCategory by_category{};
    std::int64_t last = s.allocated.count();
    for (const result::StandingTensor& t : s.at_peak) {
      by_category[static_cast<std::size_t>(t.category)] += t.total();
      CHECK(t.count > 0);
      CHECK_FALSE(t.label.empty());
      CHECK(t.total() <= last);
      last = t.total();
      CHECK((t.since <= s.peak_at || t.from_before));
    }
    CHECK(by_category == s.peak);
    CHECK(sum(by_category) == s.allocated.count());
    CHECK(s.allocated <= s.active);
    CHECK(s.active <= s.reserved);
    Bytes outside(0);
    for (const auto& part : s.outside) {
      outside = outside + part.bytes;
    }
    CHECK(outside == s.process - s.reserved);
  }
}

TEST_CASE("The timeline's figures are the report's") {
  const auto& [name, text] = GENERATE(from_range(kMemoryJobs));
  INFO(name);
  const auto memory = memory_of(text);
  forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
  const auto out = forecaster.forecast(config::parse(text, "memory").job);
  const auto& report = std::get<result::Report>(out);
  CHECK(memory.fits.probability == report.fits.probability);
  CHECK(memory.fits.spare == report.fits.spare);
  REQUIRE(memory.stages.size() == report.memory.size());
  for (std::size_t i = 0; i < report.memory.size(); ++i) {
    INFO("stage " << i);
    CHECK(memory.stages[i].allocated == report.memory[i].allocated);
    CHECK(memory.stages[i].active == report.memory[i].active);
    CHECK(memory.stages[i].reserved == report.memory[i].reserved);
    CHECK(memory.stages[i].process == report.memory[i].process);
    CHECK(memory.stages[i].peak[0] == report.memory[i].parameters.count());
    CHECK(memory.stages[i].peak[3] == report.memory[i].activations.count());
  }
}
