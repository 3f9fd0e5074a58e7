// Manual pages: every command has one, with every option that its --help lists, in roff that
// prints.
#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/folder.h"
#include "unit/cli/run.h"

using namespace stepcast;
using namespace Catch::Matchers;
using test::check_refused;
using test::Folder;
using test::run;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

// "--config", "--factor": the long options that a command's help begins a line with.
std::set<std::string> options_of_help(const std::string& command) {
  std::set<std::string> out;
  for (const std::string& line : lines_of(run(command + " --help").out)) {
    const std::size_t at = line.find("--");
    if (line.starts_with("  -") && at < 7) {
      out.insert(line.substr(at, line.find_first_of(" ,=", at) - at));
    }
  }
  return out;
}

std::set<std::string> options_of_page(const std::string& page) {
  std::set<std::string> out;
  std::string plain = page;
  for (std::size_t at = 0; (at = plain.find("\\-", at)) != std::string::npos;) {
    plain.replace(at, 2, "-");
  }
  bool names = false;
  for (const std::string& line : lines_of(plain)) {
    for (std::size_t at = 0; names && (at = line.find("\\fB--", at)) != std::string::npos; ++at) {
      CHECK(out.insert(line.substr(at + 3, line.find('\\', at + 3) - at - 3)).second);
    }
    names = line == ".TP";
  }
  return out;
}

// The commands that a page names below its DESCRIPTION.
std::vector<std::string> commands_below(const std::string& command) {
  std::vector<std::string> out;
  bool inside = false;
  for (const std::string& line : lines_of(run(command + " --help").out)) {
    if (inside && line.starts_with("  ")) {
      out.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    inside = line == "Subcommands:" || (inside && line.starts_with("  "));
  }
  return out;
}

}  // namespace

TEST_CASE("Every command has a page with the options of its help") {
  std::vector<std::string> commands = {""};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::string command = commands[i];
    for (const std::string& below : commands_below(command)) {
      commands.push_back(command + (command.empty() ? "" : " ") + below);
    }
    INFO(command);
    const auto page = run("man " + command);
    CHECK(page.status == 0);
    CHECK_THAT(page.out, StartsWith(".TH SIMULATE") && ContainsSubstring("\n.SH NAME\nsimulate"));
    CHECK(options_of_page(page.out) == options_of_help(command));
  }
  CHECK(commands.size() > 20);
  CHECK(std::count(commands.begin(), commands.end(), "calibrate nccl") == 1);
}

TEST_CASE("No line of help becomes a request of roff") {
  const std::set<std::string> requests = {".TH", ".SH", ".TP", ".nf", ".fi", ".BR"};
  for (const char* command : {"", "collective", "export", "calibrate runs", "goodput"}) {
    for (const std::string& line : lines_of(run(std::string("man ") + command).out)) {
      CHECK(line.find('\'') != 0);
      if (line.starts_with(".")) {
        CHECK(requests.count(line.substr(0, line.find(' '))) == 1);
      }
      for (std::size_t at = 0; (at = line.find('\\', at)) != std::string::npos; at += 2) {
        CHECK(std::string("-e&f").find(line.at(at + 1)) != std::string::npos);
      }
    }
  }
}

TEST_CASE("All pages are written into a folder, under the names that man looks for") {
  const Folder folder;
  CHECK(run("man --output " + folder.file(".")).status == 0);
  CHECK(std::filesystem::exists(folder.file("simulate.1")));
  std::ostringstream text;
  text << std::ifstream(folder.file("simulate-calibrate-nccl.1")).rdbuf();
  CHECK(text.str() == run("man calibrate nccl").out);
  check_refused("man --output " + folder.file("none"), "--output: error: ");
}

TEST_CASE("An unknown page gets a line with what was meant") {
  check_refused("man serach",
                "serach: error: unknown command; expected one that simulate --help "
                "lists (did you mean 'search'?)");
}

TEST_CASE("Help has the examples of its own command alone") {
  CHECK_THAT(run("models --help").out, !ContainsSubstring("simulate llama70b"));
  CHECK_THAT(run("--help").out, ContainsSubstring("simulate llama70b"));
}
