#include "shell.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "../options/verdict.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

bool trains(const Word& word) {
  const std::string name = std::filesystem::path(word.text).filename().string();
  static constexpr std::array<std::string_view, 9> kLaunchers = {
      "torchrun",   "deepspeed",      "accelerate", "axolotl",         "colossalai",
      "horovodrun", "nnscaler-train", "tune",       "llamafactory-cli"};
  return word.text.ends_with(".py") ||
         std::find(kLaunchers.begin(), kLaunchers.end(), name) != kLaunchers.end();
}

class Runner {
 public:
  Runner(Shell& shell, const std::vector<Token>& tokens, std::vector<std::vector<Word>>& commands,
         std::vector<Fault>& remarks)
      : shell_(shell), tokens_(tokens), commands_(commands), remarks_(remarks) {}

  void all() {
    while (tokens_[at_].kind != Token::Kind::end) {
      list(true, {});
      if (tokens_[at_].kind != Token::Kind::end) {
        ++at_;  // skip a closing word without an opening one
      }
    }
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  bool is(std::string_view text) const {
    return now().kind != Token::Kind::array && now().kind != Token::Kind::end && now().text == text;
  }
  bool ends_command() const {
    return now().kind == Token::Kind::end ||
           (now().kind == Token::Kind::operation && !is("<") && !is(">") && !is("<<") &&
            !is("<<<") && !is(">>") && !is("&>") && !is(">&") && !is("<&"));
  }

  // Commands up to one of the words `stops` at the beginning of a command.
  void list(bool run, const std::vector<std::string_view>& stops) {
    constexpr int kDeepest = 64;
    if (++depth_ > kDeepest) {
      throw InputError(Fault{now().origin, "the script is nested too deeply; expected 64 levels"});
    }
    while (now().kind != Token::Kind::end) {
      if (std::any_of(stops.begin(), stops.end(), [&](auto s) { return is(s); })) {
        break;
      }
      if (is(";;")) {
        ++at_;
      } else if (is("if")) {
        condition(run);
      } else if (is("for") || is("while") || is("until") || is("select")) {
        skip(run, "loop", "done", {"for", "while", "until", "select"});
      } else if (is("case")) {
        skip(run, "case", "esac", {"case"});
      } else if (ends_command()) {
        ++at_;
      } else {
        chain(run);
      }
    }
    --depth_;
  }

  void skip(bool run, const char* what, std::string_view close,
            const std::vector<std::string_view>& opens) {
    if (run) {
      remarks_.push_back(
          {now().origin, std::string("a ") + what +
                             " of the script is not evaluated, so its commands are left out"});
    }
    int depth = 0;
    bool first = true;  // keywords are recognised only at the beginning of a command
    for (; now().kind != Token::Kind::end; ++at_) {
      if (first && std::any_of(opens.begin(), opens.end(), [&](auto s) { return is(s); })) {
        ++depth;
      } else if (first && is(close) && --depth == 0) {
        ++at_;
        return;
      }
      first = now().kind == Token::Kind::operation || is("do") || is("then") || is("else");
    }
  }

  void condition(bool run) {
    const Origin where = now().origin;
    bool done = !run;
    bool undecided = false;
    while (is("if") || is("elif")) {
      ++at_;
      const Verdict holds = test("then", !done);
      undecided = undecided || (!done && holds == Verdict::unknown);
      if (is("then")) {
        ++at_;
      }
      const bool taken = !done && holds == Verdict::yes;
      list(taken, {"elif", "else", "fi"});
      done = done || taken;
    }
    if (is("else")) {
      ++at_;
      list(!done, {"fi"});
    }
    if (is("fi")) {
      ++at_;
    }
    if (undecided) {
      remarks_.push_back({where, "a condition of the script is not evaluated and counts as false"});
    }
  }

  // Tests joined by && and || up to the word `stop`.
  Verdict test(std::string_view stop, bool run) {
    Verdict all = Verdict::yes;
    bool any = false;
    while (now().kind != Token::Kind::end && !is(stop)) {
      if (is("&&") || is("||")) {
        any = is("||");
        ++at_;
        continue;
      }
      if (ends_command()) {
        ++at_;
        continue;
      }
      const Verdict one = decide(command(), run);
      all = any ? either(all, one) : both(all, one);
    }
    return all;
  }

  // The tokens of one simple command, without redirections.
  std::vector<const Token*> command() {
    std::vector<const Token*> out;
    while (!ends_command()) {
      if (now().kind == Token::Kind::operation) {
        ++at_;  // the file of a redirection
        if (!ends_command()) {
          ++at_;
        }
        continue;
      }
      out.push_back(&now());
      ++at_;
    }
    return out;
  }

  Verdict decide(const std::vector<const Token*>& tokens, bool run) {
    if (!run) {
      return Verdict::unknown;
    }
    std::vector<Word> words;
    for (const Token* token : tokens) {
      auto more = token->kind == Token::Kind::word ? shell_.words(*token) : std::vector<Word>{};
      // [[ $X = y ]]: words are not split there, and an unset variable is an empty word.
      if (more.empty()) {
        more.push_back({"", token->origin, true, {}});
      }
      words.insert(words.end(), more.begin(), more.end());
    }
    const auto bracket = [](const Word& w) {
      return w.text == "[" || w.text == "[[" || w.text == "]" || w.text == "]]" || w.text == "test";
    };
    words.erase(std::remove_if(words.begin(), words.end(), bracket), words.end());
    if (!words.empty() && words.front().text == "!") {
      words.erase(words.begin());
      return opposite_of(test_of(words));
    }
    return test_of(words);
  }

  static Verdict test_of(const std::vector<Word>& words) {
    for (const Word& word : words) {
      // The output of a command cannot be known; an unset variable is empty.
      for (const std::string& open : word.open) {
        if (open.starts_with("$") || open.starts_with("`")) {
          return Verdict::unknown;
        }
      }
    }
    if (words.size() == 1) {
      return words[0].text == "true"    ? Verdict::yes
             : words[0].text == "false" ? Verdict::no
                                        : Verdict::unknown;
    }
    if (words.size() == 2 && (words[0].text == "-z" || words[0].text == "-n")) {
      return verdict(words[1].text.empty() == (words[0].text == "-z"));
    }
    if (words.size() != 3) {
      return Verdict::unknown;
    }
    const std::string& how = words[1].text;
    const std::string& a = words[0].text;
    const std::string& b = words[2].text;
    if (b.find_first_of("*?[") == std::string::npos) {
      if (how == "=" || how == "==") {
        return verdict(a == b);
      }
      if (how == "!=") {
        return verdict(a != b);
      }
    }
    const auto x = text::number<std::int64_t>(a);
    const auto y = text::number<std::int64_t>(b);
    if (!x || !y) {
      return Verdict::unknown;
    }
    return how == "-eq"   ? verdict(*x == *y)
           : how == "-ne" ? verdict(*x != *y)
           : how == "-lt" ? verdict(*x < *y)
           : how == "-le" ? verdict(*x <= *y)
           : how == "-gt" ? verdict(*x > *y)
           : how == "-ge" ? verdict(*x >= *y)
                          : Verdict::unknown;
  }

  // command && command || command.
  void chain(bool run) {
    Verdict last = simple(command(), run);
    while (is("&&") || is("||")) {
      const bool both = is("&&");
      const Origin where = now().origin;
      ++at_;
      while (is("\n")) {
        ++at_;
      }
      if (run && last == Verdict::unknown) {
        remarks_.push_back(
            {where, "a condition of the script is not evaluated and counts as false"});
        last = Verdict::no;
      }
      const bool next = run && (last == Verdict::yes) == both;
      const Verdict result = simple(command(), next);
      last = next ? result : last;
    }
  }

  // Programs are assumed to succeed.
  Verdict simple(const std::vector<const Token*>& tokens, bool run) {
    if (!run || tokens.empty()) {
      return Verdict::yes;
    }
    const std::string_view first = tokens.front()->text;
    if (tokens.front()->kind == Token::Kind::word &&
        (first == "[" || first == "[[" || first == "test" || first == "!")) {
      return decide(tokens, run);
    }
    std::size_t i = 0;
    if (first == "export" || first == "declare" || first == "local" || first == "readonly" ||
        first == "typeset" || first == "set" || first == "env") {
      ++i;
    }
    while (i < tokens.size() &&
           (tokens[i]->kind == Token::Kind::array || Shell::is_assignment(tokens[i]->text) ||
            (i > 0 && tokens[i]->text.starts_with("-")))) {
      if (Shell::is_assignment(tokens[i]->text)) {
        shell_.assign(*tokens[i]);
      }
      ++i;
    }
    std::vector<Word> words;
    for (; i < tokens.size(); ++i) {
      if (tokens[i]->kind == Token::Kind::array) {
        continue;
      }
      const auto more = shell_.words(*tokens[i]);
      words.insert(words.end(), more.begin(), more.end());
    }
    program(std::move(words));
    return Verdict::yes;
  }

  void program(std::vector<Word> words) {
    if (words.empty()) {
      return;
    }
    if (words.front().text == "source" || words.front().text == ".") {
      remarks_.push_back({words.front().origin,
                          "the script reads another one; give that file too, before this one"});
      return;
    }
    // eval "$CMD", srun bash -c "...": a text that is a command.
    std::vector<Word> flat;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool evaluated = words.front().text == "eval" || (i > 0 && words[i - 1].text == "-c");
      const bool command = evaluated || (words[i].text.find(".py ") != std::string::npos);
      if (command && words[i].text.find(' ') != std::string::npos) {
        const auto more = Shell::split(words[i]);
        flat.insert(flat.end(), more.begin(), more.end());
      } else {
        flat.push_back(words[i]);
      }
    }
    static constexpr std::array<std::string_view, 6> kOthers = {"echo", "mkdir", "cp",
                                                                "cat",  "cd",    "printf"};
    const bool other =
        std::find(kOthers.begin(), kOthers.end(), flat.front().text) != kOthers.end();
    if (!other && std::any_of(flat.begin(), flat.end(), trains)) {
      commands_.push_back(std::move(flat));
    }
  }

  Shell& shell_;
  const std::vector<Token>& tokens_;
  std::vector<std::vector<Word>>& commands_;
  std::vector<Fault>& remarks_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

std::ptrdiff_t flags_in(const std::vector<Word>& words) {
  return std::count_if(words.begin(), words.end(),
                       [](const Word& w) { return w.text.starts_with("--"); });
}

void define(Shell& shell, const std::vector<std::string>& variables) {
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || !Shell::is_assignment(variable)) {
      throw InputError(
          Fault{{"--define " + variable, 0, 0}, "no variable with a value; expected NAME=VALUE"});
    }
    shell.set(variable.substr(0, equals), variable.substr(equals + 1));
  }
}

Script chosen(const Shell& shell, std::vector<std::vector<Word>> commands,
              std::vector<Fault> remarks) {
  Script out;
  out.remarks = std::move(remarks);
  const auto most =
      std::max_element(commands.begin(), commands.end(),
                       [](const auto& a, const auto& b) { return flags_in(a) < flags_in(b); });
  if (most == commands.end()) {
    out.words = shell.flags_in_variables();
    return out;
  }
  for (auto it = commands.begin(); it != commands.end(); ++it) {
    if (it != most && flags_in(*it) > 0) {
      out.remarks.push_back(
          {it->front().origin, "another program of the script: its options are left out"});
    }
  }
  out.words = std::move(*most);
  return out;
}

}  // namespace

Script run_scripts(const std::vector<std::string>& files,
                   const std::vector<std::string>& variables) {
  Shell shell;
  define(shell, variables);
  std::vector<std::vector<Word>> commands;
  std::vector<Fault> remarks;
  for (const std::string& file : files) {
    const std::string source = text::read_text(file);
    const auto tokens = lex_shell(source, file);
    Runner(shell, tokens, commands, remarks).all();
  }
  return chosen(shell, std::move(commands), std::move(remarks));
}

Script run_script(const std::string& source, const std::string& name,
                  const std::vector<std::string>& variables) {
  Shell shell;
  define(shell, variables);
  std::vector<std::vector<Word>> commands;
  std::vector<Fault> remarks;
  const auto tokens = lex_shell(source, name);
  Runner(shell, tokens, commands, remarks).all();
  return chosen(shell, std::move(commands), std::move(remarks));
}

std::vector<Word> read_flags(const std::string& source, const std::string& name,
                             const std::vector<std::string>& variables) {
  Shell shell;
  define(shell, variables);
  std::vector<Word> out;
  int line = 0;
  std::size_t begin = 0;
  while (begin < source.size()) {
    const std::size_t end = std::min(source.find('\n', begin), source.size());
    std::string text = source.substr(begin, end - begin);
    ++line;
    begin = end + 1;
    // Lines without a flag are remains of the script that the flags were copied from.
    const std::size_t dash = text.find_first_not_of(" \t");
    if (dash == std::string::npos || text[dash] != '-') {
      continue;
    }
    if (text.ends_with('\\')) {
      text.pop_back();
    }
    for (const char quote : {'"', '\''}) {
      if (std::count(text.begin(), text.end(), quote) % 2 != 0) {
        text[text.rfind(quote)] = ' ';
      }
    }
    const auto tokens = lex_shell(text, name);
    for (Token token : tokens) {
      if (token.kind == Token::Kind::word && token.text != "\\") {
        token.origin.line = line;
        const auto more = shell.words(token);
        out.insert(out.end(), more.begin(), more.end());
      }
    }
  }
  for (Word& word : out) {
    word.origin.file = name;
  }
  return out;
}

}  // namespace stepcast::interop::launch
