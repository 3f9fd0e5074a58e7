// Two forecasts beside each other.
#pragma once

#include <string>
#include <vector>

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
  // A figure of both: seconds, bytes or shares. A time's category without time on either side is left out.
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

}  // namespace stepcast::report
