#include "doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stepcast::forecast {
namespace {

result::DoubtKind kind_of(const cost::Curve& curve) {
  return curve.kind == cost::CurveKind::overlap   ? result::DoubtKind::overlap
         : curve.kind == cost::CurveKind::network ? result::DoubtKind::network
                                                  : result::DoubtKind::curve;
}

constexpr cost::Part part_of(program::Category c) {
  using program::Category;
  switch (c) {
    case Category::compute:
    case Category::recompute:
    case Category::optimizer:
    case Category::slowdown:
      return cost::Part::compute;
    case Category::expert:
      return cost::Part::expert;
    case Category::host:
      return cost::Part::host;
    default:
      return cost::Part::communication;
  }
}

// Seconds of the critical path by part; of `run`: the whole step.
std::array<double, cost::kParts> part_seconds(const program::Timeline& timeline) {
  std::array<double, cost::kParts> seconds{};
  for (std::size_t i = 0; i < timeline.path.size(); ++i) {
    seconds[static_cast<std::size_t>(part_of(static_cast<program::Category>(i)))] +=
        timeline.path[i];
  }
  seconds[static_cast<std::size_t>(cost::Part::run)] = to_seconds(timeline.period);
  return seconds;
}

constexpr const char* words(cost::Part part) {
  switch (part) {
    case cost::Part::compute:
      return "compute";
    case cost::Part::communication:
      return "communication";
    case cost::Part::expert:
      return "expert-parallel communication";
    case cost::Part::host:
      return "host time";
    case cost::Part::run:
      break;
  }
  return "variation from one run to the next";
}

// Adds what the simulation leaves out, except for parts that the deviations of a site include.
void add_structure(const Source& s, std::vector<result::Doubt>& out) {
  using cost::Part;
  using cost::SiteParameter;
  if (s.structure == nullptr) {
    return;
  }
  const auto seconds = part_seconds(*s.timeline);
  const auto sure = [&](SiteParameter p) { return s.site != nullptr && s.site->sure(p); };
  for (int i = 0; i < cost::kParts; ++i) {
    const auto part = static_cast<Part>(i);
    if ((sure(SiteParameter::clock) && (part == Part::compute || part == Part::run)) ||
        (sure(SiteParameter::fabric) && (part == Part::communication || part == Part::expert)) ||
        (sure(SiteParameter::launch) && part == Part::host)) {
      continue;
    }
    const bool run = part == Part::run;
    out.push_back({run ? words(part)
                       : fmt::format("unmodelled {} (fitted to {} published runs)", words(part),
                                     s.structure->runs),
                   run ? result::DoubtKind::run : result::DoubtKind::model,
                   "structure.yaml: " + s.structure->source, seconds[i],
                   s.structure->deviation[static_cast<std::size_t>(i)]});
  }
}

constexpr cost::Part part_of(cost::TimeReach reach) {
  switch (reach) {
    case cost::TimeReach::compute:
      return cost::Part::compute;
    case cost::TimeReach::communication:
      return cost::Part::communication;
    case cost::TimeReach::expert:
      return cost::Part::expert;
    case cost::TimeReach::step:
      break;
  }
  return cost::Part::run;
}

// Adds the keys of the job whose values are assumed.
void add_open(const Source& s, std::vector<result::Doubt>& out) {
  const auto seconds = part_seconds(*s.timeline);
  for (const OpenKey& open : s.open) {
    for (const auto& [reach, word] : spellings(cost::TimeReach{})) {
      out.push_back({fmt::format("{}, whose value is assumed ({})", open.key, word),
                     result::DoubtKind::open, "open.yaml: " + open.fact->source,
                     seconds[static_cast<std::size_t>(part_of(reach))],
                     open.fact->time[static_cast<std::size_t>(reach)]});
    }
  }
}

}  // namespace

void average_shapes(const std::vector<cost::Curve>& curves, program::World& world) {
  // Two GEMMs of attention and two of the MLP; the three passes of each are assumed to have the
  // same error. A level that is taken from a data sheet errs for all shapes alike.
  constexpr double kProducts = 4;
  for (std::size_t i = 0; i < curves.size() && i < world.curves.size(); ++i) {
    if (curves[i].kind == cost::CurveKind::gemm && curves[i].file != "datasheet") {
      world.curves[i].residual /= std::sqrt(kProducts);
    }
  }
}

std::vector<result::Doubt> doubts_of(const Source& s) {
  std::vector<result::Doubt> out;
  const auto seconds = curve_seconds(*s.world, *s.timeline);
  for (const std::size_t i : used_curves(*s.curves, seconds)) {
    const cost::Curve& c = (*s.curves)[i];
    out.push_back({c.name, kind_of(c), c.file + ": " + c.provenance, seconds[i],
                   s.world->curves[i].residual});
  }
  add_structure(s, out);
  add_open(s, out);
  if (s.site != nullptr && s.site->site != nullptr) {
    const double step = to_seconds(s.timeline->period);
    const double of_site = deviation(*s.site, s.site_seconds, s.site_scatter);
    out.push_back({"the site's factors and the scatter of its steps", result::DoubtKind::site,
                   s.site->site->file + ": " + s.site->site->provenance, step,
                   step > 0 ? of_site / step : 0});
  }
  std::erase_if(out, [](const result::Doubt& d) { return !(std::abs(d.added()) > 0); });
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::abs(a.added()) > std::abs(b.added());
  });
  return out;
}

double deviation(const std::vector<result::Doubt>& doubts) {
  double variance = 0;
  for (const result::Doubt& d : doubts) {
    variance += d.added() * d.added();
  }
  return std::sqrt(variance);
}

std::vector<result::CurveShare> curve_shares(const Source& s) {
  std::vector<result::CurveShare> out;
  const auto seconds = curve_seconds(*s.world, *s.timeline);
  for (const std::size_t i : used_curves(*s.curves, seconds)) {
    if (seconds[i] > 0) {
      out.push_back({(*s.curves)[i].name, (*s.curves)[i].file, seconds[i]});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return out;
}

std::vector<result::PathShare> path_shares(const program::Timeline& timeline) {
  std::vector<result::PathShare> out;
  for (std::size_t i = 0; i < timeline.path.size(); ++i) {
    if (timeline.path[i] > 0) {
      out.push_back({to_string(static_cast<program::Category>(i)), timeline.path[i]});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace stepcast::forecast
