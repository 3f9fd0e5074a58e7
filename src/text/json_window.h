// A window that slides over a text, plain or compressed by gzip. Private to json_stream.cpp.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace stepcast::text {

class JsonWindow {
 public:
  explicit JsonWindow(const std::filesystem::path& file);

  // What is loaded from the cursor on. At least `kPadding` bytes behind it may be read as well.
  std::string_view text() const { return {buffer_.get() + begin_, end_ - begin_}; }
  std::size_t readable() const { return capacity_ + kPadding - begin_; }
  // Loads more behind the text, which may move it. False at the end of the file, or where the text
  // is as long as the longest object may be.
  bool more();
  void drop(std::size_t bytes);
  std::int64_t offset() const { return offset_; }  // of the cursor, from the text's first byte
  bool full() const { return end_ - begin_ >= kLongest; }
  bool compressed() const;
  const std::string& why() const { return why_; }

 private:
  static constexpr std::size_t kPadding = 64;                     // that simdjson reads beyond
  static constexpr std::size_t kPiece = std::size_t{1} << 20;     // loaded at a time
  static constexpr std::size_t kLongest = std::size_t{16} << 20;  // of one object

  struct Close {
    void operator()(gzFile_s* file) const { ::gzclose_r(file); }
  };
  void grow(std::size_t capacity);

  std::unique_ptr<gzFile_s, Close> file_;
  std::unique_ptr<char[]> buffer_;  // NOLINT: a plain array, which is not filled twice
  std::size_t capacity_ = 0, begin_ = 0, end_ = 0;
  std::int64_t offset_ = 0;
  std::string why_;
  bool ended_ = false;
};

}  // namespace stepcast::text
