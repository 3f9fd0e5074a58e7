// Variables of a script and the words that they expand to. Every character keeps its place in the
// source, so that messages on a flag in a string or an array point to where it was written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../options/setting.h"
#include "shell_lexer.h"

namespace stepcast::interop::launch {

// Text with the place of every character. A name between kOpen and kClose is a variable
// without a value.
struct Located {
  std::string text;
  std::vector<Origin> places;
  void add(char c, const Origin& where);
  void add(const Located& other);
};

class Shell {
 public:
  void set(const std::string& name, const std::string& value);  // from outside the script
  void assign(const Token& token);                              // NAME=..., NAME+=..., NAME=(...)
  static bool is_assignment(std::string_view word);

  // The words of a token: unquoted variables are split at blanks.
  std::vector<Word> words(const Token& token);
  // A text that a command evaluates (eval, bash -c) as words.
  static std::vector<Word> split(const Word& word);
  // Flags in variables that no other variable uses, for scripts that only set variables.
  std::vector<Word> flags_in_variables() const;

 private:
  struct Variable {
    std::vector<Located> items;
    bool array = false;
    int order = 0;
  };
  struct Fields {
    std::vector<std::pair<Located, bool>> done;  // finished words, and whether they are quoted
    Located current;
    bool started = false;
    bool quoted = false;
    void end();
  };
  struct Expanded {
    std::vector<Located> items;
    bool separate = false;  // "${A[@]}": each item is a word even in quotes
  };

  void expand(std::string_view raw, Origin at, bool in_quotes, Fields& out);
  Located joined(std::string_view raw, const Origin& at);
  Expanded dollar(std::string_view raw, const Origin& at);
  Expanded braces(std::string_view inside, const Origin& at);
  Expanded value(const std::string& name, const std::string& index, const Origin& at);
  std::optional<std::int64_t> arithmetic(std::string_view text, const Origin& at);

  std::map<std::string, Variable, std::less<>> variables_;
  std::set<std::string> used_;  // variables that others use
  bool assigning_ = false;
  int order_ = 0;
};

}  // namespace stepcast::interop::launch
