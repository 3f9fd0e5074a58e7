#include "setting.h"

#include <algorithm>
#include <cctype>

namespace stepcast::interop::launch {

std::string canonical(std::string_view name) {
  while (name.starts_with('-')) {
    name.remove_prefix(1);
  }
  std::string out(name);
  for (char& c : out) {
    c = c == '_' ? '-' : c;
  }
  return out;
}

std::string plain_text(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return "";
    case Value::Kind::scalar:
      return value.scalar;
    case Value::Kind::sequence: {
      std::string out;
      for (const Value& item : value.items) {
        out += (out.empty() ? "" : " ") + plain_text(item);
      }
      return out;
    }
    case Value::Kind::map:
      return "{...}";
  }
  return "";
}

std::vector<std::string> words_of(const Value& value) {
  std::vector<std::string> out;
  if (value.kind == Value::Kind::sequence) {
    for (const Value& item : value.items) {
      out.push_back(plain_text(item));
    }
    return out;
  }
  const std::string text = plain_text(value);
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find_first_of(", ", begin), text.size());
    if (end > begin) {
      out.push_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return out;
}

bool says_nothing(const Setting& setting) {
  return setting.value.kind == Value::Kind::scalar && !setting.value.quoted &&
         setting.value.scalar == "null";
}

namespace {

// Whether a path of sections is the end of another: "ddp" of "trainer.strategy.ddp", "" of any.
bool ends_path(std::string_view path, std::string_view end) {
  return path == end || end.empty() || path.ends_with("." + std::string(end));
}

}  // namespace

bool same_option(const Setting& one, const Setting& other) {
  return one.name == other.name &&
         (ends_path(one.section, other.section) || ends_path(other.section, one.section));
}

std::vector<Setting> flatten(const Value& document, const std::string& prefix) {
  std::vector<Setting> out;
  for (const auto& entry : document.entries) {
    const std::string shown = prefix.empty() ? entry.key : prefix + "." + entry.key;
    if (entry.value.kind == Value::Kind::map && !entry.value.entries.empty()) {
      std::vector<Setting> below = flatten(entry.value, shown);
      out.insert(out.end(), below.begin(), below.end());
    } else {
      out.push_back({canonical(shown), shown, entry.origin, entry.value, {}});
      if (entry.value.kind == Value::Kind::null) {  // unlike a bare flag
        out.back().value.kind = Value::Kind::scalar;
        out.back().value.scalar = "null";
      }
    }
  }
  return out;
}

Setting argument(const std::string& text) {
  const std::size_t equals = text.find('=');
  Setting s;
  s.shown = text.substr(0, equals);
  s.name = canonical(s.shown);
  s.origin = {text, 0, 0};
  if (equals != std::string::npos) {
    s.value.kind = Value::Kind::scalar;
    s.value.scalar = text.substr(equals + 1);
    if (s.value.scalar == "None" || s.value.scalar == "~") {  // Python's and YAML's null
      s.value.scalar = "null";
    }
    s.value.origin = s.origin;
  }
  return s;
}

namespace {

bool is_number(std::string_view word) {
  return word.size() > 1 && (std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.');
}

bool is_flag(const Word& word) {
  return word.text.size() > 1 && word.text[0] == '-' && !is_number(word.text);
}

bool is_assignment(const Word& word) {
  const std::size_t equals = word.text.find('=');
  return equals != std::string::npos && equals > 0 &&
         std::all_of(word.text.begin(), word.text.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

bool is_program(const Word& word) {
  return word.text.ends_with(".py") || word.text.ends_with(".sh");
}

Value scalar_of_word(const Word& word) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.scalar = word.text;
  v.origin = word.origin;
  return v;
}

void add_value(Setting& setting, const Word& word) {
  setting.open.insert(setting.open.end(), word.open.begin(), word.open.end());
  if (setting.value.kind == Value::Kind::null) {
    setting.value = scalar_of_word(word);
    return;
  }
  if (setting.value.kind == Value::Kind::scalar) {
    Value list;
    list.kind = Value::Kind::sequence;
    list.origin = setting.value.origin;
    list.items.push_back(setting.value);
    setting.value = std::move(list);
  }
  setting.value.items.push_back(scalar_of_word(word));
}

}  // namespace

std::vector<Setting> settings_of(const std::vector<Word>& words, bool bare) {
  std::vector<Setting> out;
  bool takes_values = false;  // words without dashes are values of the flag before
  for (const Word& word : words) {
    const bool assigned = bare && is_assignment(word);
    if (!is_flag(word) && !assigned) {
      // A program ends the options of its launcher; an empty word from an unset variable is
      // ignored.
      takes_values = takes_values && !is_program(word);
      const bool nothing = word.text.empty() && !word.quoted && !word.open.empty() &&
                           !out.empty() && out.back().value.kind != Value::Kind::null;
      if (takes_values && !nothing) {
        add_value(out.back(), word);
      }
      continue;
    }
    Setting s;
    const std::size_t equals = word.text.find('=');
    s.shown = word.text.substr(0, equals);
    s.name = canonical(s.shown);
    s.origin = word.origin;
    if (equals != std::string::npos) {
      Word value = word;
      value.text = word.text.substr(equals + 1);
      add_value(s, value);
    }
    out.push_back(std::move(s));
    takes_values = !assigned && equals == std::string::npos;
  }
  return out;
}

}  // namespace stepcast::interop::launch
