// Bus bandwidth over size: logarithmic sizes, a line per collective and placement with the band of
// its 90 % interval, measured points as rings. Colours follow the reader's light or dark theme.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../svg/plot.h"
#include "bus.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::CollectivePoint;
using result::CollectiveTable;

// Pixels.
constexpr double kBusLeft = 72, kBusTop = 64, kBusWidth = 720, kBusHeight = 360, kBusRight = 24,
                 kBusBelow = 56;

struct BusScale {
  double least_log = 0, most_log = 1;  // log2 of bytes
  double most = 1;                     // GB/s
  double x(double bytes) const {
    const double at = (std::log2(bytes) - least_log) / std::max(most_log - least_log, 1e-9);
    return kBusLeft + kBusWidth * at;
  }
  double y(double rate) const { return kBusTop + kBusHeight * (1 - rate / most); }
};

double bus_rate(const CollectiveTable& table, const CollectivePoint& p, double seconds) {
  return seconds > 0 ? bus_bandwidth(table, p.bytes, seconds) * 1e-9 : 0;
}

BusScale bus_scale(const std::vector<CollectiveTable>& tables) {
  BusScale s;
  double least = 0, most = 0, fastest = 0;
  for (const CollectiveTable& table : tables) {
    for (const CollectivePoint& p : table.points) {
      const auto bytes = static_cast<double>(p.bytes);
      least = least == 0 ? bytes : std::min(least, bytes);
      most = std::max(most, bytes);
      if (p.priced) {
        // A band without an upper edge (its low time is 0) must not flatten the lines.
        constexpr double kMaxBand = 1.6;
        const double mid = bus_rate(table, p, p.time.value);
        fastest =
            std::max({fastest, mid, std::min(bus_rate(table, p, p.time.low), kMaxBand * mid)});
      }
      fastest = std::max(fastest, bus_rate(table, p, p.measured));
    }
  }
  s.least_log = std::log2(std::max(least, 1.0));
  s.most_log = std::max(std::log2(std::max(most, 1.0)), s.least_log + 1);
  s.most = fastest > 0 ? fastest : 1;
  return s;
}

std::string placement(const CollectiveTable& table) {
  const std::size_t nodes = table.ranks_per_node.size();
  const bool even = std::all_of(table.ranks_per_node.begin(), table.ranks_per_node.end(),
                                [&](int n) { return n == table.ranks_per_node.front(); });
  const int ranks = ranks_of(table);
  return even && nodes > 0
             ? fmt::format("{} ranks ({} x {})", ranks, nodes, table.ranks_per_node.front())
             : fmt::format("{} ranks ({} nodes)", ranks, nodes);
}

std::string title(const std::vector<CollectiveTable>& tables) {
  if (tables.empty()) {
    return "no collective";
  }
  std::string text = tables.front().cluster;
  const bool one_op = std::all_of(tables.begin(), tables.end(),
                                  [&](const auto& t) { return t.op == tables.front().op; });
  const bool one_place = std::all_of(tables.begin(), tables.end(), [&](const auto& t) {
    return t.ranks_per_node == tables.front().ranks_per_node;
  });
  text += (text.empty() ? "" : ": ") + (one_op ? tables.front().op : std::string("collectives"));
  return text + (one_place ? " among " + placement(tables.front()) : "");
}

std::string axes(const BusScale& s) {
  const double right = kBusLeft + kBusWidth, bottom = kBusTop + kBusHeight;
  std::string out;
  for (const double tick : ticks(s.most)) {
    out += svg_line("grid", kBusLeft, s.y(tick), right, s.y(tick)) +
           svg_text(kBusLeft - 8, s.y(tick) + 4, fmt::format("{:g}", tick), "end") + "\n";
  }
  // Grid lines at powers of two, as far apart as their labels need.
  const int first = static_cast<int>(std::ceil(s.least_log - 1e-9));
  const int last = static_cast<int>(std::floor(s.most_log + 1e-9));
  constexpr int kLabels = 11;
  const int step = std::max(1, (last - first + kLabels - 1) / kLabels);
  for (int power = first; power <= last; power += step) {
    const double x = s.x(std::exp2(power));
    out += svg_line("grid", x, kBusTop, x, bottom) +
           svg_text(x, bottom + 18, power_of_two(power), "middle") + "\n";
  }
  return out + svg_text(kBusLeft + kBusWidth / 2, bottom + 40, "size", "middle") +
         svg_text(16, kBusTop - 12, "bus bandwidth, GB/s") + "\n";
}

std::vector<const CollectivePoint*> by_size(const CollectiveTable& table) {
  std::vector<const CollectivePoint*> out;
  for (const CollectivePoint& p : table.points) {
    out.push_back(&p);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto* a, const auto* b) { return a->bytes < b->bytes; });
  return out;
}

std::string curve(const CollectiveTable& table, const BusScale& s, const char* colour) {
  std::string line, above, below;
  const auto points = by_size(table);
  const auto at = [&](const CollectivePoint& p, double seconds) {
    const double top = bus_rate(table, p, seconds);
    // A low time of 0 gives a band without an upper edge.
    const double clipped = seconds > 0 ? std::min(top, s.most) : s.most;
    return fmt::format("{:.1f},{:.1f}", s.x(static_cast<double>(p.bytes)), s.y(clipped));
  };
  for (const auto* p : points) {
    if (p->priced) {
      line += at(*p, p->time.value) + " ";
      above += at(*p, p->time.low) + " ";
    }
  }
  for (auto p = points.rbegin(); p != points.rend(); ++p) {
    if ((*p)->priced) {
      below += at(**p, (*p)->time.high) + " ";
    }
  }
  if (line.empty()) {
    return "";
  }
  return fmt::format(
      "<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.18\"/>\n"
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
      "stroke-linejoin=\"round\"/>\n",
      above, below, colour, line, colour);
}

std::string dots(const CollectiveTable& table, const BusScale& s, const char* colour) {
  std::string out;
  for (const auto* p : by_size(table)) {
    const double measured = bus_rate(table, *p, p->measured);
    const double predicted = p->priced ? bus_rate(table, *p, p->time.value) : 0;
    if (measured <= 0 && predicted <= 0) {
      continue;
    }
    std::string tooltip = fmt::format("{} {} B:", table.op, p->bytes);
    if (predicted > 0) {
      tooltip +=
          fmt::format(" predicted {:.4g} GB/s ({} {})", predicted, p->algorithm, p->protocol);
    }
    if (measured > 0) {
      tooltip += fmt::format(" measured {:.4g} GB/s", measured);
    }
    const double x = s.x(static_cast<double>(p->bytes));
    if (measured > 0) {
      out += fmt::format(
          "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" stroke=\"{}\">{}</circle>\n",
          x, s.y(measured), colour, svg_title(tooltip));
    } else {
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\" fill=\"{}\">{}</circle>\n",
                         x, s.y(predicted), colour, svg_title(tooltip));
    }
  }
  return out;
}

std::string legend(const std::vector<CollectiveTable>& tables, double top) {
  const bool measured = std::any_of(tables.begin(), tables.end(), [](const auto& t) {
    return std::any_of(t.points.begin(), t.points.end(),
                       [](const CollectivePoint& p) { return p.measured > 0; });
  });
  const LegendPlace place{kBusLeft, top, 248, 30};
  std::string out;
  std::size_t i = 0;
  for (; i < tables.size(); ++i) {
    const std::string sign =
        fmt::format("<line x1=\"0\" y1=\"0\" x2=\"22\" y2=\"0\" stroke=\"{}\" stroke-width=\"3\"/>",
                    plot_colour(i));
    out += legend_entry(place, i, sign, tables[i].op + ", " + placement(tables[i]));
  }
  out +=
      legend_entry(place, i++, "<rect class=\"band\" x=\"0\" y=\"-6\" width=\"22\" height=\"12\"/>",
                   "predicted, 90 % interval");
  return measured ? out + legend_entry(place, i,
                                       "<circle class=\"dot ink\" cx=\"11\" cy=\"0\" r=\"3.5\"/>",
                                       "measured")
                  : out;
}

}  // namespace

std::string svg(const std::vector<CollectiveTable>& tables) {
  const BusScale s = bus_scale(tables);
  const double legend_top = kBusTop + kBusHeight + kBusBelow + 8;
  const double height = legend_top + legend_rows_height(tables.size() + 2);
  std::string out = plot_head(kBusLeft + kBusWidth + kBusRight, height, title(tables), 26);
  out += axes(s);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    out += curve(tables[i], s, plot_colour(i));
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    out += dots(tables[i], s, plot_colour(i));
  }
  return out + legend(tables, legend_top) + "</svg>\n";
}

}  // namespace stepcast::report
