// The answer of a strategy search: text, and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "../page/page_parts.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "../words/sentences.h"
#include "search_conclusion.h"
#include "search_fields.h"
#include "stepcast/report/report.h"

namespace stepcast::report {

std::vector<const result::Strategy*> shown_strategies(const result::Search& search) {
  std::vector<const result::Strategy*> out;
  for (const result::Strategy& one : search.ranking) {
    out.push_back(&one);
  }
  for (const result::FrontPoint& p : search.front) {
    out.push_back(&p.best);
  }
  return out;
}

std::vector<const result::Strategy*> front_of_shown(const result::Search& search) {
  std::vector<const result::Strategy*> all = shown_strategies(search), out;
  std::stable_sort(all.begin(), all.end(), [](const auto* one, const auto* other) {
    return std::pair(one->peak.value, one->objective) <
           std::pair(other->peak.value, other->objective);
  });
  for (const result::Strategy* one : all) {
    if (out.empty() || one->objective < out.back()->objective) {
      out.push_back(one);
    }
  }
  return out;
}

std::string brief_key(const std::string& key) {
  constexpr std::pair<const char*, const char*> kKnown[] = {
      {"parallelism.tensor", "tp"},
      {"parallelism.pipeline", "pp"},
      {"parallelism.virtual_pipeline", "vpp"},
      {"parallelism.data", "dp"},
      {"parallelism.context", "cp"},
      {"parallelism.expert", "ep"},
      {"parallelism.expert_tensor", "etp"},
      {"workload.micro_batch", "mbs"},
      {"parallelism.sequence_parallel", "sp"}};
  for (const auto& [whole, brief] : kKnown) {
    if (key == whole) {
      return brief;
    }
  }
  return key.substr(key.rfind('.') + 1);
}

namespace {

using result::Search;
using result::Strategy;

std::string counts_line(const result::SearchCounts& c, bool bounds_only = false) {
  const std::string alike =
      c.alike > 0 ? fmt::format(", {} the same job as another", thousands(c.alike)) : "";
  if (bounds_only) {
    return fmt::format(
        "{} combinations: {} impossible{}, {} bounded, of which {} too large (lower bound of "
        "memory "
        "above the capacity), {} skipped (others of the same layout are already slower)",
        thousands(c.candidates), thousands(c.impossible), alike, thousands(c.bounded),
        thousands(c.memory_pruned), thousands(c.time_pruned));
  }
  return fmt::format(
      "{} combinations: {} impossible{}, {} too large (lower bound of memory above the capacity), "
      "{} too slow (lower bound of time above the best), {} simulated, of which {} do not fit",
      thousands(c.candidates), thousands(c.impossible), alike, thousands(c.memory_pruned),
      thousands(c.time_pruned), thousands(c.simulated), thousands(c.misfit));
}

Record strategy_fields(const Strategy& s) {
  return {{"overrides", s.overrides},
          {"objective", s.objective},
          {"step_time", s.step_time},
          {"peak", s.peak},
          {"capacity", s.capacity},
          {"fits", fit_value(s.fits)},
          {"mfu", s.mfu},
          {"gpus", s.gpus},
          {"bubble_fraction", s.bubble_fraction},
          {"breakdown", object({{"compute", s.compute},
                                {"recompute", s.recompute},
                                {"exposed", s.exposed},
                                {"bubble", s.bubble},
                                {"other", s.other}})}};
}

Record front_fields(const result::FrontPoint& p) {
  return {{"memory", p.memory}, {"best", object(strategy_fields(p.best), false)}};
}

Record what_if_fields(const result::WhatIf& w) {
  return {{"change", w.change}, {"objective", w.objective}};
}

Record refusal_fields(const std::pair<std::string, std::int64_t>& refusal) {
  return {{"reason", refusal.first}, {"count", refusal.second}};
}

Record counts_fields(const result::SearchCounts& c) {
  return {{"candidates", c.candidates},
          {"impossible", c.impossible},
          {"alike", c.alike},
          {"memory_pruned", c.memory_pruned},
          {"time_pruned", c.time_pruned},
          {"simulated", c.simulated},
          {"misfit", c.misfit},
          {"bounded", c.bounded}};
}

// Figures of a strategy as columns of a terminal's table.
Record strategy_columns(const Search& search, const Strategy& s) {
  const auto share = [&](Time t) { return to_seconds(t) / s.step_time.value; };
  return {{"", objective_text(search, s.objective), "objective", Show::number},
          {"", s.objective / search.best.objective - 1, "to best", Show::change},
          {"", s.mfu, "MFU", Show::percent},
          {"", s.peak, "peak GiB", Show::gib},
          {"", fit_words(s.fits), "fits"},
          {"", share(s.exposed), "exposed", Show::percent},
          {"", share(s.bubble), "bubble", Show::percent}};
}

// A table of strategies under its title. The keys in which they differ are columns; overrides that
// all of them have are listed once above the table.
std::string strategies(const Search& search, const std::vector<Strategy>& all, const char* title,
                       const Captions& figures, const Paint& paint, int width) {
  std::vector<std::vector<std::string>> overrides;
  for (const Strategy& s : all) {
    overrides.push_back(s.overrides);
  }
  const OverrideColumns keys(overrides, true);
  std::vector<TextTable::Column> columns;
  for (const Pick& pick : figures) {
    columns.push_back({std::string(pick.heading)});
  }
  for (const std::string& key : keys.keys) {
    columns.push_back({brief_key(key), TextTable::Align::left});
  }
  TextTable table(std::move(columns));
  for (const Strategy& s : all) {
    std::vector<std::string> row = text_row(strategy_columns(search, s), figures);
    for (std::size_t k = 0; k < keys.keys.size(); ++k) {
      row.push_back(keys.value(s.overrides, k));
    }
    table.row(std::move(row));
  }
  const std::string alike = fmt::format("{}", fmt::join(keys.alike, " "));
  return "\n" + paint("1", title) + "\n" + (alike.empty() ? "" : item("all: " + alike, width)) +
         table.text(paint, width);
}

std::string of_memory(const Strategy& s) {
  return fmt::format("{} GiB of {} GiB", gibibytes(s.peak.value),
                     gibibytes(static_cast<double>(s.capacity.count())));
}

}  // namespace

Objective objective_of(const Search& s) {
  return s.objective == "cost"     ? Objective{"Cost of a step", "GPU-s", 1}
         : s.objective == "energy" ? Objective{"Energy of a step", "MJ", 1e-6}
                                   : Objective{"Step time", "s", 1};
}

std::string objective_text(const Search& s, double value) {
  const Objective o = objective_of(s);
  return s.objective == "cost" || s.objective == "energy"
             ? fmt::format("{} {}", significant(value * o.scale, 4), o.unit)
             : duration(value);
}

std::string proof_words(const Search& s) {
  const std::string known =
      s.bounds_only ? "a lower bound: nothing was simulated"
      : s.gap > 0
          ? fmt::format("not proven: another strategy may be up to {:.2f} % better", 100 * s.gap)
          : "proven: no strategy of the space is better";
  return s.stopped && (s.bounds_only || s.gap > 0) ? known + "; the time limit ended the search"
                                                   : known;
}

std::string terminal(const Search& search, bool colour, int width) {
  const Paint paint{colour};
  std::string out = opening(paint, conclusion(search), search.title, width);
  const auto line = [&](const std::string& text) { out += item(text, width); };
  if (!search.found) {
    line(search.stopped          ? "no strategy was found within the time limit; one may exist"
         : none_possible(search) ? "no combination of this space is possible for this job"
                                 : "no strategy of this space runs within memory");
    line(search.nearest);
    line(counts_line(search.counts, search.bounds_only));
    return out;
  }
  const Strategy& best = search.best;
  line(best.overrides.empty() ? std::string("best: the job as given, which is not in this space")
                              : fmt::format("best: {}", fmt::join(best.overrides, " ")));
  if (search.bounds_only) {
    line(fmt::format("at least {} a step and {}: nothing was simulated",
                     duration(best.step_time.value), of_memory(best)));
    line(counts_line(search.counts, true));
    out +=
        strategies(search, search.ranking, "Ranking",
                   {{"objective", "at least"}, "to best", {"peak GiB", "least GiB"}}, paint, width);
    if (!search.why.empty()) {
      out += "\n";
      line(search.why);
    }
    return out;
  }
  line(fmt::format("{} a step ({} to {}), MFU {}, {}", duration(best.step_time.value),
                   duration(best.step_time.low), duration(best.step_time.high), percent(best.mfu),
                   of_memory(best)));
  line(proof_words(search));
  line(counts_line(search.counts));
  std::vector<Strategy> front;
  for (const result::FrontPoint& p : search.front) {
    front.push_back(p.best);
  }
  out += strategies(search, search.ranking, "Ranking",
                    {"objective", "to best", "MFU", "peak GiB", "fits", "exposed", "bubble"}, paint,
                    width) +
         strategies(search, front, "Time against memory",
                    {{"peak GiB", "memory GiB"}, "objective", "to best"}, paint, width);
  if (!search.why.empty()) {
    out += "\n";
    line(search.why);
  }
  if (!search.against.empty()) {
    line(search.against);
  }
  for (const result::WhatIf& w : search.what_if) {
    line(fmt::format("{}: {} ({})", w.change, objective_text(search, w.objective),
                     signed_percent(w.objective / best.objective - 1)));
  }
  return out;
}

std::string json(const Search& search) {
  Record out = {{"schema", kFitSchema},
                {"conclusion", conclusion(search)},
                {"title", search.title},
                {"objective", search.objective},
                {"found", search.found},
                {"stopped", search.stopped},
                {"bounds_only", search.bounds_only}};
  if (search.found) {
    append(out, {{"gap", search.gap}, {"best", object(strategy_fields(search.best), false)}});
  } else {
    out.push_back({"nearest", search.nearest});
  }
  append(out, {{"ranking", blocks(search.ranking, strategy_fields)},
               {"front", blocks(search.front, front_fields)},
               {"why", search.why},
               {"stated", search.stated},
               {"against", search.against},
               {"what_if", rows(search.what_if, what_if_fields)},
               {"counts", object(counts_fields(search.counts))},
               {"refusals", rows(search.refusals, refusal_fields)}});
  return json_of(std::move(out));
}

}  // namespace stepcast::report
