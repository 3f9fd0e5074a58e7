// Bus bandwidth over size: logarithmic sizes, a line per collective and placement with the band of
// its 90 % interval, measured points as rings. Colours follow the reader's light or dark theme.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bus.h"
#include "plot.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::CollectivePoint;
using result::CollectiveTable;

// Pixels.
constexpr double kLeft = 72, kTop = 64, kWidth = 720, kHeight = 360, kRight = 24, kBelow = 56;
constexpr double kLegendRow = 20, kLegendColumn = 248;

struct Scale {
  double least_log = 0, most_log = 1;  // log2 of bytes
  double most = 1;                     // GB/s
  double x(double bytes) const {
    const double at = (std::log2(bytes) - least_log) / std::max(most_log - least_log, 1e-9);
    return kLeft + kWidth * at;
  }
  double y(double rate) const { return kTop + kHeight * (1 - rate / most); }
};

double rate(const CollectiveTable& table, const CollectivePoint& p, double seconds) {
  return seconds > 0 ? bus_bandwidth(table, p.bytes, seconds) * 1e-9 : 0;
}

Scale scale_of(const std::vector<CollectiveTable>& tables) {
  Scale s;
  double least = 0, most = 0, fastest = 0;
  for (const CollectiveTable& table : tables) {
    for (const CollectivePoint& p : table.points) {
      const auto bytes = static_cast<double>(p.bytes);
      least = least == 0 ? bytes : std::min(least, bytes);
      most = std::max(most, bytes);
      if (p.priced) {
        // A band that is open above (low time of nothing) must not flatten the lines.
        constexpr double kMostBand = 1.6;
        const double mid = rate(table, p, p.time.value);
        fastest = std::max({fastest, mid, std::min(rate(table, p, p.time.low), kMostBand * mid)});
      }
      fastest = std::max(fastest, rate(table, p, p.measured));
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

std::string axes(const Scale& s) {
  std::string out;
  for (const double tick : ticks(s.most)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLeft, s.y(tick), kLeft + kWidth, kLeft - 8, s.y(tick) + 4, tick);
  }
  // Powers of two, as far apart as their labels need.
  const int first = static_cast<int>(std::ceil(s.least_log - 1e-9));
  const int last = static_cast<int>(std::floor(s.most_log + 1e-9));
  constexpr int kLabels = 11;
  const int step = std::max(1, (last - first + kLabels - 1) / kLabels);
  for (int power = first; power <= last; power += step) {
    const double x = s.x(std::exp2(power));
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x, kTop, kTop + kHeight, kTop + kHeight + 18, power_of_two(power));
  }
  out += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">size</text>"
      "<text x=\"{:.1f}\" y=\"{:.1f}\">bus bandwidth, GB/s</text>\n",
      kLeft + kWidth / 2, kTop + kHeight + 40, 16.0, kTop - 12);
  return out;
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

std::string curve(const CollectiveTable& table, const Scale& s, const char* colour) {
  std::string line, above, below;
  const auto points = by_size(table);
  const auto at = [&](const CollectivePoint& p, double seconds) {
    const double top = rate(table, p, seconds);
    // A low end of no time at all is a band without an upper edge.
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

std::string dots(const CollectiveTable& table, const Scale& s, const char* colour) {
  std::string out;
  for (const auto* p : by_size(table)) {
    const double measured = rate(table, *p, p->measured);
    const double predicted = p->priced ? rate(table, *p, p->time.value) : 0;
    if (measured <= 0 && predicted <= 0) {
      continue;
    }
    std::string told = fmt::format("{} {} B:", table.op, p->bytes);
    if (predicted > 0) {
      told += fmt::format(" predicted {:.4g} GB/s ({} {})", predicted, p->algorithm, p->protocol);
    }
    if (measured > 0) {
      told += fmt::format(" measured {:.4g} GB/s", measured);
    }
    const double x = s.x(static_cast<double>(p->bytes));
    if (measured > 0) {
      out += fmt::format(
          "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" stroke=\"{}\"><title>{}"
          "</title></circle>\n",
          x, s.y(measured), colour, xml_text(told));
    } else {
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\" fill=\"{}\"><title>{}</title></circle>\n",
          x, s.y(predicted), colour, xml_text(told));
    }
  }
  return out;
}

std::string legend(const std::vector<CollectiveTable>& tables, double top) {
  const bool measured = std::any_of(tables.begin(), tables.end(), [](const auto& t) {
    return std::any_of(t.points.begin(), t.points.end(),
                       [](const CollectivePoint& p) { return p.measured > 0; });
  });
  std::string out;
  const auto entry = [&](std::size_t i, const std::string& mark, const std::string& text) {
    constexpr std::size_t kColumns = 3;
    const double x = kLeft + kLegendColumn * static_cast<double>(i % kColumns);
    const double y = top + kLegendRow * static_cast<double>(i / kColumns);
    out += fmt::format(
        "<g transform=\"translate({:.0f},{:.0f})\">{}<text x=\"30\" y=\"4\">{}"
        "</text></g>\n",
        x, y, mark, xml_text(text));
  };
  std::size_t i = 0;
  for (; i < tables.size(); ++i) {
    entry(i,
          fmt::format("<line x1=\"0\" y1=\"0\" x2=\"22\" y2=\"0\" stroke=\"{}\" "
                      "stroke-width=\"3\"/>",
                      plot_colour(i)),
          tables[i].op + ", " + placement(tables[i]));
  }
  entry(i++, "<rect class=\"band\" x=\"0\" y=\"-6\" width=\"22\" height=\"12\"/>",
        "predicted, 90 % interval");
  if (measured) {
    entry(i, "<circle class=\"dot ink\" cx=\"11\" cy=\"0\" r=\"3.5\"/>", "measured");
  }
  return out;
}

}  // namespace

std::string svg(const std::vector<CollectiveTable>& tables) {
  const Scale s = scale_of(tables);
  const auto entries = static_cast<double>(tables.size() + 2);
  const double legend_top = kTop + kHeight + kBelow + 8;
  const double width = kLeft + kWidth + kRight;
  const double height = legend_top + kLegendRow * std::ceil(entries / 3);
  std::string out = plot_head(width, height);
  out +=
      fmt::format("<text class=\"title\" x=\"16\" y=\"26\">{}</text>\n", xml_text(title(tables)));
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
