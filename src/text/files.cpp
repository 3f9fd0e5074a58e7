#include "files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

namespace stepcast::text {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Length of the well-formed UTF-8 sequence at the start of `s`, or 0 (RFC 3629: no overlong forms,
// no surrogates).
std::size_t utf8_length(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto follows = [&](std::size_t i, unsigned low, unsigned high) {
    return i < s.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return follows(1, 0x80, 0xBF) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void fail(Origin where, std::string message) {
  throw InputError(Fault{std::move(where), std::move(message)});
}

std::string read_file(const std::filesystem::path& file, std::size_t most) {
  note_opened(file);
  const Origin start{file.string(), 1, 1};
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    fail(start, "no such file; expected a readable text file");
  }
  if (std::filesystem::is_directory(status)) {
    fail(start, "is a directory; expected a readable text file");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    fail(start, "cannot be opened; expected a readable text file");
  }
  // The file is read in pieces, since a pipe (--config /dev/stdin) has no size; one that has is of
  // one piece, and of a byte that is not there.
  constexpr std::size_t kPiece = 1 << 16;
  std::string text;
  std::size_t piece = kPiece;
  if (std::filesystem::is_regular_file(status)) {
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    piece = error ? kPiece : static_cast<std::size_t>(std::min<std::uintmax_t>(size, most)) + 1;
  }
  for (std::size_t had = 0; in; piece = kPiece) {
    text.resize(had + piece);
    in.read(text.data() + had, static_cast<std::streamsize>(piece));
    had += static_cast<std::size_t>(in.gcount());
    text.resize(had);
    if (text.size() > most) {
      fail(start, fmt::format("is beyond {} MiB; expected a smaller text file", most >> 20));
    }
  }
  if (in.bad()) {
    fail(start, "cannot be read; expected a readable text file");
  }
  if (text.starts_with(kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());
  }
  return text;
}

void check_is_text(std::string_view text, const std::string& name) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool control =
        (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    const std::size_t length = control ? 0 : utf8_length(text.substr(at));
    if (length == 0) {
      const std::string_view before = text.substr(0, at);
      const auto line = 1 + std::count(before.begin(), before.end(), '\n');
      const std::size_t newline = before.rfind('\n');
      const std::size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
      fail({name, static_cast<int>(line), static_cast<int>(column)},
           fmt::format("byte 0x{:02x} is not text; expected UTF-8", byte));
    }
    at += length;
  }
}

}  // namespace stepcast::text
