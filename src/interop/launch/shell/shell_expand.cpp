#include "shell_expand.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

constexpr char kOpen = '\x01';
constexpr char kClose = '\x02';
constexpr char kBlank = '\x03';  // a blank inside a name, so that $(a command) is not split

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)); }

std::size_t name_length(std::string_view text) {
  if (text.empty() || !starts_name(text[0])) {
    return 0;
  }
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), in_name) -
                                  text.begin());
}

// Advances a place over a text.
void step(Origin& at, std::string_view over) {
  for (const char c : over) {
    if (c == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
}

Located located(std::string_view text, const Origin& at) {
  Located out;
  Origin where = at;
  for (const char c : text) {
    out.add(c, where);
    step(where, {&c, 1});
  }
  return out;
}

Located missing(const std::string& name, const Origin& at) {
  Located out;
  for (const char c : kOpen + name + kClose) {
    out.add(is_blank(c) ? kBlank : c, at);
  }
  return out;
}

Word word_of(const Located& text, bool quoted) {
  Word word;
  word.quoted = quoted;
  bool placed = false;
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    if (!placed) {
      word.origin = text.places[i];
      placed = true;
    }
    const std::size_t close = text.text[i] == kOpen ? text.text.find(kClose, i) : std::string::npos;
    if (close != std::string::npos) {  // a script may hold such a character itself
      std::string name = text.text.substr(i + 1, close - i - 1);
      std::replace(name.begin(), name.end(), kBlank, ' ');
      word.open.push_back(std::move(name));
      i = close;
      placed = !word.text.empty();
    } else {
      word.text += text.text[i];
    }
  }
  return word;
}

// Evaluates + - * / %, signs and parentheses over integers.
class Sum {
 public:
  explicit Sum(std::string_view text) : text_(text) {}
  std::optional<std::int64_t> all() {
    const auto x = terms();
    skip();
    return at_ == text_.size() ? x : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
  }
  bool take(char c) {
    skip();
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there ? 1 : 0;
    return there;
  }
  std::optional<std::int64_t> terms() {
    auto x = factors();
    while (x) {
      const bool plus = take('+');
      if (!plus && !take('-')) {
        return x;
      }
      const auto y = factors();
      std::int64_t sum = 0;
      if (!y ||
          (plus ? __builtin_add_overflow(*x, *y, &sum) : __builtin_sub_overflow(*x, *y, &sum))) {
        return std::nullopt;
      }
      x = sum;
    }
    return x;
  }
  std::optional<std::int64_t> factors() {
    auto x = one();
    while (x) {
      const char what = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : '\0';
      if (what == '\0') {
        return x;
      }
      const auto y = one();
      std::int64_t product = 0;
      if (!y || (what != '*' && (*y == 0 || *y == -1)) ||
          (what == '*' && __builtin_mul_overflow(*x, *y, &product))) {
        return std::nullopt;
      }
      x = what == '*' ? product : what == '/' ? *x / *y : *x % *y;
    }
    return x;
  }
  std::optional<std::int64_t> one() {
    constexpr int kDeepest = 64;
    if (take('(')) {
      if (++depth_ > kDeepest) {
        return std::nullopt;
      }
      const auto x = terms();
      --depth_;
      return take(')') ? x : std::nullopt;
    }
    if (take('-')) {
      const auto x = ++depth_ > kDeepest ? std::nullopt : one();
      --depth_;
      return x && *x != std::numeric_limits<std::int64_t>::min() ? std::optional(-*x)
                                                                 : std::nullopt;
    }
    skip();
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) {
      ++end;
    }
    const auto x = text::number<std::int64_t>(text_.substr(at_, end - at_));
    at_ = end;
    return x;
  }
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

void Located::add(char c, const Origin& where) {
  text += c;
  places.push_back(where);
}

void Located::add(const Located& other) {
  text += other.text;
  places.insert(places.end(), other.places.begin(), other.places.end());
}

void Shell::Fields::end() {
  if (started) {
    done.emplace_back(std::move(current), quoted);
  }
  current = {};
  started = quoted = false;
}

void Shell::set(const std::string& name, const std::string& value) {
  variables_[name] = {{located(value, {name + "=" + value, 0, 0})}, false, order_++};
}

bool Shell::is_assignment(std::string_view word) {
  const std::size_t n = name_length(word);
  return n > 0 && (word.substr(n).starts_with('=') || word.substr(n).starts_with("+="));
}

void Shell::assign(const Token& token) {
  const std::size_t n = name_length(token.text);
  const std::string name(token.text.substr(0, n));
  const bool more = token.text[n] == '+';
  const std::size_t begin = n + (more ? 2 : 1);
  Variable fresh;
  assigning_ = true;
  if (token.kind == Token::Kind::array) {
    fresh.array = true;
    for (const Token& item : token.items) {
      Fields fields;
      expand(item.text, item.origin, false, fields);
      fields.end();
      for (auto& [text, quoted] : fields.done) {
        fresh.items.push_back(std::move(text));
      }
    }
  } else {
    Origin at = token.origin;
    step(at, token.text.substr(0, begin));
    fresh.items.push_back(joined(token.text.substr(begin), at));
  }
  assigning_ = false;
  constexpr std::size_t kLongest = 1 << 20;  // a limit, since A="$A$A" doubles
  std::size_t length = 0;
  for (const Located& item : fresh.items) {
    length += item.text.size();
  }
  if (length > kLongest) {
    throw InputError(Fault{token.origin, "the variable is beyond 1 MiB; expected a shorter text"});
  }
  Variable& variable = variables_[name];
  if (more && !variable.items.empty()) {
    if (fresh.array) {
      variable.items.insert(variable.items.end(), fresh.items.begin(), fresh.items.end());
    } else {
      variable.items.back().add(fresh.items.front());
    }
  } else {
    variable = std::move(fresh);
  }
  used_.erase(name);
  variable.order = order_++;
}

// Outside quotes a variable's value is split at blanks (`in_quotes`: `raw` is the inside of a
// quoted text).
void Shell::expand(std::string_view raw, Origin at, bool in_quotes, Fields& out) {
  const auto literal = [&](std::string_view text) {
    out.current.add(located(text, at));
    out.started = true;
  };
  for (std::size_t i = 0; i < raw.size();) {
    const char c = raw[i];
    const std::size_t end = std::min(c == '\'' && in_quotes    ? i + 1
                                     : (c == '"' && in_quotes) ? i + 1
                                                               : end_of_group(raw, i),
                                     raw.size());
    const std::string_view group = raw.substr(i, end - i);
    if (c == '\\' && group.size() == 2) {
      const bool kept =
          in_quotes && std::string_view("\"\\$`\n").find(group[1]) == std::string_view::npos;
      if (group[1] != '\n') {
        literal(group.substr(kept ? 0 : 1));
      }
    } else if (c == '\'' && !in_quotes && group.size() >= 2) {
      literal(group.substr(1, group.size() - 2));
      out.quoted = true;
    } else if (c == '"' && !in_quotes && group.size() >= 2) {
      Origin inside = at;
      step(inside, "\"");
      out.started = out.quoted = true;
      expand(group.substr(1, group.size() - 2), inside, true, out);
    } else if ((c == '$' && end - i > 1) || (c == '$' && i + 1 < raw.size()) || c == '`') {
      std::size_t stop = end;
      if (c == '$' && end - i == 1) {
        const std::size_t n = name_length(raw.substr(i + 1));
        stop = i + 1 + std::max<std::size_t>(n, 1);
      }
      const std::string_view expression = raw.substr(i, stop - i);
      const Expanded got = dollar(expression, at);
      for (std::size_t k = 0; k < got.items.size(); ++k) {
        if (k > 0) {
          if (got.separate || !in_quotes) {
            const bool quoted = out.quoted;
            out.end();
            out.quoted = quoted;
          } else {
            out.current.add(' ', at);
          }
        }
        const Located& item = got.items[k];
        if (in_quotes) {
          out.current.add(item);
          out.started = true;
          continue;
        }
        for (std::size_t j = 0; j < item.text.size(); ++j) {
          if (is_blank(item.text[j])) {
            out.end();
          } else {
            out.current.add(item.text[j], item.places[j]);
            out.started = true;
          }
        }
      }
      step(at, expression);
      i = stop;
      continue;
    } else {
      literal(group);
    }
    step(at, group);
    i = end;
  }
}

Located Shell::joined(std::string_view raw, const Origin& at) {
  Fields fields;
  // Assignments are not split, as if they were in quotes. Quotes inside are removed nevertheless.
  for (std::size_t i = 0; i < raw.size();) {
    const std::size_t end = std::min(end_of_group(raw, i), raw.size());
    Origin here = at;
    step(here, raw.substr(0, i));
    const char c = raw[i];
    if (c == '"' || c == '\'' || c == '\\') {
      expand(raw.substr(i, end - i), here, false, fields);
      i = end;
    } else {
      std::size_t stop = end;
      while (stop < raw.size() && raw[stop] != '"' && raw[stop] != '\'' && raw[stop] != '\\') {
        stop = std::min(end_of_group(raw, stop), raw.size());
      }
      expand(raw.substr(i, stop - i), here, true, fields);
      i = stop;
    }
  }
  fields.end();
  Located out;
  for (const auto& [text, quoted] : fields.done) {
    if (!out.text.empty()) {
      out.add(' ', at);
    }
    out.add(text);
  }
  return out;
}

Shell::Expanded Shell::dollar(std::string_view raw, const Origin& at) {
  if (raw.starts_with("$((") && raw.ends_with("))")) {
    const auto x = arithmetic(raw.substr(3, raw.size() - 5), at);
    return x ? Expanded{{located(std::to_string(*x), at)}}
             : Expanded{{missing(std::string(raw), at)}};
  }
  if (raw.starts_with("$(") || raw.starts_with('`')) {
    return {{missing(std::string(raw), at)}};
  }
  if (raw.starts_with("${")) {
    Origin inside = at;
    step(inside, "${");
    return braces(raw.substr(2, raw.size() - 3), inside);
  }
  return value(std::string(raw.substr(1)), "", at);
}

Shell::Expanded Shell::braces(std::string_view inside, const Origin& at) {
  std::size_t n = name_length(inside);
  if (n == 0 && !inside.empty() && std::isdigit(static_cast<unsigned char>(inside[0]))) {
    n = 1;
  }
  const std::string name(inside.substr(0, n));
  std::string_view rest = inside.substr(n);
  std::string index;
  if (rest.starts_with('[')) {
    const std::size_t close = std::min(rest.find(']'), rest.size() - 1);
    index = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  }
  if (name.empty()) {
    return {{missing("${" + std::string(inside) + "}", at)}};
  }
  if (rest.empty()) {
    return value(name, index, at);
  }
  // ${X:-default}: the default also replaces an empty value.
  const bool empty_too = rest.starts_with(':');
  if (empty_too) {
    rest.remove_prefix(1);
  }
  const char what = rest.empty() ? '\0' : rest[0];
  const auto found = variables_.find(name);
  const bool there = found != variables_.end() && !found->second.items.empty() &&
                     (!empty_too || !found->second.items.front().text.empty());
  Origin inner = at;
  step(inner, inside.substr(0, inside.size() - rest.size() + 1));
  switch (what) {
    case '-':
    case '=':
      if (there) {
        return value(name, index, at);
      }
      if (what == '=') {
        variables_[name] = {{joined(rest.substr(1), inner)}, false, order_++};
      }
      return {{joined(rest.substr(1), inner)}};
    case '+':
      return there ? Expanded{{joined(rest.substr(1), inner)}} : Expanded{{Located{}}};
    case '?':
      return value(name, index, at);
    default:
      return {{missing("${" + std::string(inside) + "}", at)}};
  }
}

Shell::Expanded Shell::value(const std::string& name, const std::string& index, const Origin& at) {
  if (name == "@" || name == "*") {
    return {};  // the script has no arguments
  }
  if (assigning_) {
    used_.insert(name);
  }
  const auto found = variables_.find(name);
  if (found == variables_.end()) {
    return {{missing(name, at)}};
  }
  const Variable& variable = found->second;
  if (index == "@" || index == "*") {
    return {variable.items, index == "@"};
  }
  const auto i = text::number<std::size_t>(index).value_or(0);
  return i < variable.items.size() ? Expanded{{variable.items[i]}} : Expanded{{Located{}}};
}

std::optional<std::int64_t> Shell::arithmetic(std::string_view text, const Origin& at) {
  std::string sum;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = name_length(text.substr(i));
    const bool dollar_sign = text[i] == '$';
    if (n > 0 || dollar_sign) {
      std::size_t end = n > 0 ? i + n : std::min(end_of_group(text, i), text.size());
      if (dollar_sign && end - i == 1) {
        end = i + 1 + std::max<std::size_t>(name_length(text.substr(i + 1)), 1);
      }
      const std::string expression = (n > 0 ? "$" : "") + std::string(text.substr(i, end - i));
      for (const Located& item : dollar(expression, at).items) {
        sum += "(" + item.text + ")";
      }
      i = end;
    } else {
      sum += text[i++];
    }
  }
  return Sum(sum).all();
}

std::vector<Word> Shell::words(const Token& token) {
  Fields fields;
  expand(token.text, token.origin, false, fields);
  fields.end();
  std::vector<Word> out;
  for (const auto& [text, quoted] : fields.done) {
    out.push_back(word_of(text, quoted));
    if (out.back().origin.file.empty()) {
      out.back().origin = token.origin;
    }
  }
  return out;
}

std::vector<Word> Shell::split(const Word& word) {
  std::vector<Word> out;
  Origin at = word.origin;
  std::size_t i = 0;
  while (i < word.text.size()) {
    std::size_t end = i;
    while (end < word.text.size() && !is_blank(word.text[end])) {
      ++end;
    }
    if (end > i) {
      out.push_back({word.text.substr(i, end - i), at, false, {}});
      step(at, std::string_view(word.text).substr(i, end - i));
    }
    while (end < word.text.size() && is_blank(word.text[end])) {
      step(at, std::string_view(word.text).substr(end, 1));
      ++end;
    }
    i = end;
  }
  if (!out.empty()) {
    out.back().open = word.open;
  }
  return out;
}

std::vector<Word> Shell::flags_in_variables() const {
  std::vector<std::pair<int, std::vector<Word>>> found;
  for (const auto& [name, variable] : variables_) {
    if (used_.count(name) > 0) {
      continue;
    }
    Fields fields;
    for (const Located& item : variable.items) {
      for (std::size_t j = 0; j < item.text.size(); ++j) {
        if (is_blank(item.text[j])) {
          fields.end();
        } else {
          fields.current.add(item.text[j], item.places[j]);
          fields.started = true;
        }
      }
      fields.end();
    }
    std::vector<Word> words;
    for (const auto& [text, quoted] : fields.done) {
      words.push_back(word_of(text, quoted));
    }
    if (!words.empty() && words.front().text.starts_with("--")) {
      found.emplace_back(variable.order, std::move(words));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Word> out;
  for (const auto& [order, words] : found) {
    out.insert(out.end(), words.begin(), words.end());
  }
  return out;
}

}  // namespace stepcast::interop::launch
