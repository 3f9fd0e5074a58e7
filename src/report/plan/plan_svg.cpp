// A plan as a picture: the days of each cluster's run against its cost, rented and bought apart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../svg/plot.h"
#include "../text/format.h"
#include "plan_words.h"
#include "stepcast/report/plan.h"

namespace stepcast::report {
namespace {

using result::Plan;
using result::PlannedCluster;

// Pixels.
constexpr double kOfferLeft = 74, kOfferTop = 92, kOfferWidth = 780, kOfferHeight = 400,
                 kOfferBelow = 52, kOfferApart = 14, kOfferLetter = 6.2;
constexpr double kOfferMillion = 1e6;
constexpr const char* kRented = "#0072b2";
constexpr const char* kBought = "#d55e00";

struct OfferDot {
  const PlannedCluster* cluster;
  double x, y;  // pixels
};

double offer_days(const PlannedCluster& c) { return c.days.value + c.wait_days; }

bool is_drawn(const PlannedCluster& c) {
  return c.simulated && c.fits && c.priced && c.cost.value > 0;
}

std::string offer_mark(const OfferDot& dot, const Plan& plan) {
  const PlannedCluster& c = *dot.cluster;
  const char* colour = c.bought ? kBought : kRented;
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" stroke=\"{}\" {}>{}</circle>\n", dot.x, dot.y,
      colour, c.meets ? fmt::format("fill=\"{}\"", colour) : std::string("class=\"dot\""),
      svg_title(fmt::format("{}: {} days, {} {}; {}{}", c.name, significant(offer_days(c), 3),
                            money(c.cost.value), plan.currency, strategy_line(c),
                            c.meets ? "" : "; " + lacks_line(c))));
}

// Names beside the dots, as far as they cover no other name and leave no frame.
std::string offer_names(const std::vector<OfferDot>& dots, const PlotFrame& f) {
  struct Box {
    double left, right, y;
  };
  std::vector<Box> taken;
  for (const OfferDot& dot : dots) {
    taken.push_back({dot.x - 5, dot.x + 5, dot.y + 4});
  }
  const auto is_free = [&](const Box& b) {
    return b.left > f.left && b.right < f.left + f.width &&
           std::none_of(taken.begin(), taken.end(), [&](const Box& t) {
             return b.left < t.right && t.left < b.right && std::abs(t.y - b.y) < kOfferApart;
           });
  };
  std::string out;
  for (const OfferDot& dot : dots) {
    const double wide = kOfferLetter * static_cast<double>(dot.cluster->name.size());
    const Box right{dot.x + 8, dot.x + 8 + wide, dot.y + 4};
    const Box left{dot.x - 8 - wide, dot.x - 8, dot.y + 4};
    for (const bool to_the_right : {true, false}) {
      const Box& box = to_the_right ? right : left;
      if (is_free(box)) {
        taken.push_back(box);
        out += svg_text(to_the_right ? box.left : box.right, box.y, dot.cluster->name,
                        to_the_right ? "" : "end") +
               "\n";
        break;
      }
    }
  }
  return out;
}

}  // namespace

std::string svg(const Plan& plan) {
  std::vector<double> days, cost;
  for (const PlannedCluster& c : plan.clusters) {
    if (is_drawn(c)) {
      days.push_back(offer_days(c));
      cost.push_back(c.cost.value / kOfferMillion);
    }
  }
  const bool any = !days.empty();
  if (any && plan.limits.days > 0) {
    days.push_back(plan.limits.days);
  }
  const PlotFrame f{
      kOfferLeft,           kOfferTop, kOfferWidth, kOfferHeight, scale_of(days, false),
      scale_of(cost, false)};
  const double bottom = kOfferTop + kOfferHeight;
  std::string out = plot_head(kOfferLeft + kOfferWidth + 30, bottom + kOfferBelow, plan.title, 26);
  out += svg_key(whole(kOfferLeft), whole(44), kRented, "rented", 18) +
         svg_key(whole(kOfferLeft + 90), whole(44), kBought, "bought", 18) +
         svg_text(whole(kOfferLeft + 180), whole(54), "hollow: misses a limit") + "\n";
  if (!any) {
    return out +
           svg_text(whole(kOfferLeft), whole(kOfferTop + 30), "no cluster with a price runs it") +
           "\n</svg>\n";
  }
  out += grid(f, labelled(ticks(f.x)), labelled(ticks(f.y)), "days",
              fmt::format("million {}", plan.currency));
  if (plan.limits.days > 0) {
    const double x = f.px(plan.limits.days);
    out +=
        fmt::format("<path class=\"ink\" stroke-dasharray=\"5 4\" d=\"M{:.1f} {:.0f}V{:.0f}\"/>\n",
                    x, kOfferTop, bottom) +
        svg_text(x + 5, whole(kOfferTop + 12), "deadline") + "\n";
  }
  std::vector<OfferDot> dots;
  for (const PlannedCluster& c : plan.clusters) {
    if (is_drawn(c)) {
      dots.push_back({&c, f.px(offer_days(c)), f.py(c.cost.value / kOfferMillion)});
      out += offer_mark(dots.back(), plan);
    }
  }
  return out + offer_names(dots, f) + "</svg>\n";
}

}  // namespace stepcast::report
