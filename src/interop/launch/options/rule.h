// How options are read: tables of rules, and what a system's reader is made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "draft.h"

namespace stepcast::interop::launch {

// How one option is read. If there is `apply`, that function reads it (`key` is what it would set,
// for messages where its value is missing); else the value is copied to `key`; without both, the
// system's `finish` reads it.
struct Rule {
  std::string_view name;
  std::string_view key = {};
  void (*apply)(Draft&, const Setting&, std::string_view key) = nullptr;
  bool bare = false;  // a flag without a value
  // What the key is where the flag is off and no other option sets it: for systems whose default is
  // that of the flag switched on.
  std::string_view off = {};
  std::string_view same_as = {};  // another spelling of this option, whose rule stands for both
};

// An option that is not read, and why. A name may end in '*'.
struct Unread {
  std::string_view name;
  std::string_view reason;
};

// An option that names a file with further options, and what that ends in where the option may name
// something else too. `states`: whether a setting is one of such a file, which shows that it is
// among the inputs, under whatever name. A file may name those that are listed behind it.
struct NamedFile {
  std::string_view option;
  bool (*states)(const Setting& setting);
  std::string_view extension = {};
};

// Whether a setting is of a document, and not of a command line.
bool of_document(const Setting& setting);

struct Reader {
  std::string_view system;
  std::string_view preset;
  std::vector<const std::vector<Rule>*> rules;
  std::vector<const std::vector<Unread>*> meaningless;
  std::vector<const std::vector<Unread>*> unmodelled;
  void (*finish)(Draft&);
  bool bare = false;  // NAME=VALUE without dashes is an option
  std::vector<std::string_view> sections =
      {};  // sections of a file; on a command line their options have no prefix
  // Python files among the inputs are recipes; the function where recipe=NAME does not name it.
  bool recipes = false;
  std::string_view recipe = {};
  std::vector<NamedFile> files = {};
};

// A flag that the system's `finish` reads.
inline Rule flag(std::string_view name, std::string_view key = {},
                 void (*apply)(Draft&, const Setting&, std::string_view) = nullptr) {
  return {name, key, apply, true};
}

// Another spelling of an option, as other versions of the system have it: either overrides the
// other.
inline Rule spelling(std::string_view name, std::string_view same_as) {
  return {name, {}, nullptr, false, {}, same_as};
}

// A word that is a template's argument.
template <std::size_t N>
struct Literal {
  constexpr Literal(const char (&word)[N]) {
    std::copy_n(word, N, text);
  }  // NOLINT: from a literal
  char text[N];
};

// Sets the key to `kWord` where the flag is true.
template <Literal kWord>
void if_true(Draft& draft, const Setting& setting, std::string_view key) {
  if (is_true(setting)) {
    draft.set(setting, key, kWord.text);
  }
}

void yes(Draft& draft, const Setting& setting, std::string_view key);
void no(Draft& draft, const Setting& setting, std::string_view key);
// For options that the system's `finish` reads; `key` is for messages where the value is missing.
void later(Draft& draft, const Setting& setting, std::string_view key);
// Sets a number format from names such as "bfloat16" and "float32".
void number_format(Draft& draft, const Setting& setting, std::string_view key);
// Sets a size that the option has in MiB.
void mebibytes(Draft& draft, const Setting& setting, std::string_view key);
// A flag that, if true, is not modelled; if false, it states what forecasts assume anyway.
void unmodelled_if_true(Draft& draft, const Setting& setting, std::string_view why);

}  // namespace stepcast::interop::launch
