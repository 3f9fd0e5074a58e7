// Chakra's JSON: a list workload_graph of nodes.
#include <fmt/format.h>

#include <charconv>

#include "chakra_parts.h"
#include "decimal.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/json_stream.h"

namespace stepcast::trace {
namespace {

// "[429, 3]".
std::vector<std::uint64_t> parse_ids(std::string_view text) {
  std::vector<std::uint64_t> out;
  while (true) {
    const auto from = text.find_first_of("0123456789");
    if (from == text.npos) {
      return out;
    }
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), id);
    if (error == std::errc()) {
      out.push_back(id);
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
}

class GraphReader final : public text::JsonListReader {
 public:
  explicit GraphReader(ChakraTrace& trace) : trace_(trace) {}

  void fact(std::string_view path, std::string_view value) override {
    if (path == "version") {
      trace_.version = value;
    }
  }
  void begin() override {
    node_ = {};
    has_id_ = false;
  }
  bool wants(std::string_view, std::string_view) override { return true; }
  bool member(std::string_view, std::string_view key, std::string_view value,
              text::JsonKind kind) override {
    const std::int64_t number = value == "true" ? 1 : parse_whole(value).value_or(0);
    if (key == "Id" || key == "id") {
      node_.id = static_cast<std::uint64_t>(number);
      has_id_ = kind == text::JsonKind::number;
    } else if (key == "Name" || key == "name") {
      node_.name = value;
    } else if (key == "NodeType" || key == "type") {
      node_.type = chakra_type(number);
    } else if (key == "ctrlDeps" || key == "ctrl_deps") {
      node_.control = parse_ids(value);
    } else if (key == "data_deps" || key == "dataDeps") {
      node_.data = parse_ids(value);
    } else if (key == "runtime" || key == "duration_micros") {
      node_.duration = chakra_time(number);
    } else if (key == "start_time_micros") {
      node_.start = chakra_time(number);
    } else {
      set_attribute(node_, key, number, value);
    }
    return true;
  }
  void end() override {
    if (has_id_) {
      trace_.nodes.push_back(std::move(node_));
    } else {
      ++damaged_;
    }
  }
  std::int64_t damaged() const { return damaged_; }

 private:
  ChakraTrace& trace_;
  ChakraNode node_;
  bool has_id_ = false;
  std::int64_t damaged_ = 0;
};

}  // namespace

ChakraTrace read_chakra_json(const std::filesystem::path& file) {
  ChakraTrace out;
  GraphReader reader(out);
  const text::JsonStream stream = text::stream_json(file, "workload_graph", reader);
  const auto refuse = [&](std::string why) {
    throw InputError(Fault{{file.string(), 0, 0}, std::move(why)});
  };
  if (!out.version.empty() && out.version != kChakraVersion) {
    refuse(fmt::format("is an execution trace of Chakra's schema {}; expected {}", out.version,
                       kChakraVersion));
  }
  if (out.nodes.empty()) {
    refuse("is no execution trace of Chakra: its workload_graph holds no whole node");
  }
  if (const std::int64_t damaged = reader.damaged() + stream.damaged - (stream.cut ? 1 : 0);
      damaged > 0) {
    out.remarks.push_back(fmt::format("{} nodes are damaged and left out", damaged));
  }
  if (stream.cut) {
    out.remarks.push_back(fmt::format(
        "the file ends within its graph, after {} whole nodes; these are used", out.nodes.size()));
  }
  return out;
}

}  // namespace stepcast::trace
