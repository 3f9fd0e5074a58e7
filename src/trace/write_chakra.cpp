// What a forecast's rank runs, as Chakra's nodes.
#include <fmt/format.h>

#include <algorithm>

#include "chakra_parts.h"
#include "tasks.h"

namespace stepcast::trace {
namespace {

using program::Task;
using program::TaskKind;

constexpr std::pair<std::string_view, ChakraCollective> kCollectives[] = {
    {"all_reduce", ChakraCollective::all_reduce},
    {"all_gather", ChakraCollective::all_gather},
    {"reduce_scatter", ChakraCollective::reduce_scatter},
    {"all_to_all", ChakraCollective::all_to_all},
    {"broadcast", ChakraCollective::broadcast},
    {"reduce", ChakraCollective::reduce},
    {"gather", ChakraCollective::gather},
    {"scatter", ChakraCollective::scatter},
};

class GraphWriter {
 public:
  GraphWriter(const program::World& world, std::uint32_t rank)
      : world_(world),
        rank_(world.ranks[rank]),
        program_(world.programs[rank_.program]),
        of_stream_(program_.streams.size()) {}

  ChakraTrace run() {
    // A wait names a position of a stream, which may be filled by a later task only in the step
    // before.
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) {
      of_stream_[program_.tasks[i].stream].push_back(i);
    }
    place_.resize(program_.tasks.size());
    std::uint64_t id = 1;
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) {
      const Task& task = program_.tasks[i];
      place_[i] = {id, task.kind == TaskKind::exchange ? std::max<int>(1, task.transfers) : 1};
      id += static_cast<std::uint64_t>(place_[i].count);
    }
    std::vector<std::size_t> done(of_stream_.size());
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) {
      add(i, done[program_.tasks[i].stream]++);
    }
    out_.version = kChakraVersion;
    return std::move(out_);
  }

 private:
  struct Place {
    std::uint64_t id = 0;
    int count = 1;
  };

  void name_all(std::uint32_t task, std::vector<std::uint64_t>& out) const {
    for (int k = 0; k < place_[task].count; ++k) {
      out.push_back(place_[task].id + static_cast<std::uint64_t>(k));
    }
  }

  // Behind the task before it on its stream, and behind what it waits for in this step.
  void add(std::uint32_t index, std::size_t position) {
    const Task& task = program_.tasks[index];
    ChakraNode node;
    node.id = place_[index].id;
    node.name = program_.labels[task.label];
    node.thread = task.stream;
    if (position > 0) {
      name_all(of_stream_[task.stream][position - 1], node.data);
    }
    for (std::uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w) {
      const program::Wait& wait = program_.waits[w];
      if (wait.lag == 0 && wait.position > 0) {
        name_all(of_stream_[wait.stream][wait.position - 1], node.data);
      }
    }
    std::sort(node.data.begin(), node.data.end());
    node.data.erase(std::unique(node.data.begin(), node.data.end()), node.data.end());
    if (task.kind == TaskKind::exchange) {
      add_transfers(task, node);
      return;
    }
    fill(task, node);
    out_.nodes.push_back(std::move(node));
  }

  void fill(const Task& task, ChakraNode& node) const {
    if (task.kind == TaskKind::kernel) {
      node.type = ChakraType::compute;
      node.name = kernel_called(world_, task, node.name);
      node.duration = task.duration;
      return;
    }
    if (task.kind == TaskKind::copy) {
      node.type = ChakraType::memory_store;
      set_price(world_.shapes[rank_.copy_shape].prices[task.price], node);
      return;
    }
    node.type = ChakraType::collective;
    set_price(price_of(world_, rank_, task), node);
    const auto role = rank_.first_communicator + task.communicator;
    node.group = fmt::format("{} {}", program_.streams[task.stream].name,
                             static_cast<std::uint32_t>(world_.communicator_table[role]));
    const std::string operation = operation_of(world_, rank_, task);
    for (const auto& [name, collective] : kCollectives) {
      if (operation == name) {
        node.collective = collective;
      }
    }
  }

  // One node for each send and each receive; all have the task's waits.
  void add_transfers(const Task& task, ChakraNode node) {
    for (std::uint32_t k = task.first_transfer; k < task.first_transfer + task.transfers; ++k) {
      const program::Transfer& transfer = program_.transfers[k];
      const auto& channel =
          world_.channels[world_.channel_table[rank_.first_channel + transfer.channel]];
      node.type = transfer.send ? ChakraType::send : ChakraType::receive;
      node.source = channel.sender;
      node.destination = channel.receiver;
      node.tag = transfer.key;
      set_price(world_.shapes[channel.shape].prices[transfer.price], node);
      out_.nodes.push_back(node);
      ++node.id;
    }
    if (task.transfers == 0) {
      node.type = ChakraType::compute;
      out_.nodes.push_back(node);
    }
  }

  static void set_price(const program::Price& price, ChakraNode& node) {
    node.duration = price.latency + price.fluid;
    node.bytes = price.bytes.count();
  }

  const program::World& world_;
  const program::Rank& rank_;
  const program::Program& program_;
  std::vector<std::vector<std::uint32_t>> of_stream_;  // tasks in order
  std::vector<Place> place_;                           // nodes of each task
  ChakraTrace out_;
};

}  // namespace

ChakraTrace chakra_of(const result::Report& report, std::uint32_t rank) {
  return GraphWriter(report.trace->world, rank).run();
}

}  // namespace stepcast::trace
