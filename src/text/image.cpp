#include "image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "files.h"

namespace stepcast::text {
namespace {

// Native byte order: an image is made by the build that reads it, and another order fails the
// magic.
constexpr std::uint64_t kMagic = 0x31656761'6D695453U;

struct ImageHeader {
  std::uint64_t magic = kMagic;
  std::uint64_t size = 0;  // of the whole image
  std::uint64_t documents = 0;
};

// Offsets count from the image's start.
struct ImageEntry {
  std::uint64_t text = 0, text_size = 0;
  std::uint64_t extra = 0, extra_size = 0;  // scalars that are not written in the text as they read
  std::uint64_t nodes = 0, node_count = 0;
  std::uint64_t check = 0;  // of extra and nodes
};

// In preorder: a collection's values follow it, in a map each after its key.
struct ImageNode {
  std::uint32_t start = 0, length = 0;  // of the scalar
  std::uint32_t children = 0;
  std::int32_t line = 0, column = 0;
  std::uint8_t kind = 0;
  std::uint8_t quoted = 0;
  std::uint8_t in_extra = 0;
  std::uint8_t unused = 0;
};
static_assert(sizeof(ImageNode) == 24 && std::is_trivially_copyable_v<ImageNode>);

std::uint64_t check_of(std::string_view bytes) {
  // 2^64 over the golden ratio, odd: Knuth, The Art of Computer Programming, volume 3, 6.4.
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15U;
  std::uint64_t out = bytes.size() * kSpread;
  const auto mix = [&](std::uint64_t word) {
    out = (out ^ word) * kSpread;
    out ^= out >> 32;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    mix(word);
  }
  for (; i < bytes.size(); ++i) {
    mix(static_cast<unsigned char>(bytes[i]));
  }
  return out;
}

template <class T>
void put_bytes(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class ImageWriter {
 public:
  explicit ImageWriter(std::string_view text) : text_(text) {}

  void value(const Value& v) {
    scalar(v.scalar, v.origin, v.kind, v.quoted,
           v.kind == Value::Kind::map ? v.entries.size() : v.items.size());
    for (const Value& item : v.items) {
      value(item);
    }
    for (const Value::Entry& entry : v.entries) {
      scalar(entry.key, entry.origin, Value::Kind::scalar, false, 0);
      value(entry.value);
    }
  }

  std::string nodes, extra;
  std::uint64_t count = 0;

 private:
  void scalar(const std::string& s, const Origin& origin, Value::Kind kind, bool quoted,
              std::size_t children) {
    ImageNode n;
    n.kind = static_cast<std::uint8_t>(kind);
    n.quoted = quoted ? 1 : 0;
    n.children = static_cast<std::uint32_t>(children);
    n.line = origin.line;
    n.column = origin.column;
    n.length = static_cast<std::uint32_t>(s.size());
    if (!s.empty()) {
      // Scalars follow each other in the text, so the search begins where the last one ended.
      std::size_t at = text_.find(s, from_);
      if (at == std::string_view::npos) {
        at = extra.size();
        n.in_extra = 1;
        extra += s;
      } else {
        from_ = at + s.size();
      }
      n.start = static_cast<std::uint32_t>(at);
    }
    put_bytes(nodes, n);
    ++count;
  }

  std::string_view text_;
  std::size_t from_ = 0;
};

// Reads the nodes of one document. `ok` is false once they make no sense.
class ImageReader {
 public:
  ImageReader(std::string_view nodes, std::string_view text, std::string_view extra,
              const std::string& name, std::string_view without)
      : nodes_(nodes), text_(text), extra_(extra), name_(name), without_(without) {}

  Value value(int depth) {
    Value v;
    const ImageNode n = next();
    v.kind = static_cast<Value::Kind>(n.kind);
    v.origin = {name_, n.line, n.column};
    v.quoted = n.quoted != 0;
    v.scalar = scalar(n);
    if (n.kind > static_cast<std::uint8_t>(Value::Kind::map) || depth > kDepthLimit ||
        n.children > nodes_.size() / sizeof(ImageNode)) {
      ok = false;
    }
    if (ok && v.kind == Value::Kind::sequence) {
      v.items.reserve(n.children);
      for (std::uint32_t i = 0; i < n.children && ok; ++i) {
        v.items.push_back(value(depth + 1));
      }
    } else if (ok && v.kind == Value::Kind::map) {
      v.entries.reserve(n.children);
      for (std::uint32_t i = 0; i < n.children && ok; ++i) {
        const ImageNode key = next();
        std::string word = scalar(key);
        if (depth == 0 && !without_.empty() && word == without_) {
          skip();
          continue;
        }
        v.entries.push_back({std::move(word), {name_, key.line, key.column}, value(depth + 1)});
      }
    }
    return v;
  }
  bool finished() const { return ok && nodes_.empty(); }

  bool ok = true;

 private:
  ImageNode next() {
    ImageNode n;
    if (nodes_.size() < sizeof n) {
      ok = false;
      return n;
    }
    std::memcpy(&n, nodes_.data(), sizeof n);
    nodes_.remove_prefix(sizeof n);
    return n;
  }

  // A value and all that it holds.
  void skip() {
    for (std::uint64_t left = 1; left > 0 && ok; --left) {
      const ImageNode n = next();
      const bool map = n.kind == static_cast<std::uint8_t>(Value::Kind::map);
      left += std::uint64_t{n.children} * (map ? 2 : 1);  // in a map each has a key
    }
  }

  std::string scalar(const ImageNode& n) {
    const std::string_view from = n.in_extra != 0 ? extra_ : text_;
    if (n.start > from.size() || n.length > from.size() - n.start) {
      ok = false;
      return {};
    }
    return std::string(from.substr(n.start, n.length));
  }

  std::string_view nodes_, text_, extra_;
  const std::string& name_;
  std::string_view without_;
};

}  // namespace

std::string image_of(std::vector<std::string> texts) {
  const auto shorter = [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  };
  std::sort(texts.begin(), texts.end(), shorter);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::string entries, body;
  const std::size_t start = sizeof(ImageHeader) + texts.size() * sizeof(ImageEntry);
  for (const std::string& text : texts) {
    ImageWriter writer(text);
    writer.value(parse_yaml(text, "image"));
    ImageEntry e;
    const auto part = [&](const std::string& bytes) {
      const std::uint64_t at = start + body.size();
      body += bytes;
      body.append((8 - body.size() % 8) % 8, '\0');
      return at;
    };
    e.text = part(text);
    e.text_size = text.size();
    e.extra = part(writer.extra);
    e.extra_size = writer.extra.size();
    e.nodes = part(writer.nodes);
    e.node_count = writer.count;
    e.check = check_of(writer.extra) ^ check_of(writer.nodes);
    put_bytes(entries, e);
  }
  std::string out;
  put_bytes(out, ImageHeader{kMagic, start + body.size(), texts.size()});
  return out + entries + body;
}

Image::Image(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return;
  }
  struct stat about {};
  if (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) &&
      about.st_size >= static_cast<off_t>(sizeof(ImageHeader))) {
    const auto size = static_cast<std::size_t>(about.st_size);
    void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (at != MAP_FAILED) {
      bytes_ = {static_cast<const char*>(at), size};
    }
  }
  ::close(descriptor);
}

Image::~Image() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
}

std::optional<Value> Image::document(std::string_view text, const std::string& name,
                                     std::string_view without) const {
  ImageHeader header;
  if (bytes_.size() < sizeof header) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (header.magic != kMagic || header.size != bytes_.size() ||
      header.documents > (bytes_.size() - sizeof header) / sizeof(ImageEntry)) {
    return std::nullopt;
  }
  const auto entry = [&](std::uint64_t i) {
    ImageEntry e;
    std::memcpy(&e, bytes_.data() + sizeof header + i * sizeof e, sizeof e);
    return e;
  };
  const auto part = [&](std::uint64_t at, std::uint64_t size) -> std::optional<std::string_view> {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      return std::nullopt;
    }
    return bytes_.substr(at, size);
  };
  std::uint64_t low = 0;
  for (std::uint64_t high = header.documents; low < high;) {
    const std::uint64_t middle = low + (high - low) / 2;
    entry(middle).text_size < text.size() ? low = middle + 1 : high = middle;
  }
  for (; low < header.documents; ++low) {
    const ImageEntry e = entry(low);
    if (e.text_size != text.size()) {
      break;
    }
    if (part(e.text, e.text_size) != text) {
      continue;
    }
    const auto extra = part(e.extra, e.extra_size);
    const auto nodes = e.node_count <= bytes_.size() / sizeof(ImageNode)
                           ? part(e.nodes, e.node_count * sizeof(ImageNode))
                           : std::nullopt;
    if (!extra || !nodes || (check_of(*extra) ^ check_of(*nodes)) != e.check) {
      return std::nullopt;
    }
    ImageReader reader(*nodes, text, *extra, name, without);
    Value out = reader.value(0);
    return reader.finished() ? std::optional(std::move(out)) : std::nullopt;
  }
  return std::nullopt;
}

const Image& built_image() {
  static const Image image = [] {
    std::error_code error;
    const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
    const auto installed =
        (binary.parent_path() / "../share/stepcast/documents.image").lexically_normal();
    return Image(std::filesystem::exists(installed, error) ? installed : STEPCAST_IMAGE);
  }();
  return image;
}

}  // namespace stepcast::text
