// Times collectives as nccl-tests does: a barrier, a batch of launches back to back, and the
// wall-clock time until the last one is finished on the slowest rank. The result is the median over
// such batches.
#include "collective.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>

#include "collective_check.h"

namespace stepcast::harness::cuda {
namespace {

using interop::CollectiveCase;

constexpr int kBatch = 20;      // launches; nccl-tests' default number of iterations
constexpr int kMinSamples = 5;  // samples
constexpr int kMinWarmups = 2;
constexpr std::size_t kCheckShare = 4096;  // elements of a share in the correctness check
constexpr std::size_t kLeftForNccl = std::size_t{1} << 30;  // bytes of GPU memory

ncclDataType_t type_of(job::DType dtype) {
  switch (dtype) {
    case job::DType::fp32:
      return ncclFloat32;
    case job::DType::bf16:
      return ncclBfloat16;
    case job::DType::fp16:
      return ncclFloat16;
    case job::DType::int8:
      return ncclInt8;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
    case job::DType::fp8:
      return ncclFloat8e4m3;
#endif
    default:
      throw Unsupported(std::string("NCCL has no type ") + job::to_string(dtype));
  }
}

std::string lower(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

// `count` is nccl-tests' count column. The sends and receives of one operation are issued as one
// group.
void enqueue(const CollectiveCase& what, std::int64_t elements, const Slot& slot, ncclComm_t comm,
             const Buffer& send, const Buffer& receive, cudaStream_t stream) {
  const ncclDataType_t type = type_of(what.dtype);
  const auto count = static_cast<std::size_t>(elements);
  const std::size_t share = count * static_cast<std::size_t>(nccl_type_bytes(what.dtype));
  if (what.op == "all_reduce") {
    check(ncclAllReduce(send.data(), receive.data(), count, type, ncclSum, comm, stream),
          "ncclAllReduce", comm);
  } else if (what.op == "all_gather") {
    check(ncclAllGather(send.data(), receive.data(), count, type, comm, stream), "ncclAllGather",
          comm);
  } else if (what.op == "reduce_scatter") {
    check(ncclReduceScatter(send.data(), receive.data(), count, type, ncclSum, comm, stream),
          "ncclReduceScatter", comm);
  } else if (what.op == "broadcast") {
    check(ncclBroadcast(send.data(), receive.data(), count, type, 0, comm, stream), "ncclBroadcast",
          comm);
  } else if (what.op == "reduce") {
    check(ncclReduce(send.data(), receive.data(), count, type, ncclSum, 0, comm, stream),
          "ncclReduce", comm);
  } else {  // alltoall, sendrecv
    const bool all = what.op == "alltoall";
    check(ncclGroupStart(), "ncclGroupStart", comm);
    ncclResult_t first = ncclSuccess;  // the group must be ended even after an error
    const auto pair = [&](int to, int from, std::size_t send_at, std::size_t receive_at) {
      if (first == ncclSuccess) {
        first = ncclSend(send.as<char>() + send_at, count, type, to, comm, stream);
      }
      if (first == ncclSuccess) {
        first = ncclRecv(receive.as<char>() + receive_at, count, type, from, comm, stream);
      }
    };
    if (all) {
      for (int peer = 0; peer < what.ranks; ++peer) {
        const std::size_t at = static_cast<std::size_t>(peer) * share;
        pair(peer, peer, at, at);
      }
    } else {
      pair((slot.rank + 1) % what.ranks, (slot.rank + what.ranks - 1) % what.ranks, 0, 0);
    }
    const ncclResult_t end = ncclGroupEnd();
    check(first, "ncclSend", comm);
    check(end, "ncclGroupEnd", comm);
  }
}

// Sizes of both buffers of a rank in bytes.
std::pair<std::size_t, std::size_t> buffer_bytes(const CollectiveCounts& counts, job::DType dtype) {
  const auto element = static_cast<std::size_t>(nccl_type_bytes(dtype));
  return {static_cast<std::size_t>(counts.send) * element,
          static_cast<std::size_t>(counts.receive) * element};
}

void wait_for(Team& team, const Slot& slot, ncclComm_t comm) {
  team.wait(slot.context->stream, [comm] { return error_elsewhere(comm); });
}

// Sends known numbers through a new communicator. Wrong results end the run, since no measurement
// with this communicator would be valid.
void verify(Team& team, const CollectiveCase& asked, const Communicator& communicator) {
  CollectiveCase what = asked;
  what.dtype = job::DType::fp32;
  what.bytes = static_cast<std::int64_t>(kCheckShare * sizeof(float)) *
               (in_shares(what.op) ? what.ranks : 1);
  const CollectiveCounts counts = counts_of(what).value();
  std::vector<Buffer> send(team.size()), receive(team.size());
  team.together([&](Slot& slot) {
    const auto index = static_cast<std::size_t>(slot.index);
    const auto [send_bytes, receive_bytes] = buffer_bytes(counts, what.dtype);
    send[index] = Buffer(send_bytes);
    receive[index] = Buffer(receive_bytes);
    std::vector<float> numbers(static_cast<std::size_t>(counts.send));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = sent(slot.rank, i);
    }
    check(cudaMemcpy(send[index].data(), numbers.data(), send_bytes, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    // The bytes 0xff are not a number.
    check(cudaMemset(receive[index].data(), 0xff, receive_bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaMemset");
  });
  team.together([&](Slot& slot) {
    const auto index = static_cast<std::size_t>(slot.index);
    const ncclComm_t comm = communicator.of(slot);
    enqueue(what, counts.count, slot, comm, send[index], receive[index], slot.context->stream);
    wait_for(team, slot, comm);
  });
  team.run([&](Slot& slot) {
    const auto index = static_cast<std::size_t>(slot.index);
    std::vector<float> got(static_cast<std::size_t>(counts.receive));
    check(cudaMemcpy(got.data(), receive[index].data(), got.size() * sizeof(float),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    const std::vector<float> right = expected(what.op, what.ranks, slot.rank, kCheckShare);
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (!(got.at(i) == right[i])) {
        throw std::runtime_error("wrong result of " + what.op + " among " +
                                 std::to_string(what.ranks) + " ranks (" +
                                 (asked.algo.empty() ? "any algorithm" : asked.algo) + ", " +
                                 (asked.proto.empty() ? "any protocol" : asked.proto) + "): rank " +
                                 std::to_string(slot.rank) + ", element " + std::to_string(i));
      }
    }
  });
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Operations that NCCL refused earlier on such a communicator. Making the communicator again would
// take seconds.
using Refusal = std::tuple<std::string, std::string, std::string, int, int, int>;
Refusal refusal_of(const CollectiveCase& c, int channels) {
  return {c.op,    lower(c.algo) + " " + lower(c.proto), job::to_string(c.dtype), c.ranks, c.nodes,
          channels};
}
std::map<Refusal, std::string>& refused() {
  static std::map<Refusal, std::string> all;
  return all;
}

class Timer {
 public:
  Timer(Team& team, const Collective& collective) : team_(team), collective_(collective) {}

  // Seconds of one launch for each of `samples` batches: those of the slowest rank over all
  // processes.
  std::vector<double> batches(int samples, int batch) {
    std::vector<std::vector<double>> by_slot(
        team_.size(), std::vector<double>(static_cast<std::size_t>(samples), 0.0));
    team_.run([&](Slot& slot) {
      for (double& seconds : by_slot[static_cast<std::size_t>(slot.index)]) {
        team_.meet(slot);
        const double start = now();
        enqueue_all(slot, batch);
        wait_for(team_, slot, collective_.of(slot));
        seconds = (now() - start) / batch;
      }
    });
    std::vector<double> slowest = by_slot.front();
    for (const std::vector<double>& one : by_slot) {
      std::transform(one.begin(), one.end(), slowest.begin(), slowest.begin(),
                     [](double a, double b) { return std::max(a, b); });
    }
    team_.party().maximum(slowest);
    return slowest;
  }

  void warm_up(int launches) {
    team_.run([&](Slot& slot) {
      for (int i = 0; i < launches; ++i) {
        collective_.launch(slot, slot.context->stream);
        wait_for(team_, slot, collective_.of(slot));
      }
    });
  }

  // Sensor values of the caller's GPU under load.
  Sensors sensors(int batch) {
    Sensors read;
    team_.run([&](Slot& slot) {
      team_.meet(slot);
      enqueue_all(slot, batch);
      if (slot.index == 0) {
        read = read_sensors(slot.gpu);
      }
      wait_for(team_, slot, collective_.of(slot));
    });
    return read;
  }

 private:
  void enqueue_all(const Slot& slot, int batch) const {
    for (int i = 0; i < batch; ++i) {
      collective_.launch(slot, slot.context->stream);
    }
  }
  Team& team_;
  const Collective& collective_;
};

}  // namespace

std::string never_supported(const CollectiveCase& what) {
  if (!counts_of(what)) {
    return std::to_string(what.bytes) + " bytes of " + job::to_string(what.dtype) +
           " are no whole elements of each of " + std::to_string(what.ranks) + " ranks in " +
           what.op;
  }
  if (what.algo.empty() && what.proto.empty()) {
    return "";
  }
  const std::string algo = lower(what.algo);
  const std::string proto = lower(what.proto);
  if (what.op == "alltoall" || what.op == "sendrecv") {
    return what.op + " is sends and receives, without algorithm and protocol";
  }
  // NCCL 2.28, src/graph/tuning.cc (ncclTopoTuneModel): which algorithms each function has, and
  // that all algorithms except ring and tree support only the Simple protocol.
  constexpr std::array<std::string_view, 3> kProtocols = {"ll", "ll128", "simple"};
  if (!proto.empty() &&
      std::find(kProtocols.begin(), kProtocols.end(), proto) == kProtocols.end()) {
    return "NCCL has no protocol " + what.proto;
  }
  std::vector<std::string_view> has = {"ring"};
  if (what.op == "all_reduce") {
    has = {"ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree"};
  } else if (what.op == "all_gather" || what.op == "reduce_scatter") {
    has = {"ring", "collnetdirect", "nvls", "pat"};
  }
  if (!algo.empty() && std::find(has.begin(), has.end(), algo) == has.end()) {
    return "NCCL has no " + what.op + " by " + what.algo;
  }
  if (!algo.empty() && algo != "ring" && algo != "tree" && !proto.empty() && proto != "simple") {
    return what.algo + " has the Simple protocol alone";
  }
  return "";
}

CommunicatorKey key_of(const CollectiveCase& what, int channels, const Team& team) {
  return {what.ranks, what.nodes, lower(what.algo), lower(what.proto), channels, team.gpus()};
}

Collective::Collective(Team& team, const CollectiveCase& what, int channels, std::uint64_t seed)
    : what_(what), send_(team.size()), receive_(team.size()) {
  if (const auto known = refused().find(refusal_of(what, channels)); known != refused().end()) {
    throw Unsupported(known->second);
  }
  counts_ = counts_of(what).value();
  team.on_failure(abandon_communicator);
  // NCCL reports unsupported operations when a communicator is made or first used; the communicator
  // is unusable afterwards.
  const auto or_refused = [&](const auto& attempt) {
    try {
      attempt();
    } catch (const Unsupported& why) {
      refused().emplace(refusal_of(what, channels), why.what());
      abandon_communicator();
      throw;
    }
  };
  or_refused([&] {
    communicator_ = &communicator(team, key_of(what, channels, team));
    if (communicator_->verified.count(what.op) == 0) {
      verify(team, what, *communicator_);
      communicator_->verified.insert(what.op);
    }
  });
  team.together([&](Slot& slot) {
    const auto index = static_cast<std::size_t>(slot.index);
    const auto [send_bytes, receive_bytes] = buffer_bytes(counts_, what.dtype);
    std::size_t available = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    if (send_bytes + receive_bytes + kLeftForNccl > available) {
      throw Unsupported("not enough GPU memory for its buffers");
    }
    send_[index] = Buffer(send_bytes);
    receive_[index] = Buffer(receive_bytes);
    fill_random(*slot.context, send_[index].data(), static_cast<std::size_t>(counts_.send),
                what.dtype, seed + static_cast<std::uint64_t>(slot.rank));
    check(cudaStreamSynchronize(slot.context->stream), "fill_random");
  });
  or_refused([&] {
    team.together([&](Slot& slot) {
      launch(slot, slot.context->stream);
      wait_for(team, slot, of(slot));
    });
  });
}

void Collective::launch(const Slot& slot, cudaStream_t stream) const {
  const auto index = static_cast<std::size_t>(slot.index);
  enqueue(what_, counts_.count, slot, communicator_->of(slot), send_[index], receive_[index],
          stream);
}

Samples run_collective(Context& context, const CollectiveCase& what, const Policy& policy) {
  if (const std::string never = never_supported(what); !never.empty()) {
    throw Unsupported(never);  // every process decides this alike
  }
  Team team(context, what.ranks, what.nodes);
  // The ranks that take part do the same at this point.
  end_communicator_unless(key_of(what, 0, team));
  if (!team.in()) {
    return {};
  }
  const Collective collective(team, what, 0, policy.seed);
  Timer timer(team, collective);
  timer.warm_up(std::max(policy.warmups, kMinWarmups));
  const double once = std::max(timer.batches(1, kMinWarmups).front(), 1e-7);
  // The number of launches per batch is as large as the budget allows, up to nccl-tests' number.
  const int most = std::max(policy.samples, kMinSamples);
  const double room = policy.budget / most / once;  // launches in one sample's share of the budget
  const int batch = static_cast<int>(std::clamp(room, 1.0, static_cast<double>(kBatch)));
  const int count = static_cast<int>(std::clamp(
      policy.budget / (once * batch), static_cast<double>(kMinSamples), static_cast<double>(most)));
  Samples samples;
  samples.seconds = timer.batches(count, batch);
  const Sensors sensors = timer.sensors(batch);
  samples.sm_clock = sensors.sm_clock;
  samples.power = sensors.power;
  samples.temperature = sensors.temperature;
  return samples;
}

}  // namespace stepcast::harness::cuda
