// A part of a program that recurs: appended, it is what its tasks would be, given one by one.
#include "lower/stage/builder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "catch.hpp"

namespace stepcast::lower::test {
namespace {

using program::Category;
using program::LabelIndex;
using program::StreamIndex;

constexpr StreamIndex kCompute{0};
constexpr StreamIndex kSide{1};

Builder two_streams() {
  Builder b;
  b.stream("compute");
  b.stream("side");
  return b;
}

void kernel(Builder& b, StreamIndex stream, Time duration, Time launch) {
  b.kernel(stream, duration, {}, Category::compute, LabelIndex{0}, launch);
}

// Two kernels, a task beside them that follows the first, an exchange that follows the second, a
// host that waits for the second; what comes behind waits for the task beside. Keys count on.
void give_part(Builder& b, std::uint32_t key) {
  kernel(b, kCompute, Time{10}, Time{1});
  b.wait(kSide, b.mark(kCompute));
  kernel(b, kSide, Time{30}, Time{1});
  kernel(b, kCompute, Time{20}, Time{2});
  b.wait(kSide, b.mark(kCompute));
  b.exchange(kSide,
             {{program::ChannelRole{0}, key, program::PriceKey{3}, true},
              {program::ChannelRole{1}, key, program::PriceKey{3}, false}},
             LabelIndex{0}, Time{1});
  b.host_work(Time{5});
  b.host_sync(b.mark(kCompute));
  b.wait(kCompute, b.mark(kSide));
}

template <class Give>
program::Program program_of(const Give& give) {
  Builder b = two_streams();
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    b.set_micro_batch(micro_batch, micro_batch % 2);
    if (micro_batch == 1) {  // the part's first tasks find something to wait for
      b.wait_previous_step(kSide, kCompute);
      kernel(b, kSide, Time{40}, Time{1});
      b.wait(kCompute, b.mark(kSide));
      b.wait_previous_step(kSide, kCompute);
    }
    give(b, static_cast<std::uint32_t>(micro_batch));
  }
  kernel(b, kCompute, Time{50}, Time{1});
  return b.finish();
}

bool equal(const program::Wait& a, const program::Wait& b) {
  return a.position == b.position && a.stream == b.stream && a.lag == b.lag;
}

}  // namespace

TEST_CASE("Tasks of a part that is appended again are not distinct", "[lower]") {
  Builder b = two_streams();
  Builder part = Builder::part_of(b);
  give_part(part, 0);
  Builder other = Builder::part_of(b);
  kernel(other, kSide, Time{60}, Time{1});
  kernel(b, kCompute, Time{50}, Time{1});
  b.append(part, false);
  b.append(part, true);
  b.append(other, false);
  b.append(part, true);
  b.append(other, true);
  kernel(b, kCompute, Time{70}, Time{1});
  using Stretches = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  CHECK(b.finish().distinct == Stretches{{0, 5}, {9, 10}, {15, 16}});
}

TEST_CASE("A part that is appended is the same as its tasks given one by one", "[lower]") {
  const program::Program given = program_of(give_part);
  const program::Program appended = program_of([](Builder& b, std::uint32_t key) {
    Builder part = Builder::part_of(b);
    give_part(part, 0);
    b.append(part, false, key);
  });
  REQUIRE(appended.tasks.size() == given.tasks.size());
  for (std::size_t i = 0; i < given.tasks.size(); ++i) {
    const program::Task& a = appended.tasks[i];
    const program::Task& b = given.tasks[i];
    CHECK(a.duration == b.duration);
    CHECK(a.stream == b.stream);
    CHECK(a.micro_batch == b.micro_batch);
    CHECK(a.chunk == b.chunk);
    CHECK(a.first_wait == b.first_wait);
    CHECK(a.waits == b.waits);
    CHECK(a.transfers == b.transfers);
    CHECK(a.first_transfer == b.first_transfer);
  }
  REQUIRE(appended.transfers.size() == given.transfers.size());
  for (std::size_t i = 0; i < given.transfers.size(); ++i) {
    CHECK(appended.transfers[i].key == given.transfers[i].key);
    CHECK(appended.transfers[i].channel == given.transfers[i].channel);
  }
  REQUIRE(appended.waits.size() == given.waits.size());
  CHECK(std::equal(given.waits.begin(), given.waits.end(), appended.waits.begin(), equal));
  REQUIRE(appended.host.size() == given.host.size());
  for (std::size_t i = 0; i < given.host.size(); ++i) {
    const program::HostOp& a = appended.host[i];
    const program::HostOp& b = given.host[i];
    CHECK(a.kind == b.kind);
    CHECK(a.duration == b.duration);
    CHECK(a.count == b.count);
    CHECK(equal(a.wait, b.wait));
  }
}

}  // namespace stepcast::lower::test
