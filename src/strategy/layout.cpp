#include "layout.h"

#include <fmt/format.h>

#include <cctype>
#include <string>

namespace stepcast::strategy {
namespace {

constexpr std::size_t kLongest = 1'000'000;  // letters of an expanded layout

Infeasible fault(std::string reason) { return {"parallelism.layers_per_stage", std::move(reason)}; }

// The text with every repetition written out.
class Expander {
 public:
  explicit Expander(std::string_view text) : text_(text) {}

  std::variant<std::string, Infeasible> run() {
    std::string out = group(false);
    if (!why_.empty()) {
      return fault(why_);
    }
    return out;
  }

 private:
  std::string group(bool inside) {
    std::string out;
    while (why_.empty() && at_ < text_.size()) {
      const char c = text_[at_++];
      std::string piece;
      if (c == ')') {
        if (!inside) {
          why_ = "the layout closes a parenthesis that it did not open";
        }
        closed_ = true;
        return out;
      }
      if (c == '(') {
        closed_ = false;
        piece = group(true);
        if (why_.empty() && !closed_) {
          why_ = "the layout opens a parenthesis that it does not close";
        }
      } else if (c == 'E' || c == 't' || c == 'm' || c == 'L' || c == '|') {
        piece = c;
      } else if (c != ',' && std::isspace(static_cast<unsigned char>(c)) == 0) {
        why_ =
            fmt::format("the layout contains '{}'; expected E, t, m, L, |, *n and parentheses", c);
      }
      append(out, piece, repetitions());
    }
    return out;
  }

  std::size_t repetitions() {
    if (at_ >= text_.size() || text_[at_] != '*') {
      return 1;
    }
    ++at_;
    std::size_t n = 0;
    const std::size_t first = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
           n < kLongest) {
      n = n * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    }
    if (at_ == first) {
      why_ = "the layout has a '*' without a number";
    }
    return n;
  }

  void append(std::string& out, const std::string& piece, std::size_t times) {
    if (!piece.empty() && times > kLongest / piece.size()) {
      why_ = "the layout is too long";
      return;
    }
    for (std::size_t i = 0; i < times; ++i) {
      out += piece;
    }
    if (out.size() > kLongest) {
      why_ = "the layout is too long";
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool closed_ = false;
  std::string why_;
};

}  // namespace

std::variant<std::vector<StageContent>, Infeasible> parse_layout(std::string_view text) {
  auto expanded = Expander(text).run();
  if (auto* why = std::get_if<Infeasible>(&expanded)) {
    return *why;
  }
  std::vector<StageContent> out(1);
  for (const char c : std::get<std::string>(expanded)) {
    StageContent& stage = out.back();
    if (c == '|') {
      out.emplace_back();
    } else if (stage.head) {
      return fault("the layout continues after L, the loss");
    } else if (c == 'L') {
      stage.head = true;
    } else if (c == 'm') {
      ++stage.predictions;
    } else if (stage.predictions > 0) {
      return fault("the layout has a layer after m, a multi-token prediction layer");
    } else if (c == 't') {
      ++stage.layers;
    } else if (stage.embedding || stage.layers > 0 || out.size() > 1) {
      return fault("the layout has E, the embedding, at a place other than its start");
    } else {
      stage.embedding = true;
    }
  }
  if (!out.front().embedding || !out.back().head) {
    return fault("the layout does not begin with E, the embedding, and end with L, the loss");
  }
  return out;
}

}  // namespace stepcast::strategy
