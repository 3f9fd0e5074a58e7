#include "output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "../command_line/command_line.h"

namespace stepcast::cli {

void write_stdout(const std::string& option, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw option_fault(option,
                       fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
}

namespace {

template <class Work>
void naming(const std::string& option, const Work& work) {
  try {
    work();
  } catch (const OutputError& error) {
    throw option_fault(option, error.what());
  }
}

}  // namespace

OutputFile::OutputFile(std::string option, const std::filesystem::path& target)
    : option_(std::move(option)) {
  naming(option_, [&] { file_ = std::make_unique<stepcast::OutputFile>(target); });
}

void OutputFile::write(const std::string& text) {
  naming(option_, [&] {
    file_->append(text);
    file_->flush();
  });
}

void OutputFile::commit() {
  naming(option_, [&] { file_->commit(); });
}

}  // namespace stepcast::cli
