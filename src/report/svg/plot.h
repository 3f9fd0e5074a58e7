// Parts of all SVG pictures: a head with a light and a dark theme, marks, scales, axes with
// ticks, colours, a legend. page_plot.h has the plots that pages stretch to their width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast::report {

// Opens an <svg> of the given pixels with a background, the classes title, grid, band, dot and ink,
// and a title whose baseline is at `title_y`.
std::string plot_head(double width, double height, std::string_view title, int title_y);

// The text with &, <, > and quotes escaped; control characters, which XML cannot express, become
// blanks.
std::string xml_text(std::string_view text);

// A coordinate in pixels, and the decimals that it is written with.
struct Px {
  Px(double v, int d = 1) : value(v), decimals(d) {}  // NOLINT: a number is a coordinate
  double value;
  int decimals;
};
std::string written(Px p);
inline Px whole(double value) { return {value, 0}; }

// Marks. Texts are escaped; `anchor`: "end", "middle", or the start.
std::string svg_text(Px x, Px y, std::string_view text, std::string_view anchor = "");
std::string svg_line(std::string_view kind, Px x1, Px y1, Px x2, Px y2);
std::string svg_title(std::string_view text);  // shown on hover; empty for an empty text
// A square of a colour, and its name `gap` pixels to the right of the square's left edge.
std::string svg_key(Px x, Px y, std::string_view colour, std::string_view name, double gap);
// The place of an entry in a legend of three columns: a sign, and a name from `text_left` on.
struct LegendPlace {
  double left, top, column_width;
  int text_left;
};
std::string legend_entry(const LegendPlace& place, std::size_t i, const std::string& sign,
                         std::string_view name);
double legend_rows_height(std::size_t entries);

// The least of 1, 2 or 5 times a power of ten that divides `span` into at most `most` steps; 0 for
// an empty span.
double round_step(double span, double most);
// Multiples of `step` from `least` to `most`.
std::vector<double> multiples(double least, double most, double step);
// Powers of ten from `least` to `most`; `fine`: also 2 and 5 times them.
std::vector<double> decades(double least, double most, bool fine);
// At most eight round values from 0 to `most`.
std::vector<double> ticks(double most);

// The i-th of six colours, which repeat. They are distinguishable in both themes and with red-green
// blindness.
const char* plot_colour(std::size_t i);
inline constexpr std::size_t kPlotColours = 6;

// "64 B", "4 KiB", "2 GiB".
std::string power_of_two(int power);

// 1234567 as "1.23 M".
std::string short_number(double value);

// Maps values to a share of a side of the plot; logarithmically where they span much.
struct PlotScale {
  double least = 0, most = 1;
  bool log = false;
  double at(double value) const;
};
// The scale of values above 0: logarithmic where they span more than a factor of eight, else
// linear, from 0 or from below the least value.
PlotScale scale_of(const std::vector<double>& values, bool from_zero);
std::vector<double> ticks(const PlotScale& scale);

// A frame on the page, in pixels.
struct PlotFrame {
  double left = 0, top = 0, width = 0, height = 0;
  PlotScale x, y;
  double px(double value) const { return left + width * x.at(value); }
  double py(double value) const { return top + height * (1 - y.at(value)); }
};
struct PlotTick {
  double value = 0;
  std::string label;
};
std::vector<PlotTick> labelled(const std::vector<double>& values);
std::string grid(const PlotFrame& frame, const std::vector<PlotTick>& xs,
                 const std::vector<PlotTick>& ys, const std::string& x_name,
                 const std::string& y_name);

}  // namespace stepcast::report
