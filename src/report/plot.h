// What SVG plots share: their head with a light and a dark theme, text, ticks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::report {

// Opens an <svg> of so many pixels with a background and the classes title, grid, band, dot and
// ink.
std::string plot_head(double width, double height);

// With &, <, > and quotes escaped; control characters, which XML has no way to write, as blanks.
std::string xml_text(std::string_view text);

// From 0 to `most`, at most eight, 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(double most);

// Distinguishable in both themes and with red-green blindness; the seventh is the first again.
const char* plot_colour(std::size_t i);

// "64 B", "4 KiB", "2 GiB".
std::string power_of_two(int power);

}  // namespace stepcast::report
