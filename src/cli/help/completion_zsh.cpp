// A script for zsh: one function a command, whose options `_arguments` describes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion_words.h"

namespace stepcast::cli {
namespace {

// Text within single quotes; `escaped`: characters that the reader of a specification would take as
// its own.
std::string zsh_text(std::string_view text, std::string_view escaped) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += escaped.find(c) == std::string_view::npos ? std::string(1, c) : std::string{'\\', c};
    }
  }
  return out + "'";
}

std::string function_of(const CommandWords& command) {
  return fmt::format("_simulate_{}{}", command.path.empty() ? "" : "_",
                     fmt::join(command.path, "_"));
}

// "--set=[the key and its value]:KEY=VALUE:_files", one for each name of the option.
std::string specifications(const OptionWords& option) {
  constexpr std::string_view kSpecial = "[]:\\";
  const auto text = [&](const std::string& words) {
    const std::string out = zsh_text(words, kSpecial);
    return out.substr(1, out.size() - 2);
  };
  std::string out;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    out += fmt::format(" \\\n    '{}{}{}[{}]",
                       option.repeats ? "*" : fmt::format("({})", fmt::join(option.names, " ")),
                       name, option.value.empty() || !is_long ? "" : "=", text(option.help));
    if (!option.value.empty()) {
      out +=
          fmt::format(":{}:{}", text(option.value),
                      option.values.empty() ? std::string("_files")
                                            : fmt::format("({})", fmt::join(option.values, " ")));
    }
    out += "'";
  }
  return out;
}

// Offers the words of the command's arguments beside files; behind a key no space follows its '='.
std::string offers(const CommandWords& command) {
  std::vector<std::string> words, keys, below;
  for (const std::string& word : command.arguments) {
    (word.ends_with('=') ? keys : words).push_back(word);
  }
  for (const Command* one : command.below) {
    below.push_back(zsh_text(one->name + ":" + one->summary, ""));
  }
  std::string out = function_of(command) + "_words() {\n";
  if (!below.empty()) {
    out += fmt::format(
        "  local -a commands=({})\n  (( CURRENT == 2 )) && _describe command commands\n",
        fmt::join(below, " "));
  }
  if (!words.empty()) {
    out += fmt::format("  compadd -- {}\n", fmt::join(words, " "));
  }
  if (!keys.empty()) {
    out += fmt::format("  compadd -S '' -- {}\n", fmt::join(keys, " "));
  }
  return out + "  _files\n}\n";
}

}  // namespace

std::string zsh_completion(const std::vector<CommandWords>& commands) {
  std::string out =
      "#compdef simulate stepcast\n"
      "# zsh completion of simulate: the file _simulate in a folder of $fpath, or\n"
      "# source <(simulate completion zsh)\n";
  for (const CommandWords& command : commands) {
    out += offers(command);
    out += function_of(command) + "() {\n  _arguments -S";
    for (const OptionWords& option : command.options) {
      out += specifications(option);
    }
    out += fmt::format(" \\\n    '*: :{}_words'\n}}\n", function_of(command));
  }
  // The line is cut before the deepest command that it names, whose own function goes on from
  // there.
  out +=
      "_simulate() {\n"
      "  local command=_simulate_\n"
      "  while (( CURRENT > 2 && $+functions[${command}_$words[2]_words] )); do\n"
      "    command=${command}_$words[2]\n"
      "    shift words\n"
      "    (( CURRENT-- ))\n"
      "  done\n"
      "  $command\n"
      "}\n"
      "if [[ $funcstack[1] == _simulate ]]; then\n"
      "  _simulate\n"
      "else\n"
      "  compdef _simulate simulate stepcast\n"
      "fi\n";
  return out;
}

}  // namespace stepcast::cli
