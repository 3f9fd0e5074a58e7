// The answers of several search algorithms, side by side: text, JSON and a page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../page/page_parts.h"
#include "../record/tables.h"
#include "../words/fit_words.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::AlgorithmAnswer;
using result::Algorithms;

std::string brief(const std::vector<std::string>& overrides) {
  std::string out;
  for (const std::string& text : overrides) {
    const std::size_t dot = text.rfind('.', text.find('='));
    out += (out.empty() ? "" : " ") + text.substr(dot == std::string::npos ? 0 : dot + 1);
  }
  return out;
}

// The decision of each step, with its figures below.
std::string steps_text(const AlgorithmAnswer& x, const Paint& paint, int width) {
  std::string out;
  int number = 0;
  for (const result::AlgorithmStep& step : x.steps) {
    out +=
        "    " +
        wrap(fmt::format("{} {}: {}", ++number, paint("1", step.name), step.decision), width, 8) +
        "\n";
    for (const std::string& detail : step.details) {
      out += "      " + wrap(detail, width, 8) + "\n";
    }
  }
  return out;
}

Record step_fields(const result::AlgorithmStep& step) {
  return {{"name", step.name}, {"decision", step.decision}, {"details", step.details}};
}

Record operator_fields(const result::AnalysedOperator& o) {
  return {{"unit", o.unit},
          {"times", o.times},
          {"name", o.name},
          {"forward_flops", o.forward_flops},
          {"backward_flops", o.backward_flops},
          {"moved", o.moved},
          {"saved", o.saved},
          {"parameters", o.parameters},
          {"intensity", o.intensity},
          {"critical", o.critical}};
}

Record own_fields(const result::OwnEstimate& own) {
  return {{"step_time", own.step},      {"compute", own.compute},
          {"recompute", own.recompute}, {"communication", own.communication},
          {"waiting", own.waiting},     {"memory", own.memory}};
}

Record found_fields(const result::Strategy& s) {
  return {{"overrides", s.overrides},
          {"objective", s.objective},
          {"step_time", s.step_time.value},
          {"peak", s.peak.value},
          {"fits", fit_value(s.fits)},
          {"mfu", s.mfu},
          {"breakdown", object({{"compute", to_seconds(s.compute)},
                                {"recompute", to_seconds(s.recompute)},
                                {"communication", to_seconds(s.exposed)},
                                {"waiting", to_seconds(s.bubble)},
                                {"other", to_seconds(s.other)}},
                               false)}};
}

Record answer_fields(const AlgorithmAnswer& x) {
  Record out = {{"name", x.name},   {"found", x.found},
                {"tried", x.tried}, {"tried_unit", x.tried_unit},
                {"plan", x.plan},   {"own_step_time", x.predicted}};
  if (x.proof != result::Proof::none) {
    out.push_back({"proven", x.proof == result::Proof::proven});
  }
  if (x.own.step > 0) {
    out.push_back({"own", object(own_fields(x.own), false)});
  }
  append(out, {{"notes", x.notes}, {"losses", x.losses}});
  append(out, x.found ? found_fields(x.strategy) : Record{{"why_not", x.why_not}});
  if (!x.steps.empty()) {
    append(out, {{"steps", blocks(x.steps, step_fields)},
                 {"operators", blocks(x.operators, operator_fields)}});
  }
  return out;
}

// The answer with the best objective among those that fit; null: none fits.
const AlgorithmAnswer* best_of(const Algorithms& a) {
  const AlgorithmAnswer* best = nullptr;
  for (const AlgorithmAnswer& x : a.answers) {
    const bool fits = x.found && x.strategy.fits;
    if (fits && (best == nullptr || x.strategy.objective < best->strategy.objective)) {
      best = &x;
    }
  }
  return best;
}

// An answer as a row of a table; `best` and `longest` (seconds) are of all answers.
Record row_of(const AlgorithmAnswer& x, const AlgorithmAnswer* best, double longest) {
  const result::Strategy& s = x.strategy;
  // The algorithm's own estimate of the strategy that was forecast, if it has one; else of its
  // plan.
  const double own = x.own.step > 0 ? x.own.step : x.predicted;
  const char* proven = x.proof == result::Proof::proven ? "yes"
                       : x.proof == result::Proof::open ? "no"
                                                        : "";
  const Value to_best = best != nullptr ? s.objective / best->strategy.objective - 1 : Value();
  const std::string picture =
      interval_bar(strategy_parts(s, false), s.step_time.low, s.step_time.high, longest);
  const auto found = [&](Value value) { return if_known(x.found, std::move(value)); };
  return {{"", x.name, "algorithm"},
          {"", x.found ? Value(s.step_time) : Value("none"), "forecast", Show::duration},
          {"", found(to_best), "to best", Show::change},
          {"", if_known(own > 0, own), "its own", Show::duration},
          {"", found(s.peak), "peak GiB", Show::gib},
          {"", found(if_known(x.own.memory > 0, x.own.memory)), "its own GiB", Show::gib},
          {"", found(fit_words(s.fits)), "fits", Show::text, "", x.found && !s.fits},
          {"", found(proven), "proven", Show::number},
          {"", fmt::format("{:.0f} s", x.seconds), "took", Show::number},
          {"", x.tried, "tried", Show::count},
          {"", x.tried_unit, "of"},
          {"", x.found ? picture : html_text(x.why_not), "where the step goes", Show::bar}};
}

// An algorithm's own estimate and the forecast of the same strategy, by parts of the step in
// seconds.
Record parts_row(const AlgorithmAnswer& x) {
  const result::Strategy& s = x.strategy;
  const auto both = [](double own, Time forecast) {
    return fmt::format("{:.2f} / {:.2f}", own, to_seconds(forecast));
  };
  return {{"", x.name, "own / forecast, s"},
          {"", both(x.own.compute, s.compute), "compute", Show::number},
          {"", both(x.own.recompute, s.recompute), "recompute", Show::number},
          {"", both(x.own.communication, s.exposed), "communication", Show::number},
          {"", both(x.own.waiting, s.bubble), "waiting", Show::number},
          {"", fmt::format("- / {:.2f}", to_seconds(s.other)), "optimizer, host", Show::number}};
}

Record plan_row(const AlgorithmAnswer& x) {
  return {{"", x.name, "algorithm"},
          {"", fmt::format("{}", fmt::join(x.strategy.overrides, " ")), "job", Show::prose},
          {"", x.plan, "in its own terms", Show::prose},
          {"", fmt::format("{}", fmt::join(x.losses, "; ")), "parts that a job cannot state",
           Show::prose}};
}

}  // namespace

std::string terminal(const Algorithms& a, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", a.title) + "\n";
  const AlgorithmAnswer* best = best_of(a);
  const auto row = [&](const AlgorithmAnswer& x) { return row_of(x, best, 0); };
  const Captions columns = {"algorithm",
                            "forecast",
                            "to best",
                            {"its own", "own"},
                            {"peak GiB", "GiB"},
                            {"its own GiB", "own"},
                            "fits",
                            "proven",
                            "took"};
  out += text_table(a.answers, row, columns).text(paint, std::max(width, 1));
  std::vector<AlgorithmAnswer> estimated;
  std::copy_if(a.answers.begin(), a.answers.end(), std::back_inserter(estimated),
               [](const AlgorithmAnswer& x) { return x.found && x.own.step > 0; });
  if (!estimated.empty()) {
    out += text_table(estimated, parts_row).text(paint, std::max(width, 1));
  }
  for (const AlgorithmAnswer& x : a.answers) {
    std::string text = paint("1", x.name) + ": ";
    text += x.found ? brief(x.strategy.overrides) : x.why_not;
    text += fmt::format("; {} {}", thousands(x.tried), x.tried_unit);
    text += x.plan.empty() ? "" : "; " + x.plan;
    if (x.own.step > 0 && x.predicted > 0 && !x.losses.empty()) {
      text += "; its own plan, which a job cannot fully state, takes " + duration(x.predicted) +
              " by its own estimate";
    }
    if (!x.losses.empty()) {
      text += fmt::format("; as a job: {}", fmt::join(x.losses, ", "));
    }
    for (const std::string& note : x.notes) {
      text += "; " + note;
    }
    out += "  " + wrap(text, width, 4) + "\n";
    out += steps_text(x, paint, width);
  }
  return out;
}

std::string json(const Algorithms& a) {
  return json_of({{"schema", kFitSchema},
                  {"title", a.title},
                  {"objective", a.objective},
                  {"algorithms", blocks(a.answers, answer_fields)}});
}

std::string html(const Algorithms& a) {
  Page page("Search algorithms", a.title);
  const AlgorithmAnswer* best = best_of(a);
  double longest = 0;
  for (const AlgorithmAnswer& x : a.answers) {
    const result::Estimate& time = x.strategy.step_time;
    longest = x.found ? std::max({longest, time.value, time.high, x.predicted}) : longest;
  }
  page.section("best", "The answers", "Each algorithm's answer, forecast by the engine.");
  if (best != nullptr) {
    const result::Strategy& s = best->strategy;
    page.add(to_html(std::vector<Tile>{
        {"Best", best->name, "", "", {}},
        interval_tile("Step time", duration(s.step_time.value), between(s.step_time), "step_time",
                      s.step_time),
        number_tile("MFU", percent(s.mfu), "", "mfu", s.mfu),
        interval_tile("Peak memory", gibibytes(s.peak.value) + " GiB", "", "peak", s.peak)}));
    page.add(strategy_options(s.overrides));
  }
  page.add(legend(strategy_marks()));
  const auto row = [&](const AlgorithmAnswer& x) { return row_of(x, best, longest); };
  Table table = page_table(a.answers, row,
                           {"algorithm",
                            {"forecast", "step time"},
                            "to best",
                            "its own",
                            "peak GiB",
                            "fits",
                            "tried",
                            "of",
                            "where the step goes"});
  table.id = "algorithms";
  table.sortable = true;
  table.caption = "The whisker is the 90 % interval.";
  table.columns[3].hint = "the estimate of the algorithm's own cost model";
  page.add(to_html(table));
  page.section("strategies", "The strategies",
               "Each plan as a job states it, and its parts that a job cannot state.");
  page.add(to_html(page_table(a.answers, plan_row)));
  page.add(embedded_json("data", json(a)));
  return page.finish();
}

}  // namespace stepcast::report
