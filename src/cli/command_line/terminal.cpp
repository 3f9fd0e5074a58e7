#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace stepcast::cli {

int terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col >= 60) {
    return size.ws_col;
  }
  return 100;
}

bool terminal_colour() {
  const char* kind = std::getenv("TERM");
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0') &&
         kind != nullptr && std::string_view(kind) != "dumb";
}

void write_stderr(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace stepcast::cli
