// Texts that may be compressed by gzip.
#include <fmt/format.h>
#ifdef STEPCAST_ZLIB
#include <zlib.h>
#endif

#include <string>

#include "files.h"
#include "stepcast/text/document.h"

namespace stepcast::text {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b";

#ifdef STEPCAST_ZLIB
std::string unpack(const std::filesystem::path& file, std::size_t most) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  gzFile in = gzopen(file.c_str(), "rb");
  std::string out;
  int got = in == nullptr ? -1 : 1;
  while (got > 0 && out.size() <= most) {
    const std::size_t before = out.size();
    out.resize(before + kPiece);
    got = gzread(in, out.data() + before, kPiece);
    out.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
  }
  const bool whole = in != nullptr && gzclose(in) == Z_OK && got == 0;
  if (out.size() > most) {
    fail({file.string(), 1, 1}, fmt::format("holds more than {} bytes of text", most));
  }
  if (!whole) {
    fail({file.string(), 1, 1}, "is damaged; expected a whole file compressed by gzip");
  }
  return out;
}
#else
std::string unpack(const std::filesystem::path& file, std::size_t) {
  fail({file.string(), 1, 1}, "is compressed by gzip, which this build cannot read (no zlib)");
}
#endif

}  // namespace

std::string read_packed_text(const std::filesystem::path& file, std::size_t most) {
  std::string text = read_file(file, most);
  return text.starts_with(kGzip) ? unpack(file, most) : text;
}

}  // namespace stepcast::text
