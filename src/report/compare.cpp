// One job under many training systems: a table, and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "system_kind.h"
#include "text_table.h"

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

std::string share(double part, double whole) { return percent(whole > 0 ? part / whole : 0); }

std::string fit(const ComparedSystem& s) { return s.fits ? "yes" : "no"; }

// Of each kind: how many ran, how many fit, and the fastest that fits.
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
      out += fmt::format("  {:<17} {} of {} run it, {} fit{}\n", kind.name, ran, all, fits,
                         fastest != nullptr ? fmt::format("; fastest: {} ({})", fastest->name,
                                                          duration(fastest->step_time.value))
                                            : "");
    }
  }
  return out;
}

void estimate(JsonWriter& json, std::string_view key, const Estimate& e) {
  json.key(key).object(true);
  json.key("value").number(e.value).key("low").number(e.low).key("high").number(e.high);
  json.close();
}

}  // namespace

std::string terminal(const Comparison& comparison, bool colour, int width) {
  const Paint paint{colour};
  using Align = TextTable::Align;
  TextTable table({{"system", Align::left},
                   {"kind", Align::left},
                   {"step time (90 %)"},
                   {"MFU"},
                   {"exposed"},
                   {"bubble"},
                   {"peak GiB"},
                   {"fits"},
                   {"sharding", Align::left},
                   {"recompute", Align::left},
                   {"schedule", Align::left}});
  std::string refused;
  for (const ComparedSystem& s : comparison.systems) {
    if (s.ran) {
      table.row({s.name, std::string(name_of(s.kind)), with_interval(s.step_time),
                 percent(s.mfu.value), share(s.exposed, s.step_time.value),
                 percent(s.bubble_fraction), gibibytes(s.peak.value), fit(s), s.sharding,
                 s.recompute, s.schedule});
    } else {
      refused += "  " + pad_right(s.name, 19) + " " +
                 wrap(brief_reason(s.name, s.reason), width, 22) + "\n";
    }
  }
  std::string out = paint("1", comparison.title) + "\n" + table.text(paint, width);
  if (!refused.empty()) {
    out += "\n" + paint("1", "Not run") + "\n" + refused;
  }
  return out + "\n" + paint("1", "By kind") + "\n" + by_kind(comparison);
}

std::string json(const Comparison& comparison) {
  JsonWriter json;
  json.object();
  json.key("title").text(comparison.title);
  json.key("systems").array();
  for (const ComparedSystem& s : comparison.systems) {
    json.object();
    json.key("name").text(s.name).key("generation").text(s.generation);
    json.key("kind").text(name_of(s.kind)).key("ran").boolean(s.ran);
    if (!s.ran) {
      json.key("key").text(s.key).key("reason").text(s.reason);
      json.close();
      continue;
    }
    json.key("sharding").text(s.sharding).key("schedule").text(s.schedule);
    json.key("recompute").text(s.recompute);
    estimate(json, "step_time", s.step_time);
    estimate(json, "tokens_per_second_per_gpu", s.tokens_per_second_per_gpu);
    estimate(json, "mfu", s.mfu);
    estimate(json, "peak", s.peak);
    json.key("exposed").number(s.exposed).key("bubble_fraction").number(s.bubble_fraction);
    json.key("capacity").bytes(s.capacity).key("fits").boolean(s.fits);
    json.close();
  }
  json.close().close();
  return std::move(json).finish();
}

}  // namespace stepcast::report
