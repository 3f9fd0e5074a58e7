// One job under many training systems: a table, and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "../presets/system_kind.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "../words/sentences.h"
#include "compare_conclusion.h"
#include "compare_fields.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::ComparedSystem;
using result::Comparison;
using result::Estimate;

// "1.23 s (1.15 to 1.34)" in the unit of the value.
std::string with_interval(const Estimate& e) {
  const TimeUnit unit = unit_for(e.value);
  const auto in_unit = [&](double v) { return significant(v * unit.per_second, 4); };
  return fmt::format("{} {} ({} to {})", in_unit(e.value), unit.name, in_unit(e.low),
                     in_unit(e.high));
}

// For each kind of system: how many ran, how many fit, and the fastest that fits.
std::string by_kind(const Comparison& c) {
  std::string out;
  for (const SystemKind& kind : kSystemKinds) {
    int all = 0, ran = 0, fits = 0;
    const ComparedSystem* fastest = nullptr;
    for (const ComparedSystem& s : c.systems) {
      if (s.kind != kind.kind) {
        continue;
      }
      ++all;
      ran += s.ran ? 1 : 0;
      if (s.ran && s.fits) {
        ++fits;
        fastest = fastest == nullptr ? &s : fastest;  // sorted by step time
      }
    }
    if (all > 0) {
      out += fmt::format(
          "  {:<17} {} of {} run the job, {} fit in memory{}\n", kind.name, ran, all, fits,
          fastest != nullptr
              ? fmt::format("; fastest: {} ({})", fastest->name, duration(fastest->step_time.value))
              : "");
    }
  }
  return out;
}

}  // namespace

Record compared_fields(const ComparedSystem& s) {
  Record out = {{"name", s.name, "system", Show::text, s.generation, s.ran && !s.fits},
                {"generation", s.generation},
                {"kind", name_of(s.kind), "kind"},
                {"ran", s.ran}};
  if (!s.ran) {
    append(out, {{"key", s.key, "key"},
                 {"reason", s.reason},
                 {"", brief_reason(s.name, s.reason), "why", Show::prose}});
    return out;
  }
  const double step = s.step_time.value;
  append(out,
         {
             {"sharding", s.sharding, "sharding"},
             {"schedule", s.schedule, "schedule"},
             {"recompute", s.recompute, "recompute"},
             {"step_time", s.step_time, "step time", Show::duration},
             {"", with_interval(s.step_time), "step time (90 %)", Show::number},
             {"tokens_per_second_per_gpu", s.tokens_per_second_per_gpu, "tokens/s/GPU", Show::four},
             {"mfu", s.mfu, "MFU", Show::percent},
             {"peak", s.peak, "peak GiB", Show::gib},
             {"exposed", s.exposed},
             {"", step > 0 ? s.exposed / step : 0, "exposed", Show::percent},
             {"bubble_fraction", s.bubble_fraction, "bubble", Show::percent},
             {"capacity", s.capacity, "of GiB", Show::gib},
             {"fits", fit_value(s.fits)},
             {"", fit_words(s.fits), "fits", Show::text, "", !s.fits},
         });
  return out;
}

std::string terminal(const Comparison& comparison, bool colour, int width) {
  const Paint paint{colour};
  std::vector<ComparedSystem> ran;
  std::string refused;
  for (const ComparedSystem& s : comparison.systems) {
    if (s.ran) {
      ran.push_back(s);
    } else {
      refused += "  " + pad_right(s.name, 19) + " " +
                 wrap(brief_reason(s.name, s.reason), width, 22) + "\n";
    }
  }
  ComparedSystem none;
  none.ran = true;
  const TextTable table =
      text_table(compared_fields(none), records(ran, compared_fields),
                 {"system", "kind", "step time (90 %)", "MFU", "exposed", "bubble", "peak GiB",
                  "fits", "sharding", "recompute", "schedule"});
  std::string out =
      opening(paint, conclusion(comparison), comparison.title, width) + table.text(paint, width);
  if (!refused.empty()) {
    out += "\n" + paint("1", "Not run") + "\n" + refused;
  }
  return out + "\n" + paint("1", "By kind") + "\n" + by_kind(comparison);
}

std::string json(const Comparison& comparison) {
  return json_of({{"schema", kFitSchema},
                  {"conclusion", conclusion(comparison)},
                  {"title", comparison.title},
                  {"systems", blocks(comparison.systems, compared_fields)}});
}

}  // namespace stepcast::report
