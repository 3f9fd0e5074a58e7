// simulate completion: a script for a shell from the tables of commands and options.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "../command_line/command_line.h"
#include "../output/output.h"
#include "commands.h"
#include "completion_words.h"
#include "stepcast/base/suggestion.h"

namespace stepcast::cli {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const std::vector<CommandWords>&);
};

constexpr Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

struct CompletionOptions {
  std::string shell = "bash";
  std::string output;
};

std::string script(const std::string& shell, const Command& program) {
  std::vector<std::string> names;
  for (const Shell& one : kShells) {
    if (shell == one.name) {
      return one.script(completion_words(program));
    }
    names.emplace_back(one.name);
  }
  throw option_fault(shell,
                     fmt::format("no shell whose words are completed; expected bash, zsh or fish{}",
                                 suggestion(shell, names)));
}

}  // namespace

Run add_completion(Command& app, const Command& program) {
  auto given = std::make_shared<CompletionOptions>();
  app.add_option("shell", given->shell, "bash, zsh or fish").type_name("SHELL").show_default();
  app.add_option("--output", given->output, "write the script into this file").type_name("FILE");
  app.footer =
      "Examples:\n"
      "  source <(simulate completion bash)\n"
      "  source <(simulate completion zsh)\n"
      "  simulate completion fish | source";
  return [given, &program] {
    const std::string text = script(given->shell, program);
    if (given->output.empty()) {
      write_stdout("completion", text);
    } else {
      OutputFile file("--output", given->output);
      file.write(text);
      file.commit();
    }
    return static_cast<int>(done);
  };
}

}  // namespace stepcast::cli
