// Files that appear whole or not at all.
#include "stepcast/base/output_file.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "support/folder.h"
#include "support/slurp.h"

using stepcast::OutputFile;
using stepcast::test::Folder;
using stepcast::test::slurp;

namespace {

namespace fs = std::filesystem;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a file appears when it is committed, and replaces what was there") {
  const Folder folder;
  const fs::path target = folder / "out.txt";
  {
    OutputFile file(target);
    file.append("lost");
  }
  CHECK(entries(folder.path()) == 0);
  for (const char* text : {"first", "second"}) {
    OutputFile file(target);
    file.append(text);
    file.commit();
    CHECK(slurp(target) == text);
    CHECK(entries(folder.path()) == 1);
  }
}

TEST_CASE("a process that is killed leaves the old file, and nothing beside it") {
  const Folder folder;
  const fs::path target = folder / "out.txt";
  std::ofstream(target) << "old";
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFile file(target);
    file.append("new");
    file.flush();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(slurp(target) == "old");
  const int nameless = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless >= 0) {  // not every file system has files without a name
    ::close(nameless);
    CHECK(entries(folder.path()) == 1);
  }
}

TEST_CASE("a name that somebody else has put in the way is not written through") {
  const Folder folder;
  const fs::path target = folder / "out.txt";
  const fs::path victim = folder / "victim";
  std::ofstream(victim) << "precious";
  for (int n = 0; n < 3; ++n) {
    fs::create_symlink(victim, fs::path(target) += "." + std::to_string(::getpid()) + "." +
                                                   std::to_string(n) + ".part");
  }
  OutputFile file(target);
  file.append("new");
  file.commit();
  CHECK(slurp(target) == "new");
  CHECK(slurp(victim) == "precious");
}
