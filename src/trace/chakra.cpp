// Chakra's nodes as a rank's events.
#include "stepcast/trace/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <queue>
#include <unordered_map>

#include "chakra_parts.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::trace {
namespace {

constexpr std::pair<ChakraCollective, const char*> kOperations[] = {
    {ChakraCollective::all_reduce, "all_reduce"},
    {ChakraCollective::reduce, "reduce"},
    {ChakraCollective::all_gather, "all_gather"},
    {ChakraCollective::gather, "gather"},
    {ChakraCollective::scatter, "scatter"},
    {ChakraCollective::broadcast, "broadcast"},
    {ChakraCollective::all_to_all, "all_to_all"},
    {ChakraCollective::reduce_scatter, "reduce_scatter"},
    {ChakraCollective::reduce_scatter_block, "reduce_scatter"},
    {ChakraCollective::barrier, "barrier"},
};

bool communicates(ChakraType type) {
  return type == ChakraType::collective || type == ChakraType::send || type == ChakraType::receive;
}

// What a node is: by its kernel's name where that says so, otherwise by its type.
KernelName known_node(const ChakraNode& node) {
  if (node.type == ChakraType::memory_load || node.type == ChakraType::memory_store) {
    return {node.type == ChakraType::memory_load ? Kind::copy_to_device : Kind::copy_to_host, "",
            node.name};
  }
  KernelName out = kernel_name(node.name);
  if (communicates(node.type)) {
    out.kind = Kind::communication;
    if (out.operation.empty()) {
      out.operation = node.type == ChakraType::collective ? "collective" : "send_recv";
    }
    for (const auto& [collective, operation] : kOperations) {
      if (node.collective == collective) {
        out.operation = operation;
      }
    }
  } else if (out.kind == Kind::communication) {
    out = {Kind::other, "", out.shown};
  }
  return out;
}

// When each node begins, as soon as what it names has ended.
class Play {
 public:
  explicit Play(const std::vector<ChakraNode>& nodes) : nodes_(nodes), start_(nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      index_.try_emplace(nodes[i].id, i);
    }
    after_.resize(nodes.size());
    open_.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      // Control dependencies say which operator called which, whose time may include the other's:
      // Chakra's own feeder (src/feeder/et_feeder.cpp) waits for data alone, and with control as
      // well most nodes of its example would wait in circles.
      for (const std::uint64_t id : nodes[i].data) {
        if (const auto at = index_.find(id); at != index_.end() && at->second != i) {
          after_[at->second].push_back(i);
          ++open_[i];
        }
      }
    }
  }

  // The number of nodes that could not be played, since they wait for each other.
  std::size_t run() {
    std::vector<Time> ready(nodes_.size(), Time(0));
    using Next = std::tuple<Time, std::uint64_t, std::size_t>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (open_[i] == 0) {
        queue.emplace(Time(0), nodes_[i].id, i);
      }
    }
    std::map<std::pair<bool, std::int64_t>, Time> free;
    std::size_t left = nodes_.size();
    while (!queue.empty()) {
      const std::size_t i = std::get<2>(queue.top());
      queue.pop();
      --left;
      Time& until = free[{nodes_[i].on_host, nodes_[i].thread}];
      start_[i] = std::max(ready[i], until);
      played(i, start_[i]);
      until = start_[i] + nodes_[i].duration;
      for (const std::size_t next : after_[i]) {
        ready[next] = std::max(ready[next], until);
        if (--open_[next] == 0) {
          queue.emplace(ready[next], nodes_[next].id, next);
        }
      }
    }
    return left;
  }
  Time start(std::size_t i) const { return start_[i]; }
  bool has(std::size_t i) const { return i < done_.size() && done_[i]; }
  // When the last of a device node's host operators has ended: its launch. Nothing without one.
  std::optional<Time> launch(std::size_t i) const {
    std::optional<Time> out;
    for (const auto* list : {&nodes_[i].control, &nodes_[i].data}) {
      for (const std::uint64_t id : *list) {
        const auto at = index_.find(id);
        if (at != index_.end() && nodes_[at->second].on_host && has(at->second)) {
          const Time end = start_[at->second] + nodes_[at->second].duration;
          out = std::max(out.value_or(end), end);
        }
      }
    }
    return out;
  }

 private:
  void played(std::size_t i, Time start) {
    done_.resize(nodes_.size());
    done_[i] = true;
    // Sums of a trace's times must fit as well.
    if (start > Time::max() / 4) {
      throw std::overflow_error("times beyond a month");
    }
  }

  const std::vector<ChakraNode>& nodes_;
  std::unordered_map<std::uint64_t, std::size_t> index_;
  std::vector<std::vector<std::size_t>> after_;
  std::vector<std::size_t> open_;
  std::vector<Time> start_;
  std::vector<bool> done_;
};

// The tables of a Trace, each text once.
class EventWriter {
 public:
  explicit EventWriter(Trace& trace) : trace_(trace) {}

  void add(const ChakraNode& node, Time start, std::optional<Time> launched) {
    DeviceEvent event;
    event.start = start;
    event.duration = node.duration;
    event.correlation = launched ? trace_.objects : -1;
    ++trace_.objects;
    const std::string key =
        fmt::format("{} {} {}", static_cast<int>(node.type),
                    node.collective ? static_cast<int>(*node.collective) : -1, node.name);
    const auto [at, is_new] = names_.try_emplace(key, trace_.names.size());
    if (is_new) {
      trace_.names.push_back(node.name);
      trace_.known.push_back(known_node(node));
    }
    event.name = static_cast<std::uint32_t>(at->second);
    const auto [stream, new_stream] = streams_.try_emplace(node.thread, trace_.streams.size());
    if (new_stream) {
      trace_.streams.push_back({0, node.thread});
    }
    event.stream = static_cast<std::uint32_t>(stream->second);
    if (communicates(node.type) && (node.bytes > 0 || !node.group.empty())) {
      event.call = call_of(node, trace_.known[event.name].operation);
    }
    if (launched) {
      trace_.launches.push_back({event.correlation, std::min(*launched, start), 0});
    }
    trace_.events.push_back(event);
  }

 private:
  std::uint32_t call_of(const ChakraNode& node, const std::string& operation) {
    const auto [at, is_new] =
        calls_.try_emplace({operation, node.group, node.bytes}, trace_.calls.size());
    if (is_new) {
      trace_.calls.push_back({operation, node.group, "", 0, node.bytes, node.bytes, "Byte"});
    }
    return static_cast<std::uint32_t>(at->second);
  }

  Trace& trace_;
  std::unordered_map<std::string, std::size_t> names_;
  std::map<std::int64_t, std::size_t> streams_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> calls_;
};

}  // namespace

ChakraType chakra_type(std::int64_t number) {
  return number < 0 || number > static_cast<std::int64_t>(ChakraType::collective)
             ? ChakraType::invalid
             : static_cast<ChakraType>(number);
}

Time chakra_time(std::int64_t microseconds) {
  constexpr std::int64_t kMicrosecond = 1'000'000;
  constexpr std::int64_t kLongest = INT64_MAX / kMicrosecond / 8;
  return microseconds < 0 || microseconds > kLongest ? Time(0) : Time(microseconds * kMicrosecond);
}

void set_attribute(ChakraNode& node, std::string_view name, std::int64_t number,
                   std::string_view text) {
  const auto set = [&](std::string_view of, std::int64_t& to) {
    if (name == of) {
      to = number;
    }
  };
  set("tid", node.thread);
  set("comm_size", node.bytes);
  set("comm_src", node.source);
  set("comm_dst", node.destination);
  set("comm_tag", node.tag);
  if (name == "is_cpu_op") {
    node.on_host = number != 0;
  } else if (name == "comm_type" && number >= 0 &&
             number <= static_cast<std::int64_t>(ChakraCollective::barrier)) {
    node.collective = static_cast<ChakraCollective>(number);
  } else if (name == "pg_name") {
    node.group = text;
  } else if (name == "duration_ps" && number > 0 && number < INT64_MAX / 8) {
    node.duration = Time(number);
  }
}

ChakraTrace read_chakra(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char first = ' ';
  while (in.get(first) && (first == ' ' || first == '\n' || first == '\r' || first == '\t')) {
  }
  // A metadata message of 123 or 91 bytes begins so too.
  const bool json = (first == '{' || first == '[') && !has_chakra_metadata(file);
  return json ? read_chakra_json(file) : read_chakra_protobuf(file);
}

Trace events_of(const ChakraTrace& chakra, const std::filesystem::path& file) {
  Trace out;
  out.file = file.string();
  out.remarks = chakra.remarks;
  const auto& nodes = chakra.nodes;
  const bool stated = std::any_of(nodes.begin(), nodes.end(), [](const ChakraNode& n) {
    return !n.on_host && n.start > Time(0);
  });
  Play play(nodes);
  std::size_t circular = 0;
  try {
    circular = play.run();
  } catch (const std::overflow_error&) {
    throw InputError(Fault{{file.string(), 0, 0}, "states durations of more than a month"});
  }
  EventWriter writer(out);
  std::int64_t untimed = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ChakraNode& node = nodes[i];
    const bool device =
        !node.on_host && node.type != ChakraType::invalid && node.type != ChakraType::metadata;
    if (!device || (!stated && !play.has(i))) {
      continue;
    }
    untimed += node.duration <= Time(0) ? 1 : 0;
    writer.add(node, stated ? node.start : play.start(i), stated ? std::nullopt : play.launch(i));
  }
  out.objects = static_cast<std::int64_t>(nodes.size());
  if (!stated) {
    out.remarks.emplace_back(
        "an execution trace of Chakra without start times: each node begins when what it names has "
        "ended and its stream is free");
  }
  if (circular > 0 && !stated) {
    out.remarks.push_back(
        fmt::format("{} nodes wait for each other in a circle and are left out", circular));
  }
  if (untimed > 0) {
    out.remarks.push_back(untimed == 1
                              ? "one node of the device states no duration"
                              : fmt::format("{} nodes of the device state no duration", untimed));
  }
  if (out.events.empty()) {
    out.remarks.emplace_back("no device events: the trace holds work of the host alone");
  }
  return out;
}

}  // namespace stepcast::trace
