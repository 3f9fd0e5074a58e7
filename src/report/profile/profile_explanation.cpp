// Why a profiled step differs from its forecast, for `simulate explain --trace`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "../record/tables.h"
#include "profile_fields.h"

namespace stepcast::report {
namespace {

using result::TraceDifference;
using result::TraceExplanation;

// Times of a profile are in nanoseconds or longer: less comes of rounding means and shares.
constexpr Time kNothing{1'000};
bool is_nothing(Time time) { return std::abs(time.count()) < kNothing.count(); }

std::string words_of_difference(Time difference) {
  return is_nothing(difference)
             ? "0"
             : (difference < Time(0) ? "-" : "+") + duration(std::abs(to_seconds(difference)));
}

Record difference_fields(const TraceDifference& row) {
  const Time difference = row.measured - row.forecast;
  const bool counted = row.forecast_count > 0 || row.measured_count > 0;
  return {{"phase", row.phase, "phase"},
          {"what", row.what, "what"},
          {"forecast", row.forecast, "forecast", Show::duration},
          {"measured", row.measured, "measured", Show::duration},
          {"difference", difference},
          {"", words_of_difference(difference), "difference", Show::number},
          {"forecast_count", if_known(counted, row.forecast_count)},
          {"measured_count", if_known(counted, row.measured_count)},
          {"cause", text_or_null(row.cause)},
          {"", row.cause, "cause", Show::prose}};
}

}  // namespace

std::string trace_explanation_text(const TraceExplanation& e, const Paint& paint, int width) {
  const double ratio = e.forecast > Time(0) ? to_seconds(e.measured) / to_seconds(e.forecast) : 1;
  std::vector<TraceDifference> shown;
  std::copy_if(e.rows.begin(), e.rows.end(), std::back_inserter(shown),
               [](const TraceDifference& row) {
                 return !is_nothing(row.forecast) || !is_nothing(row.measured);
               });
  const std::string rank =
      e.rank < 0 ? file_name(e.file) : fmt::format("rank {} ({})", e.rank, file_name(e.file));
  std::string text =
      "\n" +
      heading(paint,
              fmt::format("Profile of {}: {} measured, {} forecast", rank,
                          duration(to_seconds(e.measured)), duration(to_seconds(e.forecast))),
              fmt::format("{}; stage {}; {}", signed_percent(ratio - 1), e.stage,
                          e.steps > 0
                              ? fmt::format("mean of {} step{}", e.steps, e.steps > 1 ? "s" : "")
                              : "the whole trace as one step"),
              width) +
      text_table(shown, difference_fields).text(paint, width) +
      item(
          "communication: the part beside which no kernel computes; the differences add up to that "
          "of the step",
          width);
  for (const std::string& note : e.notes) {
    text += item("note: " + note, width, 4);
  }
  return text;
}

Value trace_explanation_value(const TraceExplanation& e) {
  return object({{"file", file_name(e.file)},
                 {"rank", if_known(e.rank >= 0, e.rank)},
                 {"stage", e.stage},
                 {"steps", e.steps},
                 {"forecast", e.forecast},
                 {"measured", e.measured},
                 {"differences", rows(e.rows, difference_fields)},
                 {"notes", lines(e.notes)}});
}

}  // namespace stepcast::report
