// NCCL without a network: every communicator is made at once and every operation has been done. PyTorch's own process group runs on
// it, so the streams, events and buffers of communication are the real ones. Small messages carry values as if all ranks held the
// same: then sizes and settings that ranks tell each other agree.
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kReduce, kGather, kScatter, kSend, kRecv };
static const size_t kCarried = (size_t)1 << 20;  // as of copies (memory.c)

typedef struct {
  int number, ranks, rank;
} Comm;
typedef struct {
  char bytes[128];
} UniqueId;

static size_t width(int type) {
  static const size_t of[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // ncclDataType_t
  return type >= 0 && type < (int)(sizeof of / sizeof of[0]) ? of[type] : 1;
}

enum { kComms = 1 << 16 };
static int number, sizes[kComms];
// Ranks of the communicator of that number; 0: there is none.
EXPORT int nullgpu_comm_size(int of) { return of >= 0 && of < kComms ? sizes[of] : 0; }

// How many were made, those that have been given back as well.
EXPORT int nullgpu_comm_count(void) { return number; }

static char used[kComms];
// Whether that communicator has ever run an operation, which is when NCCL connects it (2.22 on: NCCL_RUNTIME_CONNECT).
EXPORT int nullgpu_comm_used(int of) { return of >= 0 && of < kComms && used[of]; }

static int make(Comm** out, int ranks, int rank) {
  if (number < kComms) sizes[number] = ranks;
  *out = malloc(sizeof(Comm));
  **out = (Comm){number++, ranks, rank};
  return 0;
}

static int done(const Comm* comm, int operation, int peer, size_t bytes, const void* stream) {
  stream_issued_collective((void*)stream);
  if (comm->number < kComms) used[comm->number] = 1;
  log_entry(kLogCollective, stream, (uint64_t)comm->number | (uint64_t)operation << 16 | (uint64_t)(uint32_t)peer << 24, (int64_t)bytes);
  return 0;
}

static void carry(void* to, const void* from, size_t bytes) {
  if (to != from && bytes <= kCarried) memmove(to, from, bytes);
}

EXPORT int ncclGetVersion(int* out) {
  *out = 22707;
  return 0;
}
EXPORT int ncclGetUniqueId(UniqueId* out) {
  memset(out, 0, sizeof *out);
  return 0;
}
EXPORT int ncclCommInitRank(Comm** out, int ranks, UniqueId id, int rank) { return make(out, ranks, rank); }
EXPORT int ncclCommInitRankConfig(Comm** out, int ranks, UniqueId id, int rank, void* config) { return make(out, ranks, rank); }
EXPORT int ncclCommInitRankScalable(Comm** out, int ranks, int rank, int ids, void* id, void* config) { return make(out, ranks, rank); }
// How many ranks share a colour only they know together: the recorder says it ahead of a split (capture/recorder/distributed.py).
static int split_ranks, split_rank;
EXPORT void nullgpu_split(int ranks, int rank) {
  split_ranks = ranks;
  split_rank = rank;
}
EXPORT int ncclCommSplit(Comm* from, int colour, int key, Comm** out, void* config) {
  if (colour < 0) {  // NCCL_SPLIT_NOCOLOR
    *out = NULL;
    return 0;
  }
  return make(out, split_ranks, split_rank);
}
EXPORT int ncclCommGetAsyncError(Comm* comm, int* out) {
  *out = 0;
  return 0;
}
EXPORT int ncclCommCount(const Comm* comm, int* out) {
  *out = comm->ranks;
  return 0;
}
EXPORT int ncclCommUserRank(const Comm* comm, int* out) {
  *out = comm->rank;
  return 0;
}
EXPORT const char* ncclGetErrorString(int error) { return "null NCCL"; }
EXPORT const char* ncclGetLastError(Comm* comm) { return ""; }
EXPORT int ncclMemAlloc(void** out, size_t bytes) {
  *out = nullgpu_addresses(bytes);
  return 0;
}
EXPORT int ncclCommRegister(Comm* comm, void* buffer, size_t bytes, void** out) {
  *out = buffer;
  return 0;
}
EXPORT int ncclCommWindowRegister(Comm* comm, void* buffer, size_t bytes, void** out, int flags) {
  *out = buffer;
  return 0;
}
EXPORT int ncclRedOpCreatePreMulSum(int* out, void* scalar, int type, int residence, Comm* comm) {
  *out = 5;  // behind ncclAvg, the last operation of its own
  return 0;
}

EXPORT int ncclGroupStart(void) {
  log_entry(kLogGroup, NULL, 1, 0);
  return 0;
}
EXPORT int ncclGroupEnd(void) {
  log_entry(kLogGroup, NULL, 0, 0);
  return 0;
}

EXPORT int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, Comm* comm, void* stream) {
  carry(to, from, count * width(type));
  return done(comm, kAllReduce, 0, count * width(type), stream);
}
EXPORT int ncclReduce(const void* from, void* to, size_t count, int type, int op, int root, Comm* comm, void* stream) {
  carry(to, from, count * width(type));
  return done(comm, kReduce, root, count * width(type), stream);
}
EXPORT int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  carry(to, from, count * width(type));
  return done(comm, kBroadcast, root, count * width(type), stream);
}
EXPORT int ncclBcast(void* buffer, size_t count, int type, int root, Comm* comm, void* stream) {
  return done(comm, kBroadcast, root, count * width(type), stream);
}
EXPORT int ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  const size_t part = count * width(type);
  const size_t ranks = comm->ranks > 0 ? (size_t)comm->ranks : 1;
  for (size_t r = 0; r < ranks && ranks * part <= kCarried; r++) carry((char*)to + r * part, from, part);
  return done(comm, kAllGather, 0, part, stream);
}
EXPORT int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, Comm* comm, void* stream) {
  carry(to, (const char*)from + (size_t)comm->rank * count * width(type), count * width(type));
  return done(comm, kReduceScatter, 0, count * width(type), stream);
}
EXPORT int ncclAlltoAll(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
  const size_t ranks = comm->ranks > 0 ? (size_t)comm->ranks : 1;
  carry(to, from, ranks * count * width(type));
  return done(comm, kAllToAll, 0, count * width(type), stream);
}
EXPORT int ncclGather(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  return done(comm, kGather, root, count * width(type), stream);
}
EXPORT int ncclScatter(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
  carry(to, from, count * width(type));
  return done(comm, kScatter, root, count * width(type), stream);
}
// What a peer sends is taken to be what it is sent.
static const void* sent;
static size_t sent_bytes;
EXPORT int ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, void* stream) {
  sent = from;
  sent_bytes = count * width(type);
  return done(comm, kSend, peer, count * width(type), stream);
}
EXPORT int ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, void* stream) {
  if (sent != NULL && sent_bytes == count * width(type)) carry(to, sent, sent_bytes);
  sent = NULL;
  return done(comm, kRecv, peer, count * width(type), stream);
}
