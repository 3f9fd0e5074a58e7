// The one stack of SVG pictures: head with a light and a dark theme, marks, scales, axes with
// ticks, colours, legend. page_plot.h has the plots that pages stretch to their width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast::report {

// Opens an <svg> of so many pixels with a background, the classes title, grid, band, dot and ink,
// and a title whose baseline is at `title_y`.
std::string plot_head(double width, double height, std::string_view title, int title_y);

// With &, <, > and quotes escaped; control characters, which XML has no way to write, as blanks.
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
std::string svg_title(std::string_view text);  // shown on hover; nothing of no text
// A square of a colour and its name beside it, `gap` pixels from the left edge of the square.
std::string svg_key(Px x, Px y, std::string_view colour, std::string_view name, double gap);
// One of a legend's entries in three columns: a sign, and a name from `text_left` on.
struct LegendPlace {
  double left, top, column_width;
  int text_left;
};
std::string legend_entry(const LegendPlace& place, std::size_t i, const std::string& sign,
                         std::string_view name);
double legend_rows_height(std::size_t entries);

// 1, 2 or 5 times a power of ten: the least that parts `span` into at most `most` steps. Nothing to
// part: 0.
double round_step(double span, double most);
// Multiples of `step` from `least` to `most`.
std::vector<double> multiples(double least, double most, double step);
// Powers of ten from `least` to `most`; `fine`: and 2 and 5 times them.
std::vector<double> decades(double least, double most, bool fine);
// From 0 to `most`, at most eight.
std::vector<double> ticks(double most);

// Distinguishable in both themes and with red-green blindness; the seventh is the first again.
const char* plot_colour(std::size_t i);
inline constexpr std::size_t kPlotColours = 6;

// "64 B", "4 KiB", "2 GiB".
std::string power_of_two(int power);

// 1234567 as "1.23 M".
std::string short_number(double value);

// From values to a share of a side; by ratios where they span much.
struct PlotScale {
  double least = 0, most = 1;
  bool log = false;
  double at(double value) const;
};
// Of values above 0: logarithmic where they span more than eight times, else from `floor`, or below
// the least.
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
