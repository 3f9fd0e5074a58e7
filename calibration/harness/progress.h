// What the user sees while it runs: a bar on a terminal, else a line now and then. Standard error
// only.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

namespace stepcast::harness {

// "4:05".
std::string minutes(double seconds);

class Progress {
 public:
  enum class Style { none, lines, bar };
  // `width` in columns, of a bar.
  Progress(std::ostream& out, Style style, std::size_t total, double budget, int width = 80);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Case `done` of the total starts, `elapsed` seconds after the first.
  void start(std::size_t done, double elapsed, const std::string& key);
  void note(const std::string& line);  // a line that stays
  void clear();                        // the bar goes

 private:
  std::ostream& out_;
  Style style_;
  std::size_t total_;
  double budget_;
  int width_;
  double last_ = 0;
  bool drawn_ = false;
};

}  // namespace stepcast::harness
