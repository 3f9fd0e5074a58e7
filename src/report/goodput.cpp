// Goodput of a long run: text, and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "format.h"
#include "json_writer.h"
#include "stepcast/base/calendar.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Goodput;

// Below this share of the wall clock a loss or a kind of failure is not listed.
constexpr double kSmall = 5e-5;

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

std::string span(const Estimate& e, const char* unit) {
  return fmt::format("{}{} ({} to {})", significant(e.value, 3), unit, significant(e.low, 3),
                     significant(e.high, 3));
}

}  // namespace

std::string terminal(const Goodput& g, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", g.title) + "\n";
  const auto line = [&](const std::string& text) { out += "  " + wrap(text, width, 2) + "\n"; };
  line(fmt::format("{} of the time trains, {} to {} in nine of ten runs of {} days",
                   percent(g.effective.value), percent(g.effective.low), percent(g.effective.high),
                   significant(g.days, 4)));
  line(fmt::format("{} interruptions, one in {}; operations: {}", span(g.interruptions, ""),
                   wall_clock(g.mean_time_between_failures), g.operations));
  line(fmt::format(
      "a checkpoint of {} every {} of training{}: training stands for {}, safe after {}, "
      "read back in {}",
      data_size(g.checkpoint_bytes), wall_clock(g.interval), g.chosen ? " (the best interval)" : "",
      duration(g.pause), duration(g.durable), duration(g.load)));
  line(fmt::format("{} billion tokens a day",
                   span({g.tokens_per_day.value * 1e-9, g.tokens_per_day.low * 1e-9,
                         g.tokens_per_day.high * 1e-9},
                        "")));
  if (g.training_days.value > 0) {
    line(fmt::format("the whole run: {}", span(g.training_days, " days")));
  }
  using Align = TextTable::Align;
  TextTable losses({{"where the time goes", Align::left}, {"share"}});
  losses.row({"training", percent(g.effective.value)});
  for (const auto& [name, share] : g.losses) {
    if (share > kSmall) {
      losses.row({name, percent(share)});
    }
  }
  out += "\n" + losses.text(paint, width);
  TextTable failures({{"failures", Align::left}, {"of a run"}});
  for (const auto& [name, number] : g.failures) {
    failures.row({name, significant(number, 3)});
  }
  return out + "\n" + failures.text(paint, width);
}

std::string json(const Goodput& g) {
  JsonWriter json;
  const auto estimate = [&](const char* key, const Estimate& e) {
    json.key(key).object(true).key("value").number(e.value);
    json.key("low").number(e.low).key("high").number(e.high).close();
  };
  json.object().key("schema").integer(1).key("title").text(g.title);
  json.key("operations").text(g.operations).key("days").number(g.days).key("runs").integer(g.runs);
  estimate("effective", g.effective);
  json.key("expected").number(g.expected);
  estimate("interruptions", g.interruptions);
  estimate("tokens_per_day", g.tokens_per_day);
  estimate("training_days", g.training_days);
  json.key("checkpoint").object(true).key("bytes").number(g.checkpoint_bytes);
  json.key("interval").number(g.interval).key("chosen").boolean(g.chosen);
  json.key("young").number(g.young).key("daly").number(g.daly);
  json.key("pause")
      .number(g.pause)
      .key("durable")
      .number(g.durable)
      .key("load")
      .number(g.load)
      .close();
  json.key("mean_time_between_failures").number(g.mean_time_between_failures);
  const auto list = [&](const char* key, const auto& entries) {
    json.key(key).object(true);
    for (const auto& [name, value] : entries) {
      json.key(name).number(value);
    }
    json.close();
  };
  list("losses", g.losses);
  list("failures", g.failures);
  json.close();
  return std::move(json).finish();
}

}  // namespace stepcast::report
