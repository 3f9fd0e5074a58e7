// Finds the objects of a list one by one (brackets and strings alone), and gives each to simdjson.
// So the text need not be in memory as a whole, and damage costs the objects that it is in.
#include "stepcast/text/json_stream.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "files.h"
#include "json_window.h"

namespace stepcast::text {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kMostKeys = 8;
constexpr std::size_t kHead = 512;
constexpr std::int64_t kMostDamage = 1000;  // beyond it the rest is not searched: it is no list
constexpr std::size_t kLongestFact = std::size_t{1} << 20;  // longer ones are passed over

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// What a byte means to the search for an object's end.
enum class Mark : std::uint8_t { none, quote, escape, open, close, control };
constexpr auto kMarks = [] {
  std::array<Mark, 256> marks{};
  for (std::size_t c = 0; c < 0x20; ++c) {
    marks[c] = Mark::control;
  }
  marks['"'] = Mark::quote, marks['\\'] = Mark::escape;
  marks['{'] = marks['['] = Mark::open;
  marks['}'] = marks[']'] = Mark::close;
  return marks;
}();
Mark mark_of(char c) { return kMarks[static_cast<unsigned char>(c)]; }

// A search that goes on where the loaded text ended.
struct Search {
  std::size_t at = 0;
  int depth = 0;
  bool in_string = false;
};
enum class Found { end, more, fault };

// Looks for the end of the value that the text begins with: `search.at` is then behind it. A line
// that ends within a string is a fault: there a quote was lost.
Found find_end(std::string_view text, Search& search) {
  const char* const last = text.data() + text.size();
  const char* at = text.data() + search.at;
  const auto stop = [&](Found found) {
    search.at = static_cast<std::size_t>(at - text.data());
    return found;
  };
  while (at < last) {
    if (search.in_string) {
      const Mark mark = mark_of(*at);
      if (mark == Mark::quote) {
        search.in_string = false;
      } else if (mark == Mark::escape) {
        if (last - at < 2) {
          return stop(Found::more);
        }
        ++at;
      } else if (mark == Mark::control) {
        return stop(Found::fault);
      }
    } else {
      const Mark mark = mark_of(*at);
      if (mark == Mark::quote) {
        search.in_string = true;
      } else if (mark == Mark::open) {
        if (++search.depth > kDepthLimit) {
          return stop(Found::fault);
        }
      } else if (mark == Mark::close && --search.depth <= 0) {
        ++at;
        return stop(search.depth == 0 ? Found::end : Found::fault);
      }
    }
    ++at;
  }
  return stop(Found::more);
}

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && (is_space(token.back()) || token.back() == ',')) {
    token.remove_suffix(1);
  }
  return token;
}

class ListReader {
 public:
  ListReader(const std::filesystem::path& file, std::string_view list, JsonListReader& to)
      : window_(file), list_(list), to_(to) {}

  JsonStream read() {
    const char first = peek();
    out_.head = window_.text().substr(0, kHead);
    out_.json = first == '[' || first == '{';
    if (first == '[') {
      out_.found = true;
      list();
    } else if (first == '{') {
      window_.drop(1);
      document();
    }
    out_.compressed = window_.compressed();
    out_.why = window_.why();
    while (!window_.text().empty() || window_.more()) {
      window_.drop(window_.text().size());  // a check of the compressed file up to its end
    }
    out_.bytes = window_.offset();
    return std::move(out_);
  }

 private:
  // The next byte that is no space; 0 at the end of the file.
  char peek() {
    for (;;) {
      const std::string_view text = window_.text();
      std::size_t at = 0;
      while (at < text.size() && is_space(text[at])) {
        ++at;
      }
      window_.drop(at);
      if (at < text.size()) {
        return text[at];
      }
      if (!window_.more()) {
        return '\0';
      }
    }
  }

  void fault() {
    if (out_.damaged++ == 0) {
      out_.first_fault = window_.offset();
    }
    objects_at_fault_ = out_.objects;
  }
  // Damage in the last object is what the end cut off, and is counted once.
  void ends_early() {
    out_.cut = true;
    if (out_.damaged == 0 || out_.objects > objects_at_fault_) {
      fault();
    }
  }

  void document() {
    for (;;) {
      const char c = peek();
      if (c == '}') {
        return;
      }
      if (c == ',') {
        window_.drop(1);
        continue;
      }
      if (c != '"') {
        c == '\0' ? ends_early() : fault();
        return;
      }
      const std::string key = string();
      if (peek() != ':') {
        peek() == '\0' ? ends_early() : fault();
        return;
      }
      window_.drop(1);
      if (out_.keys.size() < kMostKeys) {
        out_.keys.push_back(key);
      }
      if (key == list_ && peek() == '[') {
        out_.found = true;
        list();
      } else if (!value(key)) {
        return;
      }
    }
  }

  // A short string at the cursor, without its quotes and with its escapes as they are.
  std::string string() {
    Search search{1, 1, true};
    while (search.in_string) {
      const std::string_view text = window_.text();
      while (search.at < text.size() && text[search.at] != '"') {
        search.at += text[search.at] == '\\' ? 2 : 1;
      }
      if (search.at < text.size()) {
        search.in_string = false;
      } else if (!window_.more()) {
        return "";
      }
    }
    std::string out(window_.text().substr(1, search.at - 1));
    window_.drop(search.at + 1);
    return out;
  }

  // A value beside the list: its scalars become facts.
  bool value(const std::string& key) {
    const char c = peek();
    Search search;
    if (c == '"') {
      to_.fact(key, string());
      return true;
    }
    if (c != '{' && c != '[') {
      scalar(key);
      return true;
    }
    Found found = Found::more;
    while ((found = find_end(window_.text(), search)) == Found::more) {
      if (search.at > kLongestFact) {
        window_.drop(search.at);
        search.at = 0;
      }
      if (!window_.more()) {
        ends_early();
        return false;
      }
    }
    if (found == Found::fault) {
      fault();
      return false;
    }
    ondemand::document document;
    ondemand::value top;
    if (window_.text().front() == c && !parse(search.at, document) &&
        !document.get_value().get(top)) {
      facts(key, top, 0);
    }
    window_.drop(search.at);
    return true;
  }

  void scalar(const std::string& key) {
    std::size_t at = 0;
    for (;;) {
      const std::string_view text = window_.text();
      while (at < text.size() && text[at] != ',' && text[at] != '}' && at < 1000) {
        ++at;
      }
      if (at < text.size() || !window_.more()) {
        break;
      }
    }
    to_.fact(key, trimmed(window_.text().substr(0, at)));
    window_.drop(at);
  }

  bool parse(std::size_t length, ondemand::document& document) {
    return parser_.iterate(window_.text().data(), length, window_.readable()).get(document) !=
           simdjson::SUCCESS;
  }

  void facts(const std::string& path, ondemand::value value, int depth) {
    ondemand::json_type type{};
    if (depth > kDepthLimit || value.type().get(type)) {
      return;
    }
    if (type == ondemand::json_type::object) {
      for (auto field : value.get_object()) {
        std::string_view key;
        ondemand::value below;
        if (field.unescaped_key().get(key) || field.value().get(below)) {
          return;
        }
        facts(path + "." + std::string(key), below, depth + 1);
      }
    } else if (type == ondemand::json_type::array) {
      int number = 0;
      for (auto item : value.get_array()) {
        ondemand::value below;
        if (item.get(below)) {
          return;
        }
        facts(path + "." + std::to_string(number++), below, depth + 1);
      }
    } else if (std::string_view text; type == ondemand::json_type::string) {
      if (!value.get_string().get(text)) {
        to_.fact(path, text);
      }
    } else {
      to_.fact(path, trimmed(value.raw_json_token()));
    }
  }

  void list() {
    window_.drop(1);
    while (out_.damaged < kMostDamage) {
      const char c = peek();
      if (c == ',') {
        window_.drop(1);
      } else if (c == '{') {
        item();
      } else if (c == ']') {
        window_.drop(1);
        return;
      } else if (c == '\0') {
        ends_early();
        return;
      } else {
        fault();
        skip_to_object();
      }
    }
  }

  // One object of the list at the cursor.
  void item() {
    Search search;
    Found found = Found::more;
    while ((found = find_end(window_.text(), search)) == Found::more) {
      if (!window_.more()) {
        break;
      }
    }
    if (found == Found::end && give(search.at)) {
      ++out_.objects;
      window_.drop(search.at);
    } else {
      fault();
      window_.drop(1);
      skip_to_object();
    }
  }

  // Moves to the next object that follows a comma, which may lie within the damage.
  void skip_to_object() {
    char before = '\0';
    for (;;) {
      const std::string_view text = window_.text();
      for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '{' && before == ',') {
          window_.drop(at);
          return;
        }
        before = is_space(text[at]) ? before : text[at];
      }
      window_.drop(text.size());
      if (!window_.more()) {
        return;
      }
    }
  }

  bool give(std::size_t length) {
    ondemand::document document;
    ondemand::object object;
    if (parse(length, document) || document.get_object().get(object)) {
      return false;
    }
    to_.begin();
    more_ = true;
    if (!members(object, "", 0)) {
      return false;
    }
    to_.end();
    return true;
  }

  // False where the object is no JSON.
  bool members(ondemand::object& object, std::string_view parent, int depth) {
    for (auto field : object) {
      std::string_view key, text;
      ondemand::value value;
      if (field.unescaped_key().get(key) || field.value().get(value)) {
        return false;
      }
      if (!to_.wants(parent, key)) {
        continue;
      }
      ondemand::json_type type{};
      if (value.type().get(type)) {
        more_ = to_.member(parent, key, trimmed(value.raw_json_token()), JsonKind::word);
      } else if (type == ondemand::json_type::object) {
        ondemand::object below;
        if (value.get_object().get(below)) {
          return false;
        }
        if (depth > 0) {
          if (below.raw_json().get(text)) {
            return false;
          }
          more_ = to_.member(parent, key, text, JsonKind::object);
        } else if (!members(below, key, 1)) {
          return false;
        }
      } else if (type == ondemand::json_type::array) {
        ondemand::array below;
        if (value.get_array().get(below) || below.raw_json().get(text)) {
          return false;
        }
        more_ = to_.member(parent, key, text, JsonKind::list);
      } else if (type == ondemand::json_type::string) {
        if (value.get_string().get(text)) {
          return false;
        }
        more_ = to_.member(parent, key, text, JsonKind::string);
      } else {
        more_ = to_.member(parent, key, trimmed(value.raw_json_token()),
                           type == ondemand::json_type::number ? JsonKind::number : JsonKind::word);
      }
      if (!more_) {
        return true;
      }
    }
    return true;
  }

  JsonWindow window_;
  std::string_view list_;
  JsonListReader& to_;
  JsonStream out_;
  ondemand::parser parser_;
  std::int64_t objects_at_fault_ = 0;
  bool more_ = true;
};

}  // namespace

bool have_json_stream() { return true; }

JsonStream stream_json(const std::filesystem::path& file, std::string_view list,
                       JsonListReader& reader) {
  return ListReader(file, list, reader).read();
}

}  // namespace stepcast::text
