// Time to write a trace of a million slices (512 ranks with 2 streams), and its size. ctest does
// not run it: it prints and asserts nothing.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "stepcast/report/report.h"

using namespace stepcast;
using namespace stepcast::program;

namespace {

constexpr RankId kRanks = 512;
constexpr std::uint32_t kTasks = 1954;  // per rank: about a million slices in total
constexpr Time kLength{50'000'000};

result::Report::Trace million() {
  result::Report::Trace trace;
  Program program;
  program.streams = {{"compute"}, {"pipeline"}};
  program.labels = {"layer forward", "layer backward", "send forward", "receive forward"};
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    Task task;
    task.micro_batch = static_cast<std::uint16_t>(i / 64);
    task.label = LabelIndex::at(i % 2);
    // Every sixteenth task sends to the next rank or receives from the previous one.
    if (i % 16 == 15) {
      task.kind = TaskKind::exchange;
      task.category = Category::pipeline;
      task.stream = 1;
      task.label = LabelIndex::at(2 + (i / 16) % 2);
      task.first_transfer = static_cast<std::uint32_t>(program.transfers.size());
      task.transfers = 1;
      const bool send = (i / 16) % 2 == 0;
      program.transfers.push_back({ChannelRole::at(send ? 0 : 1), i / 32, 0, send});
    }
    program.tasks.push_back(task);
  }
  trace.world.programs = {program};
  for (RankId r = 0; r < kRanks; ++r) {
    Rank rank;
    rank.first_channel = 2 * r;
    trace.world.ranks.push_back(rank);
    trace.world.channel_table.push_back(ChannelId::at(r.value()));  // to the next rank
    // From the previous rank.
    trace.world.channel_table.push_back(ChannelId::at((r + kRanks - 1) % kRanks));
    trace.world.channels.emplace_back();
    for (std::uint32_t i = 0; i < kTasks; ++i) {
      const Time start = kLength * i;
      trace.timeline.slices.push_back({start, start, start + kLength, TaskIndex::at(i), r});
    }
  }
  trace.timeline.period = kLength * kTasks;
  return trace;
}

}  // namespace

int main() {
  result::Report report;
  report.trace = million();
  const auto file = std::filesystem::temp_directory_path() / "stepcast-bench.pftrace";
  for (int run = 0; run < 3; ++run) {
    const auto start = std::chrono::steady_clock::now();
    report::write_trace(report, file);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{} slices: {:.3f} s, {:.1f} MB\n", report.trace->timeline.slices.size(),
               took.count(), static_cast<double>(std::filesystem::file_size(file)) / 1e6);
  }
  std::filesystem::remove(file);
}
