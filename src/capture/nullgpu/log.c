// The order of what a program asks of the device, kept for a recorder: kernels, copies, collectives, events and waits, by stream,
// with the host's clock. Entries are only ever appended; the recorder reads them between steps.
#include "log.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Entry* entries;
static long count, room;
static int keeping;
static _Thread_local int operator_now = -1;

EXPORT void nullgpu_log(int on) { keeping = on; }
EXPORT long nullgpu_log_count(void) { return count; }
EXPORT Entry* nullgpu_log_entries(void) { return entries; }
EXPORT void nullgpu_log_clear(void) { count = 0; }
// The operator of the framework that this thread runs: what it launches belongs to it. -1: none.
EXPORT void nullgpu_operator(int number) { operator_now = number; }

void log_entry(int kind, const void* stream, uint64_t what, int64_t amount) {
  if (!keeping) return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  pthread_mutex_lock(&mutex);
  if (count == room) {
    room = room > 0 ? 2 * room : 1 << 16;
    entries = realloc(entries, (size_t)room * sizeof(Entry));
    if (entries == NULL) abort();
  }
  entries[count++] = (Entry){now.tv_sec * 1000000000L + now.tv_nsec, kind, operator_now, (uint64_t)stream, what, amount};
  pthread_mutex_unlock(&mutex);
}

EXPORT void nullgpu_log_mark(long number) { log_entry(kLogMark, NULL, (uint64_t)number, 0); }
