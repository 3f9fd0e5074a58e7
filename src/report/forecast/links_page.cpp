// Communication: traffic of each group, utilisation of the links, and a picture of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../record/tables.h"
#include "forecast_fields.h"
#include "page_sections.h"
#include "traffic_words.h"

namespace stepcast::report {
namespace {

using result::LinkClass;
using result::LinkUse;

// The index of a utilisation in ten colours of style.css, from cold to hot.
int heat(double utilisation) {
  return std::clamp(static_cast<int>(std::floor(10 * utilisation)), 0, 9);
}

const LinkClass* find(const LinkUse& links, std::string_view name) {
  for (const LinkClass& c : links.classes) {
    if (c.name == name) {
      return &c;
    }
  }
  return nullptr;
}

// A picture of one node and the network above it, with every link in the colour of its class.
class Fabric {
 public:
  explicit Fabric(const LinkUse& links) : links_(links) {}

  std::string draw() {
    const LinkClass* nic = find(links_, "NIC, sending");
    const LinkClass* spine = find(links_, "leaf to spine");
    const LinkClass* core = find(links_, "core links of a pod");
    const LinkClass* port = links_.classes.empty() ? nullptr : &links_.classes.front();
    const int gpus = std::clamp(links_.gpus_per_node, 1, 8);
    const int nics = nic != nullptr ? std::clamp(links_.nics_per_node, 1, 8) : 0;
    double y = 8;
    if (core != nullptr) {
      box(kMiddle - 60, y, 120, 20, "core");
      wires({kMiddle - 30, kMiddle, kMiddle + 30}, y + 20, y + 52, core);
      say(y + 40, "pod to core", core);
      y += 52;
    }
    if (nic != nullptr) {
      box(kMiddle - 60, y, 120, 20, "spine");
      wires({kMiddle - 50, kMiddle, kMiddle + 50}, y + 20, y + 52, spine);
      say(y + 40, "leaf to spine", spine);
      y += 52;
      for (int i = -1; i <= 1; ++i) {
        box(kMiddle + 62 * i - 28, y, 56, 20, "leaf");
      }
      std::vector<double> at = places(nics);
      wires(at, y + 20, y + 52, nic);
      say(y + 40, "NIC", nic);
      y += 52;
      frame_ = y - 6;
      for (const double x : at) {
        rect(x - 8, y, 16, 12, "part");
      }
      text(4, y + 10, "NICs");
      y += 18;
    } else {
      frame_ = y - 6;
    }
    const std::vector<double> at = places(gpus);
    for (const double x : at) {
      rect(x - 9, y, 18, 18, "part strong");
    }
    text(4, y + 13, "GPUs");
    wires(at, y + 18, y + 44, port);
    say(y + 36, links_.nvlink ? "NVLink" : "PCIe", port);
    y += 44;
    box(kMiddle - 96, y, 192, 18, links_.nvlink ? "NVSwitch or NVLink" : "PCIe");
    y += 26;
    return fmt::format(
               "<svg class=\"fabric\" viewBox=\"0 0 400 {:.0f}\" role=\"img\" aria-label=\"One "
               "node "
               "and the fabric above it; figures in the table of links\">"
               "<rect class=\"node\" x=\"36\" y=\"{:.0f}\" width=\"212\" height=\"{:.0f}\" "
               "rx=\"5\"/>",
               y + 4, frame_, y - frame_) +
           out_ + "</svg>\n";
  }

 private:
  static constexpr double kMiddle = 142;

  static std::vector<double> places(int count) {
    std::vector<double> out;
    for (int i = 0; i < count; ++i) {
      out.push_back(kMiddle + (i - (count - 1) / 2.0) * 24);
    }
    return out;
  }
  void rect(double x, double y, double w, double h, const char* kind) {
    out_ += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"3\"/>",
        kind, x, y, w, h);
  }
  void text(double x, double y, const std::string& what, const char* kind = "faint") {
    out_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", kind, x, y,
                        html_text(what));
  }
  void box(double x, double y, double w, double h, const char* name) {
    rect(x, y, w, h, "part");
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                        x + w / 2, y + h / 2 + 4, name);
  }
  void wires(const std::vector<double>& at, double y0, double y1, const LinkClass* c) {
    for (const double x : at) {
      out_ += fmt::format("<path class=\"wire {}\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>",
                          c == nullptr ? "free" : fmt::format("u-{}", heat(c->most)), x, y0, y1);
    }
  }
  void say(double y, const char* name, const LinkClass* c) {
    text(256, y,
         c == nullptr ? fmt::format("{}: no limit", name)
                      : fmt::format("{} {}", name, percent(c->most)),
         "");
  }

  const LinkUse& links_;
  std::string out_;
  double frame_ = 0;
};

// A cell for each node, in the colour of its NIC's utilisation, or of its NVLink's.
std::string nodes(const LinkUse& links, bool outside) {
  if (links.nodes.empty()) {
    return "";
  }
  constexpr std::size_t kMaxNodes = 4096;
  const std::size_t every = (links.nodes.size() + kMaxNodes - 1) / kMaxNodes;
  const std::size_t count = (links.nodes.size() + every - 1) / every;
  const auto columns = std::clamp<std::size_t>(
      static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(count) * 2))), 8, 96);
  const std::size_t rows = (count + columns - 1) / columns;
  std::string out = fmt::format(
      "<svg class=\"nodes\" viewBox=\"0 0 {} {}\" style=\"max-width:{}px\" role=\"img\" "
      "aria-label=\"Nodes by the utilisation of their {}\">",
      10 * columns, 10 * rows, std::min<std::size_t>(720, 18 * columns),
      outside ? "busiest NIC" : "busiest port");
  for (std::size_t i = 0; i < count; ++i) {
    const result::NodeLinks& n = links.nodes[i * every];
    out += fmt::format(
        "<rect class=\"u-{}\" x=\"{}\" y=\"{}\" width=\"9\" height=\"9\"><title>node {}, {}: {} "
        "{}, NIC {}</title></rect>",
        heat(outside ? n.outside : n.inside), 10 * (i % columns), 10 * (i / columns), i * every,
        n.first_stage == n.last_stage ? fmt::format("stage {}", n.first_stage)
                                      : fmt::format("stages {} to {}", n.first_stage, n.last_stage),
        links.nvlink ? "NVLink" : "PCIe", percent(n.inside), percent(n.outside));
  }
  return out + "</svg>\n";
}

std::string heat_legend() {
  std::string out = "<ul class=\"legend heat\">";
  for (int i = 0; i < 10; ++i) {
    out += fmt::format(
        "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"u-{}\" width=\"12\" "
        "height=\"12\"/></svg>{}</li>",
        i, i == 9 ? "90 % and more" : fmt::format("{} %", 10 * i));
  }
  return out + "</ul>\n";
}

}  // namespace

void add_communication(Page& page, const result::Report& report) {
  if (report.traffic.empty()) {
    return;
  }
  page.section("communication", "Communication",
               "Traffic of one rank of the busiest stage in a step; time: transfer time alone on "
               "the machine, whether hidden or exposed.");
  double most = 0;
  for (const result::Traffic& t : report.traffic) {
    most = std::max(most, to_seconds(t.time));
  }
  const auto row = [&](const result::Traffic& t) {
    const double s = to_seconds(t.time);
    result::Traffic shown = t;
    shown.group = group_words(t.group);
    shown.op = operation_words(t.op);
    Record out = traffic_fields(shown);
    out.push_back({"", bar({{shown.group, s, duration(s)}}, most), kNoHeading, Show::bar});
    return out;
  };
  Table table =
      page_table(report.traffic, row,
                 {"group", "operation", {kNoHeading, ""}, "count", "data", "time", "rate"});
  table.id = "traffic";
  table.sortable = true;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    table.rows[i][2].number =
        to_seconds(report.traffic[i].time);  // the column of bars is sorted by it
  }
  page.add(to_html(table));
}

void add_links(Page& page, const LinkUse& links) {
  if (links.classes.empty()) {
    return;
  }
  page.section(
      "links", "Links",
      fmt::format("Utilisation: bytes that cross a link in a step over the bytes that it could "
                  "carry in that time. Fabric: {}; {} nodes. Copies to the host are not counted.",
                  links.fabric, thousands(static_cast<std::int64_t>(links.nodes.size()))));
  const bool outside = find(links, "NIC, sending") != nullptr;
  const auto row = [](const LinkClass& c) -> Record {
    const Part used{fmt::format("heat u u-{}", heat(c.most)), c.most, percent(c.most)};
    return {{"", c.name, "links"},
            {"", bar({used}, 1), kNoHeading, Show::bar},
            {"", c.links, "number", Show::count},
            {"", c.capacity, "capacity", Show::rate},
            {"", c.mean_bytes, "bytes, mean", Show::size},
            {"", c.mean, "used, mean", Show::percent},
            {"", c.most, "used, busiest", Show::percent}};
  };
  Table table = page_table(links.classes, row);
  table.id = "link-classes";
  table.columns[4].hint = "of a link in a step";
  page.add(to_html(table));
  page.add("<div class=\"columns\">\n" +
           figure(Fabric(links).draw(),
                  "One node and the fabric above it; each link in the colour of the busiest of its "
                  "class. No limit: the capacity above equals that below, so the link cannot be "
                  "the bottleneck.") +
           figure(nodes(links, outside) + heat_legend(),
                  fmt::format("All nodes in order of ranks, each in the colour of its busiest {}.",
                              outside ? "NIC" : "port")) +
           "</div>\n");
}

}  // namespace stepcast::report
