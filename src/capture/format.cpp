#include <fmt/format.h>

#include "stepcast/capture/capture.h"

namespace stepcast::capture {

std::string format_text() {
  return fmt::format(
      R"(A program file: JSON lines, plain or compressed by gzip. Version {}.

First line: {{"format": "stepcast-program", "version": {}, "world_size", "command", "torch", "python", "host"}}.
Then a line for each recorded rank, by rank, beginning with rank 0. A rank that is not there runs the program of
the last recorded one below it, with its groups moved to its place.

rank       its number
streams    names, the compute stream first
groups     [{{"name", "ranks"}}]: process groups, ranks by their place in the group, also those that no task uses but
           whose communicators hold memory; one whose all-to-alls carry tokens
           to experts has "routed": [experts, rows that each rank got], under even routing
operators  [{{"name", "type", ...}}] with one of
           "gemm": [batch, m, n, k], "order": "nt" (operands that lie transposed), "grouped": 1 (one launch)
           "attention": [sequences, heads, kv heads, queries, keys, qk width, v width, causal], "backward": 0 or 1,
                        "kernel": efficient, flash2 (left out: flash2), or cudnn, which PyTorch prefers on Hopper and
                        Blackwell; elsewhere FlashAttention-2 then stands for it
           "bytes": read and written
           and "routed": "rows" where its rows are those that were routed here, "sum" where it sums over them
memory     bytes: first_peak, peak, reserved, between (steps), parameters, gradients, optimizer; trained (elements)
remarks    what the recorder had to leave out
tasks      in the order of the host; `host`: ns of the host ahead of it; `waits`: [[stream, tasks of it, steps back]]
           ["kernel", stream, host, waits, operator or -1, phase, launches]
               phase: 0 forward, 1 backward, 2 recomputed, 3 optimizer
           ["collective", stream, host, waits, group, "all_gather", bytes]  bytes as nccl-tests counts them
           ["exchange", stream, host, waits, group, [[peer's place, 1 to send or 0, bytes]]]
           ["copy", stream, host, waits, "to_device" or "to_host", bytes]
           ["sync", host, waits]  the host waits
           ["host", ns]           the host works
)",
      kVersion, kVersion);
}

}  // namespace stepcast::capture
