// The program of a recorded rank.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string_view>

#include "captured_draft.h"

namespace stepcast::lower {
namespace {

using capture::Phase;
using program::Category;
using program::HostKind;
using program::StreamIndex;

constexpr std::int64_t kPicosecondsOfNano = 1000;

// The parallelism of a process group by a part of its name, as torchtitan, torch's examples and
// Megatron-Core name theirs.
struct NamedCategory {
  std::string_view part;
  Category category;
};
constexpr NamedCategory kCategories[] = {
    {"expert", Category::expert}, {"ep", Category::expert},       {"pipeline", Category::pipeline},
    {"pp", Category::pipeline},   {"context", Category::context}, {"cp", Category::context},
    {"tensor", Category::tensor}, {"tp", Category::tensor},       {"embedding", Category::other},
    {"norm", Category::other}};

Category category_of(Phase phase) {
  return phase == Phase::optimizer   ? Category::optimizer
         : phase == Phase::recompute ? Category::recompute
                                     : Category::compute;
}

template <class T>
std::uint32_t number_of(std::vector<T>& all, const T& one) {
  const auto at = std::find(all.begin(), all.end(), one);
  const auto number = static_cast<std::uint32_t>(at - all.begin());
  if (at == all.end()) {
    all.push_back(one);
  }
  return number;
}

// Puts a rank's tasks into its program.
struct CapturedProgram {
  CapturedDraft& w;
  const capture::Rank& rank;
  std::size_t number;  // of the program
  double relief;       // captured_relief
  program::Program out = {};
  double flops = 0, recomputed = 0;
  std::array<double, 10> by_type{};
  // By group and by stream: how many tasks each has so far, and which task of the group came last.
  std::map<std::int64_t, program::Wait> last_of_group = {};
  std::map<std::int64_t, std::uint32_t> issued = {};

  void waits(const capture::Task& t, program::Task& task) {
    task.first_wait = static_cast<std::uint32_t>(out.waits.size());
    task.waits = static_cast<std::uint16_t>(t.waits.size());
    for (const capture::Wait& wait : t.waits) {
      out.waits.push_back({static_cast<std::uint32_t>(wait.position), StreamIndex::at(wait.stream),
                           static_cast<std::uint8_t>(wait.lag)});
    }
  }

  // Collectives of one process group run one after the other, whatever streams they are issued
  // from (torch 2.15, distributed/fsdp/api.py:96).
  void behind_the_group(const capture::Task& t, program::Task& task) {
    const auto last = last_of_group.find(t.group);
    if (last != last_of_group.end() && last->second.stream != task.stream) {
      out.waits.push_back(last->second);
      ++task.waits;
    }
    last_of_group[t.group] = {issued[t.stream] + 1, task.stream, 0};
  }

  // The null GPU takes a launch at once; a driver does not, so that its part comes on top of
  // captured times. A launch of a framework has both.
  void host(const capture::Task& t, HostKind kind, int launches = 0) {
    program::HostOp op;
    op.kind = kind;
    const Time driver = w.kernels.launch().host;
    if (w.capture.host_scale) {
      op.duration = Time(std::llround(static_cast<double>(t.host * kPicosecondsOfNano) *
                                      *w.capture.host_scale)) +
                    driver * launches;
    } else {
      op.duration = std::max(w.launch, driver) * launches;
    }
    op.count = kind == HostKind::launch ? 1 : 0;
    out.host.push_back(op);
  }

  void sync(const capture::Task& t) {
    host(t, HostKind::work);
    for (const capture::Wait& wait : t.waits) {
      program::HostOp op;
      op.kind = HostKind::sync;
      op.wait = {static_cast<std::uint32_t>(wait.position), StreamIndex::at(wait.stream),
                 static_cast<std::uint8_t>(wait.lag)};
      out.host.push_back(op);
    }
  }

  void kernel(const capture::Task& t, program::Task& task) {
    static const capture::Operator none{"kernels outside operators", "", std::nullopt, std::nullopt,
                                        0};
    const capture::Operator& op =
        t.operator_number < 0 ? none : rank.operators[static_cast<std::size_t>(t.operator_number)];
    const CapturedKernel k = price_captured(w, op, t.phase, t.launches, w.loads[number], relief);
    task.duration = k.priced.time;
    task.curve = k.priced.curve;
    task.slowdown = k.slowdown;
    task.launches = static_cast<std::uint16_t>(t.launches);
    task.category = category_of(t.phase);
    task.label = w.labels.id(op.name);
    (t.phase == Phase::recompute ? recomputed : flops) += k.flops;
    by_type[static_cast<std::size_t>(captured_type(op.type))] += k.flops;
  }

  void collective(const capture::Task& t, program::Task& task) {
    const auto op = parse<cost::Collective>(t.operation).value_or(cost::Collective::all_reduce);
    const capture::Group& group = rank.groups[static_cast<std::size_t>(t.group)];
    const bool routed = group.routed && op == cost::Collective::all_to_all;
    const std::int64_t bytes = routed ? loaded(t.bytes, w.loads[number]) : t.bytes;
    task.kind = program::TaskKind::collective;
    task.communicator = program::CommunicatorRole::at(t.group);
    task.price = program::PriceKey::at(number_of(w.collectives, {op, bytes}));
    task.category = group.routed ? Category::expert : captured_category(group.name);
    task.label = w.labels.id(t.operation);
  }

  void exchange(const capture::Task& t, program::Task& task) {
    const std::vector<int>& ranks = rank.groups[static_cast<std::size_t>(t.group)].ranks;
    const int here =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), rank.rank) - ranks.begin());
    const int size = static_cast<int>(ranks.size());
    task.kind = program::TaskKind::exchange;
    task.category = captured_category(rank.groups[static_cast<std::size_t>(t.group)].name);
    task.wait_category = task.category == Category::pipeline ? Category::bubble : Category::stall;
    task.first_transfer = static_cast<std::uint32_t>(out.transfers.size());
    task.transfers = static_cast<std::uint16_t>(t.messages.size());
    task.label = w.labels.id("send and receive");
    for (const capture::Message& m : t.messages) {
      program::Transfer transfer;
      const CapturedDraft::ChannelUse use{static_cast<std::uint32_t>(t.group),
                                          (m.peer - here + size) % size, m.send};
      transfer.channel = program::ChannelRole::at(number_of(w.channels[number], use));
      transfer.price = program::PriceKey::at(number_of(w.messages, m.bytes));
      transfer.send = m.send;
      out.transfers.push_back(transfer);
    }
  }

  void copy(const capture::Task& t, program::Task& task) {
    const auto direction =
        t.to_device ? cost::CopyDirection::host_to_device : cost::CopyDirection::device_to_host;
    const cost::Priced priced = w.kernels.copy(direction, true, Bytes(t.bytes));
    task.duration = priced.time;
    task.curve = priced.curve;
    task.category = Category::offload;
    task.label = w.labels.id(t.to_device ? "copy to the device" : "copy to the host");
  }

  void take(const capture::Task& t) {
    using capture::TaskKind;
    if (t.kind == TaskKind::sync) {
      return sync(t);
    }
    if (t.kind == TaskKind::host) {
      return host(t, HostKind::work);
    }
    program::Task task;
    task.stream = StreamIndex::at(t.stream);
    waits(t, task);
    if (t.kind == TaskKind::collective || t.kind == TaskKind::exchange) {
      behind_the_group(t, task);
    }
    if (t.kind == TaskKind::kernel) {
      kernel(t, task);
    } else if (t.kind == TaskKind::collective) {
      collective(t, task);
    } else if (t.kind == TaskKind::exchange) {
      exchange(t, task);
    } else {
      copy(t, task);
    }
    host(t, HostKind::launch, t.launches);
    ++issued[t.stream];
    out.tasks.push_back(task);
  }
};

}  // namespace

program::Category captured_category(const std::string& group) {
  std::string name = group;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("data") != std::string::npos || name.find("dp") != std::string::npos) {
    return Category::data;
  }
  for (const NamedCategory& known : kCategories) {
    if (name.find(known.part) != std::string::npos && name.find("replicate") == std::string::npos) {
      return known.category;
    }
  }
  return Category::data;
}

program::Program captured_program(CapturedDraft& w, const capture::Rank& rank) {
  w.channels.emplace_back();
  const std::size_t number = w.out.world.programs.size();
  CapturedProgram p{w, rank, number, captured_relief(w, rank, w.loads[number])};
  p.out.stage = static_cast<int>(p.number);
  p.out.name = "rank " + std::to_string(rank.rank);
  for (const std::string& name : rank.streams) {
    p.out.streams.push_back({name});
  }
  for (const capture::Task& t : rank.tasks) {
    p.take(t);
  }
  p.out.communicator_roles = static_cast<std::uint32_t>(rank.groups.size());
  p.out.channel_roles = static_cast<std::uint32_t>(w.channels.back().size());
  w.out.flops.push_back(p.flops);
  w.out.recomputed.push_back(p.recomputed);
  w.out.type =
      static_cast<DType>(std::max_element(p.by_type.begin(), p.by_type.end()) - p.by_type.begin());
  return std::move(p.out);
}

}  // namespace stepcast::lower
