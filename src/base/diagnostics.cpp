#include "stepcast/base/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "stepcast/base/suggestion.h"

namespace stepcast {
namespace {

// Files keep the order in which they first appear (an included file after the one that includes
// it); the faults of one file are sorted by line.
std::vector<Fault> in_file_order(std::vector<Fault> faults) {
  STEPCAST_CHECK(!faults.empty(), "an input error needs a fault");
  std::vector<std::string> files;
  for (const Fault& fault : faults) {
    if (std::find(files.begin(), files.end(), fault.where.file) == files.end()) {
      files.push_back(fault.where.file);
    }
  }
  const auto key = [&](const Fault& f) {
    const auto file = std::find(files.begin(), files.end(), f.where.file) - files.begin();
    return std::make_tuple(file, f.where.line, f.where.column);
  };
  std::stable_sort(faults.begin(), faults.end(),
                   [&](const Fault& a, const Fault& b) { return key(a) < key(b); });
  return faults;
}

std::string joined(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    text += (text.empty() ? "" : "\n") + to_string(fault);
  }
  return text;
}

// Names are compared without regard to case, and dash equals underscore.
char folded(char c) {
  return c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1])) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string to_string(const Origin& where) {
  return where.line == 0 ? where.file
                         : fmt::format("{}:{}:{}", where.file, where.line, where.column);
}

// File names and quoted values are the user's, and so may be their bytes: a fault stays one line,
// and no terminal takes a part of it for a command.
std::string to_string(const Fault& fault) {
  return printable(to_string(fault.where) + ": error: " + fault.message);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c == 0xC2 && next >= 0x80 && next < 0xA0) {  // controls of ISO 6429 in UTF-8
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

InputError::InputError(std::vector<Fault> faults)
    : std::runtime_error(joined(in_file_order(faults))),
      faults_(in_file_order(std::move(faults))) {}

InputError::InputError(Fault fault) : InputError(std::vector<Fault>{std::move(fault)}) {}

namespace {

// Whether one word is the other and more: "sequence" for "sequence_length", "tensor_parallel" for
// "tensor".
bool continues(std::string_view word, std::string_view candidate) {
  constexpr std::size_t kShortest = 6;  // "node" begins too much
  const std::string_view brief = word.size() < candidate.size() ? word : candidate;
  const std::string_view whole = word.size() < candidate.size() ? candidate : word;
  return brief.size() >= kShortest && whole.size() > brief.size() && whole.starts_with(brief) &&
         (whole[brief.size()] == '_' || whole[brief.size()] == '-');
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestName =
      100;  // a binary blob is no misspelling, and the distance is quadratic
  std::string best;
  std::size_t best_distance = 0;
  if (word.empty() || word.size() > kLongestName) {
    return best;
  }
  for (const std::string& candidate : candidates) {
    // A word of which more than a third of the letters differ is another word.
    const std::size_t limit = std::max<std::size_t>(1, std::min(word.size(), candidate.size()) / 3);
    if (candidate.size() > kLongestName) {
      continue;
    }
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= limit && distance < candidate.size() &&
        (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best.empty()) {
    for (const std::string& candidate : candidates) {
      if (continues(word, candidate) && (best.empty() || candidate.size() < best.size())) {
        best = candidate;
      }
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

void fail_check(const char* condition, const char* file, int line, const std::string& what) {
  throw std::logic_error(
      fmt::format("{}:{}: internal error: {} ({} does not hold)", file, line, what, condition));
}

}  // namespace stepcast
