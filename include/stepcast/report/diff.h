// Two forecasts beside each other.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::report {

// A forecast as its JSON (report::json), and the name by which the reader knows it.
struct Side {
  std::string name, json;
};

struct Diff {
  // Keys of the resolved jobs with different values, in the order of the keys; "-": the key is absent.
  struct Key {
    std::string key, a, b;
  };
  // A figure that both have: seconds, bytes or shares. A time's category without time on either side is left out.
  struct Figure {
    std::string name, unit;  // unit: "s", "B", "share", or "" for a rate
    double a = 0, b = 0;
  };
  std::string a, b;
  std::vector<Key> keys;
  std::vector<Figure> figures;
};

// Throws InputError that names the side whose text is no forecast.
Diff diff(const Side& a, const Side& b);

std::string terminal(const Diff& diff, bool colour, int width);
std::string json(const Diff& diff);
// A page: where both steps go and their timelines one above the other, figures side by side, and keys that differ. `a`, `b`:
// the sides' forecasts with their traces; null where a side was read from JSON, which has no timeline.
std::string html(const Diff& diff, const result::Report* a, const result::Report* b);

// A figure of one side as text, and how it changes from a to b: a share by points, everything else by a ratio.
std::string difference_text(const Diff::Figure& figure, double value);
std::string difference_change(const Diff::Figure& figure);

}  // namespace stepcast::report
