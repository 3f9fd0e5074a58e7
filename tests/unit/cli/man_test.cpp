// Manual pages: every command has one, with every option that its --help lists, in roff that
// prints.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
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

std::set<std::string> options_of_page(const std::string& page) {
  std::set<std::string> out;
  std::string plain = page;
  for (std::size_t at = 0; (at = plain.find("\\-", at)) != std::string::npos;) {
    plain.replace(at, 2, "-");
  }
  bool names = false;
  for (const std::string& line : test::lines_of(plain)) {
    for (std::size_t at = 0; names && (at = line.find("\\fB--", at)) != std::string::npos; ++at) {
      CHECK(out.insert(line.substr(at + 3, line.find('\\', at + 3) - at - 3)).second);
    }
    names = line == ".TP";
  }
  return out;
}

}  // namespace

TEST_CASE("Every command has a page with the options of its help") {
  const std::vector<std::string> commands = test::all_commands();
  for (const std::string& command : commands) {
    INFO(command);
    const auto page = run("man " + command);
    CHECK(page.status == 0);
    CHECK_THAT(page.out, Catch::Matchers::StartsWith(".TH SIMULATE") &&
                             ContainsSubstring("\n.SH NAME\nsimulate"));
    CHECK(options_of_page(page.out) == test::options_of_help(command));
  }
  CHECK(commands.size() > 20);
  CHECK(std::count(commands.begin(), commands.end(), "calibrate nccl") == 1);
}

TEST_CASE("No line of help becomes a request of roff") {
  const std::set<std::string> requests = {".TH", ".SH", ".TP", ".nf", ".fi", ".BR"};
  for (const char* command : {"", "collective", "export", "calibrate runs", "goodput"}) {
    for (const std::string& line : test::lines_of(run(std::string("man ") + command).out)) {
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
