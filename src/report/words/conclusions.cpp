#include "conclusions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "../forecast/forecast_conclusion.h"

namespace stepcast::report {
namespace {

using result::PlannedCluster;
using result::SweepPoint;

std::string counted(std::size_t n, const char* one) {
  return fmt::format("{} {}{}", thousands(static_cast<std::int64_t>(n)), one, n == 1 ? "" : "s");
}

// "12 % less than NAME", "2.3 times that of NAME"; "the same as NAME" where both are the same to
// a per mille. `noun`: what is less: "time ".
std::string beside(double value, double base, const char* noun, const std::string& name) {
  const double ratio = base > 0 ? value / base : 1;
  constexpr double kSame = 0.0005;
  if (std::abs(ratio - 1) < kSame) {
    return fmt::format("the same {}as {}", noun, name);
  }
  return ratio >= 2 ? fmt::format("{} times that of {}", significant(ratio, 3), name)
                    : fmt::format("{} % {} {}than {}", significant(100 * std::abs(ratio - 1), 2),
                                  ratio < 1 ? "less" : "more", noun, name);
}

}  // namespace

std::string opening(const Paint& paint, const std::string& sentence, const std::string& title,
                    int width) {
  return paint("1", wrap(sentence, width, 0)) + "\n\n" + title + "\n";
}

std::string conclusion(const result::MemoryTimeline& memory) {
  if (memory.stages.empty()) {
    return "Nothing is held.";
  }
  const auto most = std::max_element(
      memory.stages.begin(), memory.stages.end(),
      [](const auto& a, const auto& b) { return a.process.count() < b.process.count(); });
  const auto largest = std::max_element(most->peak.begin(), most->peak.end());
  std::string what;
  if (*largest > 0 && most->allocated.count() > 0) {
    const auto category = static_cast<program::MemoryCategory>(largest - most->peak.begin());
    what = fmt::format(" ({} % {})",
                       significant(100.0 * static_cast<double>(*largest) /
                                       static_cast<double>(most->allocated.count()),
                                   2),
                       to_string(category));
  }
  return fmt::format("Memory peaks at {} of {} GiB on stage {}{}; {}.",
                     gibibytes(static_cast<double>(most->process.count())),
                     gibibytes(static_cast<double>(memory.capacity.count())), most->stage, what,
                     fit_clause(memory.fits));
}

namespace {

// The overrides of the best strategy in which the ranked ones differ.
std::vector<std::string> choices(const result::Search& s) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < s.best.overrides.size(); ++i) {
    const bool varies =
        std::any_of(s.ranking.begin(), s.ranking.end(), [&](const result::Strategy& other) {
          return i < other.overrides.size() && other.overrides[i] != s.best.overrides[i];
        });
    if (varies) {
      const std::string& key = s.best.overrides[i];
      const auto equals = key.find('=');
      out.push_back(key.substr(key.rfind('.', equals) + 1));
    }
  }
  constexpr std::size_t kMost = 5;
  out.resize(std::min(out.size(), kMost));
  return out;
}

}  // namespace

std::string conclusion(const result::Search& s) {
  const std::size_t n = static_cast<std::size_t>(s.counts.candidates - s.counts.impossible);
  if (!s.found) {
    return fmt::format(
        "{} of the {} runs within memory{}{}.",
        s.stopped ? "Within the time limit no strategy was found that" : "None",
        s.stopped ? "space"
                  : fmt::format("{} possible strategies", thousands(static_cast<std::int64_t>(n))),
        s.nearest.empty() ? "" : ": ", s.nearest);
  }
  const std::vector<std::string> chosen = choices(s);
  std::string out =
      fmt::format("{} is {} of {} possible: {}{} a step",
                  chosen.empty() ? "This strategy" : fmt::format("{}", fmt::join(chosen, " ")),
                  s.bounds_only             ? "the one of the least bound"
                  : s.objective == "cost"   ? "the cheapest"
                  : s.objective == "energy" ? "the one of least energy"
                                            : "the fastest",
                  thousands(static_cast<std::int64_t>(n)), s.bounds_only ? "at least " : "",
                  duration(s.best.step_time.value));
  if (s.best.mfu > 0 && !s.bounds_only) {
    out += fmt::format(" at {} MFU", percent(s.best.mfu));
  }
  if (s.stated > 0 && !s.bounds_only) {
    const char* const noun = s.objective == "cost"     ? "cost "
                             : s.objective == "energy" ? "energy "
                                                       : "time ";
    out += ", " + beside(s.best.objective, s.stated, noun, "the job as given");
  }
  if (s.bounds_only) {
    return out + "; nothing was simulated.";
  }
  out += "; " + fit_clause(s.best.fits);
  return out + (s.gap > 0 ? fmt::format("; another may be up to {:.2f} % better.", 100 * s.gap)
                          : "; no other is better.");
}

std::string conclusion(const result::Sweep& s) {
  const SweepPoint* fastest = nullptr;
  const SweepPoint* cheapest = nullptr;
  std::size_t ran = 0;
  std::size_t fit = 0;
  for (const SweepPoint& p : s.points) {
    ran += p.ran ? 1 : 0;
    if (!p.ran || !p.fits) {
      continue;
    }
    ++fit;
    if (fastest == nullptr || p.step_time.value < fastest->step_time.value) {
      fastest = &p;
    }
    if (cheapest == nullptr || p.gpu_hours_per_gigatoken < cheapest->gpu_hours_per_gigatoken) {
      cheapest = &p;
    }
  }
  const std::size_t all = s.points.size();
  if (fastest == nullptr) {
    return fmt::format("None of the {} fits: {} too large, {} impossible.", counted(all, "point"),
                       thousands(static_cast<std::int64_t>(ran - fit)),
                       thousands(static_cast<std::int64_t>(all - ran)));
  }
  const auto named = [](const SweepPoint& p) {
    return fmt::format("{}", fmt::join(p.overrides, " "));
  };
  std::string out =
      fmt::format("{} is the fastest of {}: {} a step at {} MFU", named(*fastest),
                  fit == 1 ? "1 point that fits"
                           : thousands(static_cast<std::int64_t>(fit)) + " points that fit",
                  duration(fastest->step_time.value), percent(fastest->mfu.value));
  constexpr double kWorthNaming = 0.99;
  if (cheapest->gpu_hours_per_gigatoken < kWorthNaming * fastest->gpu_hours_per_gigatoken) {
    out += fmt::format(
        "; {} takes the fewest GPU-hours, {} % less a token", named(*cheapest),
        significant(
            100 * (1 - cheapest->gpu_hours_per_gigatoken / fastest->gpu_hours_per_gigatoken), 2));
  }
  if (fit < all) {
    out += fmt::format("; {} too large, {} impossible",
                       thousands(static_cast<std::int64_t>(ran - fit)),
                       thousands(static_cast<std::int64_t>(all - ran)));
  }
  return out + ".";
}

namespace {

std::string offer(const result::Plan& p, const PlannedCluster& c) {
  std::string out =
      fmt::format("{} {} of {} ({} {}): {} days", c.bought ? "buy" : "rent",
                  counted(static_cast<std::size_t>(c.nodes), "node"), c.name, thousands(c.gpus),
                  c.chips ? "chips" : "GPUs", significant(c.days.value, 3));
  if (c.priced) {
    out += fmt::format(", {} {}", money(c.cost.value), p.currency);
    // A purchase is used for more than this run.
    out += c.bought ? fmt::format(" for this run, {} {} to buy", money(c.capital), p.currency) : "";
  }
  const bool unsure = std::any_of(c.figures.begin(), c.figures.end(), [](const auto& f) {
    return (f.name == "rent" || f.name == "purchase") &&
           f.source.find("unverified") != std::string::npos;
  });
  return out + (unsure ? " (price unverified: check it)" : "");
}

// Share of the seconds that follow from curves above which they are "most" of them: more than all
// other curves together.
constexpr double kMajority = 0.5;

// Whether most of what follows from curves follows from the device's data sheet.
bool unmeasured(const PlannedCluster& c) {
  return std::any_of(c.basis.begin(), c.basis.end(), [](const result::PlanBasis& b) {
    return b.file == "datasheet" && b.share > kMajority;
  });
}

// A winner that rests on a data sheet stands beside the best that rests on measurements.
std::string doubt(const result::Plan& p, const PlannedCluster& best) {
  if (!unmeasured(best)) {
    return "";
  }
  std::string out = fmt::format(" Most kernels of {} were not measured: {} to {} days", best.device,
                                significant(best.days.low, 3), significant(best.days.high, 3));
  const auto measured =
      std::find_if(p.clusters.begin(), p.clusters.end(), [&](const PlannedCluster& c) {
        return c.meets && c.bought == best.bought && !unmeasured(c);
      });
  if (measured != p.clusters.end()) {
    out += "; of measured devices the best is to " + offer(p, *measured);
  }
  return out + ".";
}

std::string missed(const result::Shortfall& s) {
  return s.limit == result::PlanLimit::deadline
             ? fmt::format("{} days too late", significant(s.by, 2))
             : s.text;
}

}  // namespace

std::string conclusion(const result::Plan& p) {
  const auto meeting = static_cast<std::size_t>(
      std::count_if(p.clusters.begin(), p.clusters.end(), [](const auto& c) { return c.meets; }));
  if (meeting == 0) {
    const auto near = std::find_if(p.clusters.begin(), p.clusters.end(),
                                   [](const auto& c) { return c.simulated; });
    std::string out =
        fmt::format("None of the {} meets the limits", counted(p.clusters.size(), "offer"));
    if (near != p.clusters.end() && !near->shortfalls.empty()) {
      out += fmt::format("; {} comes nearest: {}", near->name, missed(near->shortfalls.front()));
    }
    return out + ".";
  }
  std::vector<std::string> best;
  std::string doubts;
  for (const bool bought : {false, true}) {
    const auto found = std::find_if(p.clusters.begin(), p.clusters.end(),
                                    [&](const auto& c) { return c.meets && c.bought == bought; });
    if (found != p.clusters.end()) {
      best.push_back(offer(p, *found));
      doubts += doubt(p, *found);
    }
  }
  std::string out = fmt::format("{}; {} of {} within the limits.", fmt::join(best, ", or "),
                                meeting, counted(p.clusters.size(), "offer"));
  out.front() = best.front().front() == 'b' ? 'B' : 'R';
  return out + doubts;
}

std::string conclusion(const result::Comparison& c) {
  std::vector<const result::ComparedSystem*> fit;
  std::size_t too_large = 0;
  std::size_t refused = 0;
  for (const result::ComparedSystem& s : c.systems) {
    if (s.ran && s.fits) {
      fit.push_back(&s);
    }
    too_large += s.ran && !s.fits ? 1 : 0;
    refused += s.ran ? 0 : 1;
  }
  std::string out;
  if (fit.empty()) {
    out = fmt::format("The job fits under none of the {}", counted(c.systems.size(), "system"));
  } else {
    out = fmt::format(
        "{} is the fastest of {}: {} a step at {} MFU", fit.front()->name,
        fit.size() == 1 ? "1 system that fits" : fmt::format("{} systems that fit", fit.size()),
        duration(fit.front()->step_time.value), percent(fit.front()->mfu.value));
    if (fit.size() > 1) {
      out += fmt::format("; {} takes {}", fit[1]->name,
                         beside(fit[1]->step_time.value, fit[0]->step_time.value, "", "that"));
    }
  }
  if (too_large + refused > 0) {
    out += fmt::format("; {} too large, {} cannot run it", too_large, refused);
  }
  return out + ".";
}

std::string conclusion(const result::Goodput& g) {
  std::string out =
      fmt::format("Training is {} of {} days", percent(g.effective.value), significant(g.days, 4));
  const auto largest =
      std::max_element(g.losses.begin(), g.losses.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest != g.losses.end() && largest->second > 0) {
    out += fmt::format("; most of the rest is {} ({})", largest->first, percent(largest->second));
  }
  constexpr double kHour = 3'600;
  constexpr double kDay = 24 * kHour;
  const double every = g.mean_time_between_failures;
  if (g.interruptions.value > 0) {
    out += fmt::format("; a failure interrupts it every {}",
                       every < 2 * kDay ? significant(every / kHour, 3) + " hours"
                                        : significant(every / kDay, 3) + " days");
  }
  if (g.training_days.value > 0) {
    out += fmt::format("; all tokens take {} days", significant(g.training_days.value, 3));
  }
  return out + ".";
}

std::string conclusion(const result::Explanation& e) {
  const double step = e.step_time.value;
  std::string out = fmt::format("{} a step, {} to {} in nine of ten cases", duration(step),
                                duration(e.step_time.low), duration(e.step_time.high));
  if (e.measured) {
    const double gap = step > 0 ? e.measured->seconds / step - 1 : 0;
    out = fmt::format(
        "The measured {} is {} {} the forecast of {}, {}", duration(e.measured->seconds),
        percent(std::abs(gap)), gap < 0 ? "below" : "above", duration(step),
        e.measured->inside ? "inside its interval: they agree"
                           : fmt::format("{:.1f} deviations off: more than the forecast's doubts",
                                         std::abs(e.measured->deviations)));
  }
  for (const result::TraceExplanation& p : e.profiles) {
    if (!p.rows.empty()) {
      const result::TraceDifference& d = p.rows.front();
      const double by = to_seconds(d.measured) - to_seconds(d.forecast);
      out = fmt::format(
          "The profiled step takes {} and the forecast {}; the largest difference is "
          "{} {} ({}{})",
          duration(to_seconds(p.measured)), duration(to_seconds(p.forecast)), d.phase, d.what,
          by < 0 ? "-" : "+", duration(std::abs(by)));
      break;
    }
  }
  if (!e.doubts.empty()) {
    out += fmt::format("; the largest doubt is '{}' ({} of the variance)",
                       e.doubts.front().doubt.name, percent(e.doubts.front().variance));
  }
  return out + ".";
}

namespace {

// Parts of a profiled step, the largest first.
std::vector<std::pair<double, const char*>> parts_of(const result::TraceShare& s) {
  const double span = std::max(1e-12, to_seconds(s.span));
  std::vector<std::pair<double, const char*>> out = {
      {to_seconds(s.compute) / span, "compute"},
      {to_seconds(s.communication) / span, "exposed communication"},
      {to_seconds(s.copy) / span, "exposed copies"},
      {to_seconds(s.host_bound) / span, "waiting for the host's launches"},
      {to_seconds(s.idle) / span, "idle"}};
  std::stable_sort(out.begin() + 1, out.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return out;
}

}  // namespace

std::string conclusion(const result::TraceProfile& p) {
  for (const result::TraceRank& r : p.ranks) {
    for (const result::TraceDevice& d : r.devices) {
      result::TraceShare sum;
      for (const result::TraceStep& s : d.steps) {
        sum.span += s.share.span;
        sum.compute += s.share.compute;
        sum.communication += s.share.communication;
        sum.copy += s.share.copy;
        sum.host_bound += s.share.host_bound;
        sum.idle += s.share.idle;
      }
      const auto n = static_cast<double>(std::max<std::size_t>(1, d.steps.size()));
      const result::TraceShare& all = d.steps.empty() ? d.share : sum;
      if (all.span == Time(0)) {
        continue;
      }
      const auto parts = parts_of(all);
      std::vector<std::string> named;
      constexpr double kWorthNaming = 0.01;
      for (std::size_t i = 1; i < parts.size() && named.size() < 3; ++i) {
        if (parts[i].first >= kWorthNaming) {
          named.push_back(fmt::format("{:.0f} % {}", 100 * parts[i].first, parts[i].second));
        }
      }
      std::string out =
          fmt::format("{}{}: {:.0f} % of it computes", duration(to_seconds(all.span) / n),
                      d.steps.empty() ? " of profile" : " a step", 100 * parts[0].first);
      if (!named.empty()) {
        out += fmt::format(", {}", fmt::join(named, ", "));
      }
      if (p.ranks.size() > 1) {
        out += fmt::format(" (the first of {} ranks)", p.ranks.size());
      }
      return out + ".";
    }
  }
  return "No device did anything in this profile.";
}

std::string conclusion(const result::Validation& v) {
  std::vector<double> errors;
  const result::ValidationRow* worst = nullptr;
  std::size_t inside = 0;
  std::size_t left = 0;
  std::size_t too_large = 0;
  std::size_t open = 0;  // fit with full recomputation alone, which their sources do not state
  for (const result::ValidationRow& r : v.rows) {
    if (!r.primary) {
      continue;
    }
    left += r.status == "skipped" ? 1 : 0;
    too_large += r.status == "oom" ? 1 : 0;
    open += r.status == "open" ? 1 : 0;
    if (r.status != "ok") {
      continue;
    }
    errors.push_back(std::abs(r.error));
    inside += r.published >= r.low && r.published <= r.high ? 1 : 0;
    if (worst == nullptr || std::abs(r.error) > std::abs(worst->error)) {
      worst = &r;
    }
  }
  if (errors.empty()) {
    return fmt::format("None of the {} could be forecast.", counted(v.rows.size(), "measurement"));
  }
  std::sort(errors.begin(), errors.end());
  const double median = errors.size() % 2 == 1
                            ? errors[errors.size() / 2]
                            : (errors[errors.size() / 2 - 1] + errors[errors.size() / 2]) / 2;
  std::string out = fmt::format(
      "Half of the {} are forecast within {}, {} inside their 90 % interval; the worst is {} ({})",
      counted(errors.size(), "measurement"), percent(median),
      percent(static_cast<double>(inside) / static_cast<double>(errors.size())), worst->id,
      signed_percent(worst->error));
  if (left + too_large + open > 0) {
    out += fmt::format("; {} left out, {} called too large", left, too_large);
  }
  if (open > 0) {
    out += fmt::format(", {} too large unless recomputed in full, which {} not state", open,
                       open == 1 ? "its source does" : "their sources do");
  }
  return out + ".";
}

std::string conclusion(const Diff& d) {
  const auto figure = [&](const char* name) {
    return std::find_if(d.figures.begin(), d.figures.end(),
                        [&](const Diff::Figure& f) { return f.name == name; });
  };
  const auto step = figure("step time");
  std::string out;
  if (step != d.figures.end()) {
    out = fmt::format("{} takes {} a step, {}", d.b, duration(step->b),
                      beside(step->b, step->a, "", d.a));
  } else {
    out = fmt::format("{} against {}", d.b, d.a);
  }
  return out + (d.keys.empty()
                    ? "; the jobs are the same."
                    : fmt::format("; {} of the job differ{}.", counted(d.keys.size(), "key"),
                                  d.keys.size() == 1 ? "s" : ""));
}

}  // namespace stepcast::report
