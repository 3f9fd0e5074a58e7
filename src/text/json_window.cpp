#include "json_window.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "files.h"

namespace stepcast::text {

JsonWindow::JsonWindow(const std::filesystem::path& file) {
  const Origin start{file.string(), 0, 0};
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    fail(start, "no such file; expected a readable file");
  }
  if (std::filesystem::is_directory(status)) {
    fail(start, "is a directory; expected a readable file");
  }
  file_.reset(::gzopen(file.c_str(), "rb"));
  if (!file_) {
    fail(start, "cannot be opened; expected a readable file");
  }
  ::gzbuffer(file_.get(), 1U << 18U);
  grow(2 * kPiece);
}

void JsonWindow::grow(std::size_t capacity) {
  auto larger = std::make_unique_for_overwrite<char[]>(capacity + kPadding);  // NOLINT
  std::memset(larger.get() + capacity, ' ', kPadding);
  if (buffer_) {
    std::memcpy(larger.get(), buffer_.get() + begin_, end_ - begin_);
  }
  end_ -= begin_;
  begin_ = 0;
  buffer_ = std::move(larger);
  capacity_ = capacity;
}

bool JsonWindow::more() {
  if (ended_ || full()) {
    return false;
  }
  if (capacity_ - end_ < kPiece) {
    if (end_ - begin_ + kPiece > capacity_) {
      grow(2 * capacity_);
    } else {
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
  }
  const int got = ::gzread(file_.get(), buffer_.get() + end_, static_cast<unsigned>(kPiece));
  int code = Z_OK;
  const char* message = ::gzerror(file_.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    why_ = code == Z_BUF_ERROR ? "the compressed file is cut short" : message;
    ended_ = true;
  }
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  end_ += static_cast<std::size_t>(got);
  return true;
}

void JsonWindow::drop(std::size_t bytes) {
  begin_ += bytes;
  offset_ += static_cast<std::int64_t>(bytes);
}

bool JsonWindow::compressed() const { return ::gzdirect(file_.get()) == 0; }

}  // namespace stepcast::text
