#include "shell_lexer.h"

#include <cctype>

namespace stepcast::interop::launch {
namespace {

std::size_t after_bracket(std::string_view source, std::size_t at, char open, char close,
                          int below) {
  int depth = 0;
  while (at < source.size()) {
    const char c = source[at];
    if (c == open) {
      ++depth;
      ++at;
    } else if (c == close) {
      ++at;
      if (--depth == 0) {
        return at;
      }
    } else {
      at = end_of_group(source, at, below + 1);
    }
  }
  return source.size() + 1;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& file) : source_(source), file_(file) {}

  std::vector<Token> all() {
    std::vector<Token> out;
    while (true) {
      Token token = next();
      const bool end = token.kind == Token::Kind::end;
      if (token.kind == Token::Kind::operation && token.text == "<<") {
        take_delimiter();
      }
      out.push_back(std::move(token));
      if (end) {
        return out;
      }
    }
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void advance(std::size_t to) {
    for (; at_ < to && at_ < source_.size(); ++at_) {
      if (source_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
  }

  Origin here() const { return {file_, line_, static_cast<int>(at_ - line_start_) + 1}; }

  void skip_blanks() {
    while (at_ < source_.size()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {  // a shell drops null bytes as well
        advance(at_ + 1);
      } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        advance(at_ + (peek(1) == '\n' ? 2 : 3));
      } else if (c == '#') {
        while (at_ < source_.size() && peek() != '\n') {
          advance(at_ + 1);
        }
      } else {
        return;
      }
    }
  }

  static bool ends_word(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';' || c == '&' || c == '|' ||
           c == '(' || c == ')' || c == '<' || c == '>' || c == '\0';
  }

  Token operation(std::size_t length) {
    Token t{Token::Kind::operation, source_.substr(at_, length), here(), {}};
    advance(at_ + length);
    if (t.text == "\n") {
      skip_documents();
    }
    return t;
  }

  // "<<EOF": the lines up to EOF are not commands.
  void take_delimiter() {
    if (peek() == '-') {
      advance(at_ + 1);
    }
    skip_blanks();
    std::string word;
    while (!ends_word(peek())) {
      if (peek() != '"' && peek() != '\'') {
        word += peek();
      }
      advance(at_ + 1);
    }
    delimiters_.push_back(word);
  }

  void skip_documents() {
    for (const std::string& delimiter : delimiters_) {
      while (at_ < source_.size()) {
        const std::size_t stop = std::min(source_.find('\n', at_), source_.size());
        std::string_view line = source_.substr(at_, stop - at_);
        while (!line.empty() && (line.front() == '\t' || line.front() == ' ')) {
          line.remove_prefix(1);
        }
        advance(stop + 1);
        if (line == delimiter) {
          break;
        }
      }
    }
    delimiters_.clear();
  }

  Token next() {
    skip_blanks();
    if (at_ >= source_.size()) {
      return {Token::Kind::end, {}, here(), {}};
    }
    const char c = peek();
    if (c == '\n' || c == '(' || c == ')') {
      return operation(1);
    }
    if (c == ';' || c == '&' || c == '|' || c == '<' || c == '>') {
      if (c == '<' && peek(1) == '<' && peek(2) == '<') {
        return operation(3);  // a text as input
      }
      const bool twice = peek(1) == c || (c == '&' && peek(1) == '>') ||
                         (c == '>' && peek(1) == '&') || (c == '<' && peek(1) == '&');
      return operation(twice ? 2 : 1);
    }
    return word();
  }

  Token word() {
    const Origin where = here();
    const std::size_t begin = at_;
    while (at_ < source_.size() && !ends_word(peek())) {
      const std::size_t end = peek() == '\\' ? at_ + 2 : end_of_group(source_, at_);
      if (end > source_.size()) {
        throw InputError(
            Fault{here(), "a quote or bracket of the script never closes; expected its end"});
      }
      advance(end);
    }
    Token token{Token::Kind::word, source_.substr(begin, at_ - begin), where, {}};
    const bool number = token.text.find_first_not_of("0123456789") == std::string_view::npos;
    if (number && (peek() == '<' || peek() == '>')) {
      return next();  // 2>&1: a part of the redirection
    }
    if (peek() == '(' && token.text.ends_with('=')) {
      array(token);
    }
    return token;
  }

  void array(Token& token) {
    token.kind = Token::Kind::array;
    advance(at_ + 1);
    while (true) {
      Token item = next();
      if (item.kind == Token::Kind::end) {
        throw InputError(Fault{token.origin, "an array of the script never closes; expected ')'"});
      }
      if (item.kind == Token::Kind::operation) {
        if (item.text == ")") {
          return;
        }
        continue;  // line breaks inside the array
      }
      token.items.push_back(std::move(item));
    }
  }

  std::string_view source_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  std::vector<std::string> delimiters_;
};

}  // namespace

std::size_t end_of_group(std::string_view source, std::size_t at, int depth) {
  constexpr int kDeepest = 64;  // bounds the recursion
  if (depth > kDeepest) {
    return source.size() + 1;
  }
  const char c = source[at];
  const auto found = [&](std::size_t end) {
    return end == std::string_view::npos ? source.size() + 1 : end + 1;
  };
  if (c == '\\') {
    return at + 2;
  }
  if (c == '\'') {
    return found(source.find('\'', at + 1));
  }
  if (c == '`') {
    return found(source.find('`', at + 1));
  }
  if (c == '"') {
    for (++at; at < source.size() && source[at] != '"';) {
      at = source[at] == '\'' ? at + 1 : end_of_group(source, at, depth + 1);
    }
    return at + 1;
  }
  if (c == '$' && at + 1 < source.size() && source[at + 1] == '{') {
    return after_bracket(source, at + 1, '{', '}', depth);
  }
  if (c == '$' && at + 1 < source.size() && source[at + 1] == '(') {
    return after_bracket(source, at + 1, '(', ')', depth);
  }
  return at + 1;
}

std::vector<Token> lex_shell(std::string_view source, const std::string& file) {
  return Lexer(source, file).all();
}

}  // namespace stepcast::interop::launch
