// The program as a process that is watched, killed, or started several times by mpirun.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>

#include <chrono>
#include <thread>

#include "support/folder.h"
#include "unit/cli/run.h"

namespace stepcast::test {

// A running program and its output.
class Program {
 public:
  Program(const Folder& folder, const std::string& command) : err_(folder / "err") {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const int out = ::open("/dev/null", O_WRONLY);
      const int err = ::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(err, STDERR_FILENO);
      if (::chdir(STEPCAST_SOURCE_DIR) == 0) {
        ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
      }
      ::_exit(127);
    }
  }
  pid_t pid() const { return pid_; }
  bool running() { return status_ == kRunning && ::waitpid(pid_, &status_, WNOHANG) == 0; }
  int wait() {
    while (running()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return status_;
  }
  std::string said() const {
    std::ostringstream text;
    text << std::ifstream(err_).rdbuf();
    return text.str();
  }

 private:
  static constexpr int kRunning = -1;
  std::filesystem::path err_;
  pid_t pid_ = 0;
  int status_ = kRunning;
};

// Number of points in the file; 0 as long as there is no table.
inline int points(const std::string& file) {
  sqlite3* db = nullptr;
  sqlite3_stmt* s = nullptr;
  int count = 0;
  if (sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK &&
      sqlite3_prepare_v2(db, "SELECT count(*) FROM points", -1, &s, nullptr) == SQLITE_OK &&
      sqlite3_step(s) == SQLITE_ROW) {
    count = sqlite3_column_int(s, 0);
  }
  sqlite3_finalize(s);
  sqlite3_close(db);
  return count;
}

inline const std::string kBinary = "'" STEPCAST_BINARY "' ";

#ifdef STEPCAST_MPIEXEC
// The command that starts this number of processes here, for any user and on any number of cores.
inline std::string mpirun(int processes) {
  return "env TERM=xterm OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
         "ASAN_OPTIONS=detect_leaks=0 " STEPCAST_MPIEXEC " -n " +
         std::to_string(processes) + " ";
}

inline Result under_mpi(int processes, const Folder& folder, const std::string& arguments) {
  const std::string out = folder.file("out"), err = folder.file("err");
  const int status = std::system(("cd '" STEPCAST_SOURCE_DIR "' && " + mpirun(processes) + kBinary +
                                  arguments + " >" + out + " 2>" + err)
                                     .c_str());
  const auto text = [](const std::string& file) {
    std::ostringstream all;
    all << std::ifstream(file).rdbuf();
    return all.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text(out), text(err)};
}
#endif

}  // namespace stepcast::test
