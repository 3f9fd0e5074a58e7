#include "python_lexer.h"

#include <cctype>

namespace stepcast::interop::launch {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class PythonLexer {
 public:
  PythonLexer(std::string_view source, const std::string& name) : source_(source), name_(name) {}

  std::vector<PythonToken> run() {
    while (at_ < source_.size()) {
      next();
    }
    end_line();
    push(PythonToken::Kind::end, "");
    return std::move(out_);
  }

 private:
  char now(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void step(std::size_t n = 1) {
    for (; n > 0 && at_ < source_.size(); --n, ++at_) {
      if (source_[at_] == '\n') {
        ++line_;
        line_begins_ = at_ + 1;
      }
    }
  }
  Origin here() const { return {name_, line_, static_cast<int>(at_ - line_begins_) + 1}; }
  void push(PythonToken::Kind kind, std::string text) {
    out_.push_back({kind, std::move(text), here()});
  }
  void end_line() {
    if (!out_.empty() && out_.back().kind != PythonToken::Kind::line_end) {
      push(PythonToken::Kind::line_end, "");
    }
  }

  void next() {
    const char c = now();
    if (c == '#') {
      while (now() != '\n' && at_ < source_.size()) {
        step();
      }
    } else if (c == '\n') {
      if (depth_ == 0) {
        end_line();
      }
      step();
    } else if (c == '\\' && now(1) == '\n') {
      step(2);
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      step();
    } else if (begins_name(c)) {
      word();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      number();
    } else if (c == '"' || c == '\'') {
      quoted();
    } else {
      sign();
    }
  }

  void word() {
    std::size_t n = 0;
    while (in_identifier(now(n))) {
      ++n;
    }
    if (n <= 2 && (now(n) == '"' || now(n) == '\'')) {  // a prefix of a text: r, b, f, rb
      const std::string_view prefix = source_.substr(at_, n);
      step(n);
      quoted();
      // f"{x}": what it comes to is not evaluated, and a sign that begins no value says so.
      if (prefix.find_first_of("fF") != std::string_view::npos &&
          out_.back().text.find('{') != std::string::npos) {
        out_.back().kind = PythonToken::Kind::sign;
      }
      return;
    }
    push(PythonToken::Kind::name, std::string(source_.substr(at_, n)));
    step(n);
  }

  // 8192, 1_000, 3e-4, 0x10.
  void number() {
    std::string text;
    std::size_t n = 0;
    const auto exponent = [&] {
      const char before = now(n - 1);
      return n > 0 && (before == 'e' || before == 'E') && (now(n) == '-' || now(n) == '+');
    };
    while (in_identifier(now(n)) || now(n) == '.' || exponent()) {
      if (now(n) != '_') {
        text += now(n);
      }
      ++n;
    }
    push(PythonToken::Kind::number, text);
    step(n);
  }

  void quoted() {
    const char quote = now();
    const bool three = now(1) == quote && now(2) == quote;
    const PythonToken::Kind kind = PythonToken::Kind::text;
    const Origin begin = here();
    step(three ? 3 : 1);
    std::string text;
    while (at_ < source_.size()) {
      if (now() == '\\') {
        text += now(1);
        step(2);
      } else if (now() == quote && (!three || (now(1) == quote && now(2) == quote))) {
        step(three ? 3 : 1);
        break;
      } else if (now() == '\n' && !three) {
        break;  // not closed on its line
      } else {
        text += now();
        step();
      }
    }
    out_.push_back({kind, std::move(text), begin});
  }

  void sign() {
    const char c = now();
    if (c == '(' || c == '[' || c == '{') {
      ++depth_;
    } else if ((c == ')' || c == ']' || c == '}') && depth_ > 0) {
      --depth_;
    }
    const bool two = now(1) == '=' && (c == '=' || c == '!' || c == '<' || c == '>' || c == '+' ||
                                       c == '-' || c == '*' || c == '/');
    push(PythonToken::Kind::sign, std::string(source_.substr(at_, two ? 2 : 1)));
    step(two ? 2 : 1);
  }

  std::string_view source_;
  std::string name_;
  std::vector<PythonToken> out_;
  std::size_t at_ = 0;
  std::size_t line_begins_ = 0;
  int line_ = 1;
  int depth_ = 0;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view source, const std::string& name) {
  return PythonLexer(source, name).run();
}

}  // namespace stepcast::interop::launch
