// Plots for pages: a drawing that stretches with its container, and labels as text of the page,
// which stay legible at any width.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast::report {

struct PlotAxis {
  double from = 0, to = 1;
  bool logarithmic = false;
  // Positions and texts of the labels; none: round numbers.
  std::vector<std::pair<double, std::string>> labels = {};
  std::string unit = "";  // after the axis' last label
};

// Labels at round numbers between an axis' ends: 1, 2 or 5 times powers of ten.
std::vector<std::pair<double, std::string>> round_labels(const PlotAxis& axis, int most);

class Plot {
 public:
  // `height`: pixels of the drawing.
  Plot(PlotAxis x, PlotAxis y, int height);

  using Points = std::vector<std::pair<double, double>>;
  // Classes as in style.css: "line l-0", "dot l-1", "k-compute". `hint`: shown on hover.
  void line(const Points& points, std::string_view kind, std::string_view hint = "");
  // The area between an upper and a lower edge, which may have different x.
  void area(const Points& upper, const Points& lower, std::string_view kind,
            std::string_view hint = "");
  void dot(double x, double y, std::string_view kind, std::string_view hint = "");
  // A box from one corner to the other, such as a cell of a heat map; `style`: further CSS.
  void box(double x0, double y0, double x1, double y1, std::string_view kind,
           std::string_view hint = "", std::string_view style = "");
  // Boxes of the same height, each from one x to another, as one path.
  using Runs = std::vector<std::pair<double, double>>;
  void runs(const Runs& runs, double y0, double y1, std::string_view kind);
  // A text beside a point, to its right or, with `before`, to its left; `kind`: further classes.
  void name(double x, double y, std::string_view text, bool before, std::string_view kind = "");
  // A dashed horizontal line with a text at its right end.
  void rule(double y, std::string_view text);

  // `description`: for readers who cannot see the picture.
  std::string finish(std::string_view description) const;

 private:
  std::string path(const Points& points, const char* first) const;
  static std::string label(const PlotAxis& axis, std::size_t i);
  std::string across() const;
  double px(double x) const;
  double py(double y) const;
  PlotAxis x_, y_;
  int height_;
  std::string drawing_, notes_;
};

// The points as steps: each level holds until the next point.
Plot::Points steps(const Plot::Points& points);

}  // namespace stepcast::report
