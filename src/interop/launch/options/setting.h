// One option of a training system, from a command line or a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stepcast/text/document.h"

namespace stepcast::interop::launch {

using text::Value;

struct Setting {
  std::string name;  // without leading dashes, '-' for '_': "num-layers", "zero-optimization.stage"
  std::string shown;  // the name as the system writes it
  Origin origin;
  Value value;                    // null: a bare flag; several values: a sequence
  std::vector<std::string> open;  // shell variables in the value that nothing sets
  std::string section = {};  // of a file, where the system's options are named without it: "model"
};

// The name with '-' for '_', since "num_layers" and "num-layers" are the same option.
std::string canonical(std::string_view name);

// The value as one line of text.
std::string plain_text(const Value& value);

// The words of a list, or of a text with commas or blanks between them.
std::vector<std::string> words_of(const Value& value);

// Whether a setting is null, which in a file means the same as a missing key.
bool says_nothing(const Setting& setting);

// Whether they set the same option. The same name in two sections is two options; one without a
// section, or with the end of one alone, is that of any such section.
bool same_option(const Setting& one, const Setting& other);

// The entries of nested maps as settings "a.b.c", with the origins of their keys; lists remain
// values.
std::vector<Setting> flatten(const Value& document, const std::string& prefix = "");

// The setting of a "NAME=VALUE" of the command line, with or without dashes.
Setting argument(const std::string& text);

// Words of a command: "--name value ...", "--name=value", "name=value" (where `bare` allows), "-n
// value".
struct Word {
  std::string text;
  Origin origin;
  bool quoted = false;  // in quotes, so that it is a value even when it is empty
  std::vector<std::string> open;
};
std::vector<Setting> settings_of(const std::vector<Word>& words, bool bare);

}  // namespace stepcast::interop::launch
