#include "sentences.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace stepcast::report {

std::string counted(std::size_t n, const char* one) {
  return fmt::format("{} {}{}", thousands(static_cast<std::int64_t>(n)), one, n == 1 ? "" : "s");
}

std::string beside(double value, double base, const char* noun, const std::string& name) {
  const double ratio = base > 0 ? value / base : 1;
  constexpr double kSame = 0.0005;
  if (std::abs(ratio - 1) < kSame) {
    return fmt::format("the same {}as {}", noun, name);
  }
  return ratio >= 2 ? fmt::format("{} times that of {}", significant(ratio, 3), name)
                    : fmt::format("{} % {} {}than {}", significant(100 * std::abs(ratio - 1), 2),
                                  ratio < 1 ? "less" : "more", noun, name);
}

std::string opening(const Paint& paint, const std::string& sentence, const std::string& title,
                    int width) {
  return paint("1", wrap(sentence, width, 0)) + "\n\n" + title + "\n";
}

}  // namespace stepcast::report
