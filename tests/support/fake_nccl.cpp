// NCCL and RCCL that move small data and compute nothing else: fake_gpu.h.
#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_gpu.h"

using stepcast::fake::enqueue;
using stepcast::fake::kMoved;

// ---------------------------------------------------------------- NCCL
namespace {

struct Move {  // one rank's part of an operation
  enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive } kind;
  const void* from;
  void* to;
  std::size_t count;
  std::size_t element;
  int peer;
};

struct Ring {  // the ranks of one communicator meet here, each in its own thread
  int ranks = 0;
  std::map<int, std::vector<Move>> posted;
  std::uint64_t round = 0;
  std::mutex mutex;
  std::condition_variable met;
};

std::map<std::string, Ring> rings;  // by unique id

std::size_t element_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void move_all(std::map<int, std::vector<Move>>& posted, int ranks) {
  const std::size_t steps = posted.begin()->second.size();
  for (std::size_t s = 0; s < steps; ++s) {
    const Move& first = posted.at(0).size() > s ? posted.at(0)[s] : posted.begin()->second[s];
    const auto n = static_cast<std::size_t>(ranks);
    if (first.count * first.element * n > kMoved || first.kind == Move::Kind::send ||
        first.kind == Move::Kind::receive) {
      continue;
    }
    const std::size_t bytes = first.count * first.element;
    const auto sum = [&](std::size_t at, std::size_t count) {
      std::vector<float> total(count, 0);
      for (int r = 0; r < ranks; ++r) {
        const auto* x = static_cast<const float*>(posted.at(r)[s].from) + at;
        for (std::size_t i = 0; i < count; ++i) {
          total[i] += x[i];
        }
      }
      return total;
    };
    std::vector<std::vector<unsigned char>> results(n);
    for (int r = 0; r < ranks; ++r) {
      auto& out = results[static_cast<std::size_t>(r)];
      const auto keep = [&](const void* data, std::size_t size) {
        const auto* b = static_cast<const unsigned char*>(data);
        out.insert(out.end(), b, b + size);
      };
      const bool floats = first.element == 4;
      if (first.kind == Move::Kind::all_gather) {
        for (int from = 0; from < ranks; ++from) {
          keep(posted.at(from)[s].from, bytes);
        }
      } else if (first.kind == Move::Kind::broadcast) {
        keep(posted.at(0)[s].from, bytes);
      } else if (floats && first.kind == Move::Kind::reduce_scatter) {
        keep(sum(static_cast<std::size_t>(r) * first.count, first.count).data(), bytes);
      } else if (floats && (first.kind == Move::Kind::all_reduce || r == 0)) {
        keep(sum(0, first.count).data(), bytes);
      }
    }
    for (int r = 0; r < ranks; ++r) {
      const auto& out = results[static_cast<std::size_t>(r)];
      if (!out.empty()) {
        std::memcpy(posted.at(r)[s].to, out.data(), out.size());
      }
    }
  }
  // Sends and receives are matched in the order in which each rank posted them to its peer.
  std::map<std::pair<int, int>, std::vector<const Move*>> sent;
  for (const auto& [rank, moves] : posted) {
    for (const Move& m : moves) {
      if (m.kind == Move::Kind::send) {
        sent[{rank, m.peer}].push_back(&m);
      }
    }
  }
  std::map<std::pair<int, int>, std::size_t> taken;
  for (const auto& [rank, moves] : posted) {
    for (const Move& m : moves) {
      if (m.kind == Move::Kind::receive) {
        const Move* from = sent.at({m.peer, rank}).at(taken[{m.peer, rank}]++);
        if (from->count != m.count) {
          std::abort();
        }
        if (m.count * m.element <= kMoved) {
          std::memcpy(m.to, from->from, m.count * m.element);
        }
      }
    }
  }
}

}  // namespace

struct ncclComm {
  Ring* ring = nullptr;
  int rank = 0;
};

namespace {

struct Open {  // per thread: the operations that a group has collected
  int depth = 0;
  std::vector<Move> moves;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};
thread_local Open open_group;

ncclResult_t flush() {
  Open group = std::move(open_group);
  open_group = {};
  if (group.comm == nullptr) {
    return ncclSuccess;
  }
  double bytes = 0;
  for (const Move& m : group.moves) {
    bytes += static_cast<double>(m.count * m.element);
  }
  Ring& ring = *group.comm->ring;
  std::unique_lock guard(ring.mutex);
  const std::uint64_t round = ring.round;
  ring.posted[group.comm->rank] = std::move(group.moves);
  if (static_cast<int>(ring.posted.size()) == ring.ranks) {
    move_all(ring.posted, ring.ranks);
    ring.posted.clear();
    ++ring.round;
    ring.met.notify_all();
  } else {
    ring.met.wait(guard, [&] { return ring.round != round; });
  }
  enqueue(group.stream, 10e-6 + bytes / 300e9);
  return ncclSuccess;
}

ncclResult_t post(const Move& move, ncclComm_t comm, cudaStream_t stream) {
  open_group.moves.push_back(move);
  open_group.comm = comm;
  open_group.stream = stream;
  return open_group.depth == 0 ? flush() : ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  std::memset(id, 0, sizeof *id);
  const std::string text = "fake " + std::to_string(++made);
  std::memcpy(id, text.data(), text.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  static std::mutex lock;
  const std::lock_guard guard(lock);
  Ring& ring = rings[std::string(id.internal, sizeof id.internal)];
  ring.ranks = ranks;
  *comm = new ncclComm{&ring, rank};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --open_group.depth;
  return open_group.depth == 0 ? flush() : ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::all_reduce, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::all_gather, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::reduce_scatter, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int,
                           ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::broadcast, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int, ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::reduce, from, to, count, element_of(type), 0}, comm, stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return post({Move::Kind::send, from, nullptr, count, element_of(type), peer}, comm, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post({Move::Kind::receive, nullptr, to, count, element_of(type), peer}, comm, stream);
}

}  // extern "C"
