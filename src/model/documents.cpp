#include "stepcast/model/documents.h"

#include <algorithm>

namespace stepcast::model {

std::vector<std::int64_t> fill_sequence(const std::vector<std::int64_t>& documents,
                                        std::int64_t sequence_length) {
  std::vector<std::int64_t> out;
  std::int64_t filled = 0;
  const bool any =
      std::any_of(documents.begin(), documents.end(), [](std::int64_t n) { return n > 0; });
  for (std::size_t i = 0; any && filled < sequence_length; i = (i + 1) % documents.size()) {
    const std::int64_t length = std::min(documents[i], sequence_length - filled);
    if (length > 0) {
      out.push_back(length);
      filled += length;
    }
  }
  if (out.empty()) {
    out.push_back(sequence_length);
  }
  return out;
}

double document_share(const std::vector<std::int64_t>& documents, std::int64_t sequence_length) {
  double squares = 0;
  for (const std::int64_t length : fill_sequence(documents, sequence_length)) {
    squares += static_cast<double>(length) * static_cast<double>(length);
  }
  const auto whole = static_cast<double>(sequence_length);
  return whole > 0 ? squares / (whole * whole) : 1;
}

double causal_pairs(const std::vector<std::int64_t>& filled, std::int64_t first, std::int64_t last,
                    std::int64_t window) {
  // Pairs of the first x queries of a document: x^2/2 up to the window, then `window` for each
  // query.
  const auto below = [&](std::int64_t x) {
    const auto q = static_cast<double>(x);
    const auto w = static_cast<double>(window > 0 ? std::min(window, x) : x);
    return w * w / 2 + (q - w) * w;
  };
  double pairs = 0;
  std::int64_t start = 0;
  for (const std::int64_t length : filled) {
    const std::int64_t from = std::clamp(first - start, std::int64_t{0}, length);
    const std::int64_t to = std::clamp(last - start, std::int64_t{0}, length);
    pairs += below(to) - below(from);
    start += length;
  }
  return pairs;
}

}  // namespace stepcast::model
