// Chakra's protobuf, message by message.
#include <fmt/format.h>

#include <fstream>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "chakra_parts.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::trace {
namespace {

// A node of a real trace has some kilobytes; a longer one is no node.
constexpr std::uint64_t kLongestMessage = std::uint64_t{64} << 20;

// Fields of the schema's messages.
namespace node {
constexpr protozero::pbf_tag_type id = 1, name = 2, type = 3, control = 4, data = 5, start = 6,
                                  duration = 7, attribute = 10;
}
namespace metadata {
constexpr protozero::pbf_tag_type version = 1, attribute = 2;
}
namespace attribute {
constexpr protozero::pbf_tag_type name = 1, int32 = 7, int64 = 9, uint32 = 11, uint64 = 13,
                                  sint32 = 15, sint64 = 17, boolean = 27, text = 29;
}

// A field counts only with the wire type that the schema gives it; else it is passed over.
constexpr std::uint32_t number_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}
constexpr std::uint32_t bytes_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}

// One of an attribute's kinds of values.
struct AttributeValue {
  std::string name, text;
  std::int64_t number = 0;
};

AttributeValue read_attribute(protozero::pbf_reader message) {
  AttributeValue out;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case bytes_field(attribute::name):
        out.name = message.get_string();
        break;
      case number_field(attribute::int32):
      case number_field(attribute::int64):
        out.number = message.get_int64();
        break;
      case number_field(attribute::uint32):
      case number_field(attribute::uint64):
        out.number = static_cast<std::int64_t>(message.get_uint64());
        break;
      case number_field(attribute::sint32):
      case number_field(attribute::sint64):
        out.number = message.get_sint64();
        break;
      case number_field(attribute::boolean):
        out.number = message.get_bool() ? 1 : 0;
        break;
      case bytes_field(attribute::text):
        out.text = message.get_string();
        break;
      default:
        message.skip();
    }
  }
  return out;
}

void append_ids(protozero::pbf_reader& message, std::vector<std::uint64_t>& out) {
  if (message.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const std::uint64_t id : message.get_packed_uint64()) {
      out.push_back(id);
    }
  } else {
    out.push_back(message.get_uint64());
  }
}

ChakraNode read_node(protozero::pbf_reader message) {
  ChakraNode out;
  std::int64_t start = 0, duration = 0;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case number_field(node::id):
        out.id = message.get_uint64();
        break;
      case bytes_field(node::name):
        out.name = message.get_string();
        break;
      case number_field(node::type):
        out.type = chakra_type(message.get_enum());
        break;
      case number_field(node::control):
      case bytes_field(node::control):
        append_ids(message, out.control);
        break;
      case number_field(node::data):
      case bytes_field(node::data):
        append_ids(message, out.data);
        break;
      case number_field(node::start):
        start = static_cast<std::int64_t>(message.get_uint64());
        break;
      case number_field(node::duration):
        duration = static_cast<std::int64_t>(message.get_uint64());
        break;
      case bytes_field(node::attribute): {
        const AttributeValue value = read_attribute(message.get_message());
        set_attribute(out, value.name, value.number, value.text);
        break;
      }
      default:
        message.skip();
    }
  }
  out.start = chakra_time(start);
  // The exact duration is an attribute, which comes behind.
  out.duration = out.duration > Time(0) ? out.duration : chakra_time(duration);
  return out;
}

struct Metadata {
  std::string version, schema;
};
Metadata read_metadata(protozero::pbf_reader message) {
  Metadata out;
  while (message.next()) {
    if (message.tag_and_type() == bytes_field(metadata::version)) {
      out.version = message.get_string();
    } else if (message.tag_and_type() == bytes_field(metadata::attribute)) {
      const AttributeValue value = read_attribute(message.get_message());
      out.schema = value.name == "schema" ? value.text : out.schema;
    } else {
      // Only these two fields are a metadata message's.
      throw protozero::unknown_pbf_wire_type_exception();
    }
  }
  return out;
}

// The messages of a file, one at a time.
class Messages {
 public:
  explicit Messages(const std::filesystem::path& file) : in_(file, std::ios::binary) {}

  // False at the end, or where the file is cut.
  bool next() {
    std::uint64_t size = 0;
    int c = in_.get();
    for (int shift = 0; c != EOF && shift < 64; shift += 7, c = in_.get()) {
      size |= static_cast<std::uint64_t>(c & 0x7f) << shift;
      if ((c & 0x80) == 0) {
        return take(size);
      }
    }
    cut_ = c != EOF || size != 0;
    return false;
  }
  const std::string& message() const { return message_; }
  std::int64_t bytes() const { return bytes_; }
  bool cut() const { return cut_; }

 private:
  bool take(std::uint64_t size) {
    if (size > kLongestMessage) {
      cut_ = true;
      return false;
    }
    // In pieces, so that a length that is nonsense takes no memory.
    constexpr std::size_t kPiece = std::size_t{1} << 16;
    message_.clear();
    while (message_.size() < size) {
      const std::size_t had = message_.size();
      const std::size_t more = std::min<std::size_t>(kPiece, size - had);
      message_.resize(had + more);
      in_.read(message_.data() + had, static_cast<std::streamsize>(more));
      if (static_cast<std::size_t>(in_.gcount()) < more) {
        cut_ = true;
        return false;
      }
    }
    bytes_ += static_cast<std::int64_t>(size);
    return true;
  }

  std::ifstream in_;
  std::string message_;
  std::int64_t bytes_ = 0;
  bool cut_ = false;
};

void check_version(const Metadata& found, const std::filesystem::path& file) {
  if (!found.version.empty() && found.version != kChakraVersion) {
    throw InputError(Fault{{file.string(), 0, 0},
                           fmt::format("is an execution trace of Chakra's schema {}; expected {}",
                                       found.version, kChakraVersion)});
  }
  if (!found.schema.empty() && !found.schema.starts_with("1.")) {
    throw InputError(
        Fault{{file.string(), 0, 0},
              fmt::format("comes from PyTorch's execution traces of schema {}; expected 1.x",
                          found.schema)});
  }
}

void write_attribute(protozero::pbf_writer& to, const char* name, std::int64_t number) {
  protozero::pbf_writer one(to, node::attribute);
  one.add_string(attribute::name, name);
  one.add_int64(attribute::int64, number);
}

std::string node_message(const ChakraNode& n) {
  std::string out;
  protozero::pbf_writer to(out);
  to.add_uint64(node::id, n.id);
  to.add_string(node::name, n.name);
  to.add_enum(node::type, static_cast<std::int32_t>(n.type));
  to.add_packed_uint64(node::control, n.control.begin(), n.control.end());
  to.add_packed_uint64(node::data, n.data.begin(), n.data.end());
  constexpr std::int64_t kMicrosecond = 1'000'000;
  if (n.start > Time(0)) {
    to.add_uint64(node::start, static_cast<std::uint64_t>(n.start.count() / kMicrosecond));
  }
  to.add_uint64(node::duration,
                static_cast<std::uint64_t>((n.duration.count() + kMicrosecond / 2) / kMicrosecond));
  {
    protozero::pbf_writer one(to, node::attribute);
    one.add_string(attribute::name, "is_cpu_op");
    one.add_bool(attribute::boolean, n.on_host);
  }
  write_attribute(to, "tid", n.thread);
  write_attribute(to, "duration_ps", n.duration.count());
  if (n.collective) {
    write_attribute(to, "comm_type", static_cast<std::int64_t>(*n.collective));
  }
  if (n.bytes > 0) {
    write_attribute(to, "comm_size", n.bytes);
  }
  for (const auto& [name, number] :
       {std::pair("comm_src", n.source), {"comm_dst", n.destination}, {"comm_tag", n.tag}}) {
    if (number >= 0) {
      write_attribute(to, name, number);
    }
  }
  if (!n.group.empty()) {
    protozero::pbf_writer one(to, node::attribute);
    one.add_string(attribute::name, "pg_name");
    one.add_string(attribute::text, n.group);
  }
  return out;
}

void append_message(const std::string& message, OutputFile& file) {
  std::string size;
  for (std::uint64_t left = message.size();; left >>= 7) {
    const bool last = left < 0x80;
    size += static_cast<char>((left & 0x7f) | (last ? 0U : 0x80U));
    if (last) {
      break;
    }
  }
  file.append(size);
  file.append(message);
}

}  // namespace

bool begins_as_chakra(std::string_view head) {
  std::uint64_t size = 0;
  std::size_t at = 0;
  for (int shift = 0; at < head.size() && shift < 35; shift += 7) {
    const auto c = static_cast<unsigned char>(head[at++]);
    size |= static_cast<std::uint64_t>(c & 0x7f) << shift;
    if ((c & 0x80) == 0) {
      // Metadata: a version or an attribute, or nothing.
      return size == 0 || (size <= kLongestMessage && at < head.size() &&
                           (head[at] == '\x0a' || head[at] == '\x12'));
    }
  }
  return false;
}

bool has_chakra_metadata(const std::filesystem::path& file) {
  try {
    Messages messages(file);
    return messages.next() && (read_metadata(protozero::pbf_reader(messages.message())), true);
  } catch (const protozero::exception&) {
    return false;
  }
}

ChakraTrace read_chakra_protobuf(const std::filesystem::path& file) {
  ChakraTrace out;
  const auto refuse = [&](const char* why) { throw InputError(Fault{{file.string(), 0, 0}, why}); };
  Messages messages(file);
  std::int64_t damaged = 0;
  try {
    if (!messages.next()) {
      refuse("is no execution trace of Chakra: it holds no whole message");
    }
    const Metadata found = read_metadata(protozero::pbf_reader(messages.message()));
    check_version(found, file);
    out.version = found.version;
  } catch (const protozero::exception&) {
    refuse("is no execution trace of Chakra: it does not begin with a metadata message");
  }
  while (messages.next()) {
    try {
      ChakraNode node = read_node(protozero::pbf_reader(messages.message()));
      if (node.type == ChakraType::invalid) {
        ++damaged;
      } else {
        out.nodes.push_back(std::move(node));
      }
    } catch (const protozero::exception&) {
      ++damaged;
    }
  }
  if (out.nodes.empty()) {
    refuse("is no execution trace of Chakra: it holds no whole node");
  }
  if (damaged > 0) {
    out.remarks.push_back(fmt::format("{} nodes are damaged and left out", damaged));
  }
  if (messages.cut()) {
    out.remarks.push_back(fmt::format(
        "the file ends within a node, after {} whole nodes; these are used", out.nodes.size()));
  }
  return out;
}

void write_chakra(const ChakraTrace& trace, OutputFile& file) {
  std::string message;
  {
    protozero::pbf_writer to(message);
    to.add_string(metadata::version, trace.version);
  }
  append_message(message, file);
  for (const ChakraNode& n : trace.nodes) {
    append_message(node_message(n), file);
  }
  file.flush();
}

}  // namespace stepcast::trace
