// What the log keeps of each call. The recorder (recorder/calls.py) reads the same layout.
#pragma once
#include <stdint.h>

#include "nullgpu.h"

enum {
  kLogKernel = 1,      // stream
  kLogRecord = 2,      // stream; what: the event
  kLogWait = 3,        // stream; what: the event that it waits for
  kLogSyncStream = 4,  // stream: the host waits for it
  kLogSyncEvent = 5,   // what: the event that the host waits for
  kLogSyncDevice = 6,
  kLogCopy = 7,        // stream; what: cudaMemcpyKind; amount: bytes
  kLogFill = 8,        // stream; amount: bytes
  kLogCollective = 9,  // stream; what: communicator, operation << 16, root or peer << 24; amount:
                       // bytes as NCCL counts them
  kLogGroup = 10,      // what: 1 begins a group of NCCL's calls, 0 ends it
  kLogMark = 11,       // what: a number of the recorder's own
};

typedef struct {
  int64_t time;  // ns of the monotonic clock
  int32_t kind;
  int32_t operator_number;
  uint64_t stream;
  uint64_t what;
  int64_t amount;
} Entry;

void log_entry(int kind, const void* stream, uint64_t what, int64_t amount);
