// Completion of words: every shell's script offers what the program's help lists, and the shells
// that are installed complete with it.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/folder.h"
#include "unit/cli/help.h"
#include "unit/cli/run.h"

using namespace stepcast;
using test::check_refused;
using test::Folder;
using test::run;

namespace {

// Whether the shell is there; says so if it is not.
bool installed(const std::string& shell) {
  const bool found = std::system(("command -v " + shell + " > /dev/null").c_str()) == 0;
  if (!found) {
    WARN("SKIPPED: " << shell << " is not installed");
  }
  return found;
}

// What `shell` prints for a script that begins with simulate's own of that shell.
std::string said(const std::string& shell, const std::string& flags, const std::string& before,
                 const std::string& after) {
  const Folder folder;
  std::ofstream(folder.file("script")) << before << "\n"
                                       << run("completion " + shell).out << "\n"
                                       << after << "\n";
  std::ostringstream out;
  FILE* pipe =
      ::popen((shell + " " + flags + " '" + folder.file("script") + "' 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    out << buffer.data();
  }
  ::pclose(pipe);
  return out.str();
}

std::string bash(const std::string& words) {
  return said("bash", "--norc", "",
              "COMP_WORDS=(simulate " + words +
                  "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _stepcast_simulate 2>/dev/null; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"");
}

std::string fish(const std::string& line) {
  return said("fish", "--no-config", "", "complete -C 'simulate " + line + "'");
}

// zsh completes in its line editor alone: what its functions are asked to offer is printed instead.
std::string zsh(const std::string& words) {
  return said("zsh", "-f",
              "compdef() { true; }; compadd() { print -l -- $@; }; _files() { print FILES; }\n"
              "_describe() { print -l -- ${(P)2}; }\n"
              "_arguments() { print -l -- $@; ${@[-1]##*:}; }",
              "words=(simulate " + words + "); CURRENT=$#words; _simulate");
}

bool has_line(const std::string& text, const std::string& begin) {
  const auto lines = test::lines_of(text);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.starts_with(begin); });
}

}  // namespace

TEST_CASE("Every shell's script has each command and each option of the help") {
  const std::string bash_text = run("completion bash").out, zsh_text = run("completion zsh").out,
                    fish_text = run("completion fish").out;
  CHECK(run("completion").out == bash_text);
  const auto fish_lines = test::lines_of(fish_text);
  for (const std::string& command : test::all_commands()) {
    INFO(command);
    // What belongs to this command: a case of bash, a function of zsh, lines of fish under its
    // name.
    const std::string bash_case =
        command.empty() ? "\n    *) words='" : "\n    '" + command + " '*) words='";
    const std::size_t at = bash_text.find(bash_case);
    REQUIRE(at != std::string::npos);
    const std::string bash_words =
        " " +
        bash_text.substr(at + bash_case.size(),
                         bash_text.find('\'', at + bash_case.size()) - at - bash_case.size()) +
        " ";
    std::string function = "_simulate_" + (command.empty() ? "" : "_" + command);
    std::replace(function.begin(), function.end(), ' ', '_');
    const std::size_t from = zsh_text.find("\n" + function + "() {");
    REQUIRE(from != std::string::npos);
    const std::string zsh_body = zsh_text.substr(from, zsh_text.find("\n}\n", from) - from);
    const std::string count =
        std::to_string(command.empty() ? 0 : 1 + std::count(command.begin(), command.end(), ' '));
    const auto of_command = [&](const std::string& line) {
      const std::string begin = "complete -c simulate -n '__simulate_at " + count + " " + command;
      return line.starts_with(begin) &&
             (command.empty() || std::string(" '").find(line[begin.size()]) != std::string::npos);
    };
    for (const std::string& option : test::options_of_help(command)) {
      INFO(option);
      CHECK_THAT(bash_words, ContainsSubstring(" " + option + " "));
      CHECK(zsh_body.find(")" + option) + zsh_body.find("'*" + option) != 2 * std::string::npos);
      CHECK(std::any_of(fish_lines.begin(), fish_lines.end(), [&](const std::string& line) {
        return of_command(line) &&
               (line + " ").find(" -l " + option.substr(2) + " ") != std::string::npos;
      }));
    }
    for (const std::string& below : test::commands_below(command)) {
      CHECK_THAT(bash_words, ContainsSubstring(" " + below + " "));
      CHECK_THAT(zsh_text, ContainsSubstring("'" + below + ":"));
      CHECK_THAT(fish_text, ContainsSubstring("__simulate_first " + count) &&
                                ContainsSubstring(" -a " + below + " -d "));
    }
  }
}

TEST_CASE("bash completes commands, options, jobs and short keys") {
  CHECK(has_line(bash("sched"), "schedules"));
  CHECK(has_line(bash("schedule"), "schedules"));
  CHECK(has_line(bash("llama8"), "llama8b-fsdp"));
  CHECK(has_line(bash("search --obj"), "--objective"));
  CHECK(has_line(bash("llama8b-fsdp mb"), "mbs="));
  CHECK(has_line(bash("collective --cluster dgx-h1"), "dgx-h100"));
  CHECK(has_line(bash("calibrate nccl --clu"), "--cluster"));
  CHECK(has_line(bash("schedule dual"), "dualpipe"));
  CHECK(!has_line(bash("models llama8"), "llama8b-fsdp"));
}

TEST_CASE("fish completes commands, options, jobs and short keys") {
  if (!installed("fish")) {
    return;
  }
  CHECK(has_line(fish("sched"), "schedules\t"));
  CHECK(has_line(fish("llama8"), "llama8b-fsdp"));
  CHECK(has_line(fish("search --obj"), "--objective\t"));
  CHECK(!has_line(fish("llama70b --obj"), "--objective"));
  CHECK(has_line(fish("llama8b-fsdp mb"), "mbs="));
  CHECK(has_line(fish("collective --cluster dgx-h1"), "dgx-h100"));
  CHECK(has_line(fish("calibrate nc"), "nccl\t"));
  CHECK(has_line(fish("calibrate nccl --clu"), "--cluster\t"));
  CHECK(!has_line(fish("calibrate nccl gp"), "gpu\t"));
  CHECK(has_line(fish("schedule dual"), "dualpipe"));
}

TEST_CASE("zsh completes commands, options, jobs and short keys") {
  if (!installed("zsh")) {
    return;
  }
  CHECK(has_line(zsh("''"), "schedules:"));
  CHECK(has_line(zsh("''"), "llama8b-fsdp"));
  CHECK(!has_line(zsh("llama70b ''"), "schedules:"));
  CHECK(has_line(zsh("search ''"), "(--objective)--objective=["));
  CHECK(!has_line(zsh("llama70b ''"), "(--objective)--objective"));
  CHECK(has_line(zsh("llama8b-fsdp ''"), "mbs="));
  CHECK_THAT(zsh("collective ''"),
             ContainsSubstring("(--cluster)--cluster=[") && ContainsSubstring(" dgx-h100 "));
  CHECK(has_line(zsh("calibrate ''"), "nccl:"));
  CHECK(has_line(zsh("calibrate nccl ''"), "(--cluster)--cluster=["));
  CHECK(!has_line(zsh("calibrate nccl ''"), "gpu:"));
  CHECK(has_line(zsh("schedule ''"), "dualpipe"));
}

TEST_CASE("An unknown shell gets a line with those that are known") {
  check_refused("completion fis",
                "fis: error: no shell whose words are completed; expected bash, zsh or fish (did "
                "you mean 'fish'?)");
}
