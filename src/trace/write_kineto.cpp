// A forecast's step in the form of Kineto's traces, so that whatever reads a profile reads a
// forecast, and a reader can be held against what it should find.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "stepcast/trace/write.h"
#include "tasks.h"

namespace stepcast::trace {
namespace {

using program::Slice;
using program::Task;
using program::TaskKind;

// Microseconds, exact to the picosecond.
std::string microseconds(Time time) {
  const std::int64_t ps = time.count();
  return fmt::format("{}.{:06}", ps / 1'000'000, ps % 1'000'000);
}

// NCCL's and PyTorch's names of a collective.
struct Called {
  std::string_view operation, kernel, collective;
};
constexpr Called kCalled[] = {
    {"all_reduce", "ncclDevKernel_AllReduce", "allreduce"},
    {"all_gather", "ncclDevKernel_AllGather", "_allgather_base"},
    {"reduce_scatter", "ncclDevKernel_ReduceScatter", "_reduce_scatter_base"},
    {"all_to_all", "ncclDevKernel_AllToAll", "all_to_allv"},
    {"send_recv", "ncclDevKernel_SendRecv", ""},
};
Called called(const std::string& operation) {
  for (const Called& one : kCalled) {
    if (one.operation == operation) {
      return one;
    }
  }
  return {operation, "ncclDevKernel_Generic", operation};
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

class KinetoWriter {
 public:
  KinetoWriter(const result::Report::Trace& from, std::uint32_t rank, const KinetoOptions& options,
               OutputFile& file)
      : world_(from.world),
        timeline_(from.timeline),
        rank_(from.world.ranks[rank]),
        program_(from.world.programs[rank_.program]),
        options_(options),
        file_(file) {
    for (const Slice& slice : timeline_.slices) {
      if (slice.rank == rank) {
        slices_.push_back(slice);
      }
    }
    std::sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
      return a.arrive != b.arrive ? a.arrive < b.arrive : a.task < b.task;
    });
    list_members();
  }

  void write() {
    file_.append("{\"schemaVersion\": 1,\n");
    if (!options_.device.empty()) {
      file_.append(fmt::format("\"deviceProperties\": [{{\"id\": 0, \"name\": {}}}],\n",
                               in_quotes(options_.device)));
    }
    file_.append(
        fmt::format("\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": "
                    "{}}},\n\"traceEvents\": [\n",
                    options_.rank, options_.world_size));
    for (int step = 0; step < options_.steps; ++step) {
      write_step(step);
    }
    file_.append("\n]}\n");
  }

 private:
  // Ranks of each communicator, where every rank is simulated.
  void list_members() {
    if (!world_.multiplicity.empty()) {
      return;
    }
    for (std::uint32_t r = 0; r < world_.ranks.size(); ++r) {
      const program::Rank& rank = world_.ranks[r];
      const std::uint32_t roles = world_.programs[rank.program].communicator_roles;
      for (std::uint32_t role = 0; role < roles; ++role) {
        auto& list = members_[world_.communicator_table[rank.first_communicator + role]];
        if (list.empty() || list.back() != r) {
          list.push_back(r);
        }
      }
    }
  }

  void event(std::string_view category, std::string_view name, std::string_view where, Time start,
             Time duration, const std::string& arguments) {
    file_.append(fmt::format(
        "{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, {}, \"ts\": {}, \"dur\": {}{}}}",
        first_ ? "" : ",\n", category, in_quotes(name), where, microseconds(start),
        microseconds(duration), arguments.empty() ? "" : ", \"args\": {" + arguments + "}"));
    first_ = false;
  }

  void write_step(int number) {
    // A step's first tasks may run before the step before has ended.
    const Time at = kOrigin + timeline_.period * number;
    event("user_annotation", fmt::format("ProfilerStep#{}", number), kThreads[0], at,
          timeline_.period, "");
    for (const Slice& slice : slices_) {
      write_task(slice, at);
    }
  }

  // A task counts as launched when it reached the head of its stream with nothing left to wait for:
  // before that its stream does not wait for the host alone.
  void write_task(const Slice& slice, Time at) {
    const Task& task = program_.tasks[slice.task];
    const Phase phase = phase_of(program_, task);
    const std::string_view thread = kThreads[static_cast<std::size_t>(phase)];
    const Time launched = at + slice.arrive;
    if (phase != Phase::forward) {
      event(phase == Phase::optimizer ? "user_annotation" : "cpu_op",
            phase == Phase::optimizer
                ? "Optimizer.step#Optimizer.step"
                : "autograd::engine::evaluate_function: " + program_.labels[task.label],
            thread, launched, Time(0), "");
    }
    const std::int64_t id = ++correlation_;
    event("cuda_runtime", task.kind == TaskKind::copy ? "cudaMemcpyAsync" : "cudaLaunchKernelExC",
          thread, launched, Time(0), fmt::format("\"correlation\": {}", id));
    const std::string where = fmt::format("\"pid\": 0, \"tid\": {}", kFirstStream + task.stream);
    const std::string arguments = fmt::format("\"device\": 0, \"stream\": {}, \"correlation\": {}",
                                              kFirstStream + task.stream, id);
    const std::string& label = program_.labels[task.label];
    if (task.kind == TaskKind::kernel) {
      event("kernel", kernel_called(world_, task, label), where, at + slice.begin,
            slice.end - slice.begin, arguments);
    } else if (task.kind == TaskKind::copy) {
      event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", where, launched,
            slice.end - slice.arrive, arguments);
    } else {
      const Called as = called(operation_of(world_, rank_, task));
      event("kernel", fmt::format("{}({})", as.kernel, label), where, launched,
            slice.end - slice.arrive, arguments + call(task, as));
    }
  }

  std::string call(const Task& task, const Called& as) const {
    if (task.kind != TaskKind::collective) {
      return "";
    }
    const auto role = rank_.first_communicator + task.communicator;
    const program::CommunicatorId number = world_.communicator_table[role];
    const auto& communicator = communicator_of(world_, rank_, task);
    const std::int64_t bytes = price_of(world_, rank_, task).bytes.count();
    const std::int64_t part = bytes / std::max<std::uint32_t>(1, communicator.size);
    std::string out = fmt::format(
        ", \"Collective name\": {}, \"In msg nelems\": {}, \"Out msg nelems\": {}, \"Group size\": "
        "{}, \"dtype\": \"Byte\", \"Process Group Name\": \"{}\", \"Process Group Description\": "
        "{}",
        in_quotes(as.collective), as.operation == "all_gather" ? part : bytes,
        as.operation == "reduce_scatter" ? part : bytes, communicator.size,
        static_cast<std::uint32_t>(number), in_quotes(program_.streams[task.stream].name));
    if (const auto at = members_.find(number); at != members_.end()) {
      out += fmt::format(", \"Process Group Ranks\": \"[{}]\"", fmt::join(at->second, ", "));
    }
    return out;
  }

  static constexpr Time kOrigin{1'000'000'000'000};  // one second: nothing lies before it by more
  static constexpr int kFirstStream = 7;             // as CUDA numbers them
  // By phase: of forward, backward and the optimizer.
  static constexpr std::string_view kThreads[] = {
      "\"pid\": 1, \"tid\": 1", "\"pid\": 1, \"tid\": 2", "\"pid\": 1, \"tid\": 3"};

  const program::World& world_;
  const program::Timeline& timeline_;
  const program::Rank& rank_;
  const program::Program& program_;
  const KinetoOptions& options_;
  OutputFile& file_;
  std::vector<Slice> slices_;
  std::map<program::CommunicatorId, std::vector<std::uint32_t>> members_;
  std::int64_t correlation_ = 0;
  bool first_ = true;
};

}  // namespace

void write_kineto(const result::Report& report, std::uint32_t rank, const KinetoOptions& options,
                  OutputFile& file) {
  KinetoWriter(*report.trace, rank, options, file).write();
  file.flush();
}

}  // namespace stepcast::trace
