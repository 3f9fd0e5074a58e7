// Goodput of a long run: text, and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../record/tables.h"
#include "../text/format.h"
#include "../words/sentences.h"
#include "goodput_conclusion.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Goodput;

// Losses and kinds of failures below this share of the wall clock are not listed.
constexpr double kMinLoss = 5e-5;

std::string wall_clock(double seconds) {
  if (seconds < 2 * kMinute) {
    return duration(seconds);
  }
  if (seconds < 2 * kHour) {
    return significant(seconds / kMinute, 3) + " min";
  }
  return seconds < 2 * kDay ? significant(seconds / kHour, 3) + " h"
                            : significant(seconds / kDay, 3) + " days";
}

// " (storage: 2.00 TB/s, of which a node reaches 25.0 GB/s)"
std::string storage_words(const Goodput& g) {
  if (g.storage > 0 && g.node_storage > 0) {
    return fmt::format(" (storage assumed: {}, of which a node reaches {})", rate(g.storage),
                       rate(g.node_storage));
  }
  const double one = std::max(g.storage, g.node_storage);
  return one > 0
             ? fmt::format(" (storage assumed: {}{})", rate(one), g.storage > 0 ? "" : " a node")
             : "";
}

Record kind_of_failure(const std::pair<std::string, double>& kind) {
  return {{"", kind.first, "failures"}, {"", kind.second, "of a run", Show::three}};
}

Record kind_of_loss(const std::pair<std::string, double>& kind) {
  return {{"", kind.first, "where the time goes"}, {"", kind.second, "share", Show::percent}};
}

}  // namespace

std::string terminal(const Goodput& g, bool colour, int width) {
  const Paint paint{colour};
  std::string out = opening(paint, conclusion(g), g.title, width);
  const auto line = [&](const std::string& text) { out += item(text, width); };
  line(fmt::format("goodput {}, {} to {} in nine of ten runs of {} days",
                   percent(g.effective.value), percent(g.effective.low), percent(g.effective.high),
                   significant(g.days, 4)));
  line(fmt::format("{} interruptions, one every {}; failures, repairs: operations/{}",
                   with_range(g.interruptions, 1, ""), wall_clock(g.mean_time_between_failures),
                   g.operations));
  const std::string every = g.steps > 0
                                ? fmt::format("{} step{} ({})", thousands(std::llround(g.steps)),
                                              g.steps > 1.5 ? "s" : "", wall_clock(g.interval))
                                : wall_clock(g.interval) + " of training";
  line(fmt::format(
      "a checkpoint of {} every {}{}: training pauses for {}, the checkpoint is safe after {} and "
      "loads in {}{}",
      data_size(g.checkpoint_bytes), every, g.chosen ? ", the best interval" : "",
      duration(g.pause), duration(g.durable), duration(g.load), storage_words(g)));
  line(fmt::format("{} billion tokens a day", with_range(g.tokens_per_day, 1e-9, "")));
  if (g.training_days.value > 0) {
    line(fmt::format("the whole run: {}", with_range(g.training_days, 1, " days")));
  }
  std::vector<std::pair<std::string, double>> losses = {{"training", g.effective.value}};
  std::copy_if(g.losses.begin(), g.losses.end(), std::back_inserter(losses),
               [](const auto& loss) { return loss.second > kMinLoss; });
  return out + "\n" + text_table(losses, kind_of_loss).text(paint, width) + "\n" +
         text_table(g.failures, kind_of_failure).text(paint, width);
}

std::string json(const Goodput& g) {
  return json_of({
      {"schema", 1},
      {"conclusion", conclusion(g)},
      {"title", g.title},
      {"operations", g.operations},
      {"days", g.days},
      {"runs", g.runs},
      {"effective", g.effective},
      {"expected", g.expected},
      {"interruptions", g.interruptions},
      {"tokens_per_day", g.tokens_per_day},
      {"training_days", g.training_days},
      {"checkpoint", object({{"bytes", g.checkpoint_bytes},
                             {"interval", g.interval},
                             {"steps", g.steps},
                             {"storage", g.storage},
                             {"node_storage", g.node_storage},
                             {"chosen", g.chosen},
                             {"young", g.young},
                             {"daly", g.daly},
                             {"pause", g.pause},
                             {"durable", g.durable},
                             {"load", g.load}})},
      {"mean_time_between_failures", g.mean_time_between_failures},
      {"losses", named(g.losses)},
      {"failures", named(g.failures)},
  });
}

}  // namespace stepcast::report
