// States that live outside the GPU: what moves them there and back.
#include <algorithm>

#include "host_prices.h"
#include "stage_builder.h"

namespace stepcast::lower {

using job::OffloadTarget;
using program::Category;
using program::StreamIndex;

// Copies run on streams of their own, each direction and each drive's way apart; without overlap on
// the compute stream.
void StageBuilder::make_host_streams() {
  const job::Offload& o = job_.memory.offload;
  if (!o.any()) {
    return;
  }
  const auto stream = [&](const char* name) { return o.overlap ? b_.stream(name) : compute_; };
  to_device_ = stream("host to device");
  to_host_ = stream("device to host");
  const bool nvme = o.optimizer.to == OffloadTarget::nvme ||
                    o.parameters.to == OffloadTarget::nvme || o.gradients.to == OffloadTarget::nvme;
  if (nvme) {
    nvme_read_ = stream("NVMe read");
    nvme_write_ = stream("NVMe write");
  }
  if (o.optimizer.to != OffloadTarget::none) {
    cpu_ = b_.stream("CPU");
  }
}

Mark StageBuilder::copy(StreamIndex stream, Carrier by, double bytes, const char* label,
                        Category category) {
  const auto count = static_cast<std::int64_t>(bytes);
  if (count > 0) {
    const std::int64_t page = job_.memory.offload.page.count();
    const std::int64_t pieces = page > 0 && by != Carrier::cpu ? (count + page - 1) / page : 1;
    const std::uint32_t price =
        context_.passes.book->movement({by, count, static_cast<int>(pieces)});
    b_.copy(stream, price, category, context_.passes.labels->id(label), launch_);
    // Pageable memory is copied while the host waits (CUDA Driver API, synchronisation behaviour).
    if (!job_.memory.offload.pinned && (by == Carrier::to_device || by == Carrier::to_host)) {
      b_.host_sync(b_.mark(stream));
    }
  }
  return b_.mark(stream);
}

}  // namespace stepcast::lower
