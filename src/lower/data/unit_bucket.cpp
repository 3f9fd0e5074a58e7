#include "unit_bucket.h"

#include <algorithm>

#include "../stage/feature.h"
#include "../tensors/unit_tensors.h"
#include "buckets.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using program::StreamIndex;

namespace {

// Gradients of a bucket are joined, shard by shard, in a copy on the stream that reduces it, unless
// the bucket is a single tensor that its ranks divide (DeepSpeed 0.19.8,
// runtime/comm/coalesced_collectives.py:100 to 122). Elements of the copy; 0: there is none.
std::int64_t joined_elements(const Stage& stage, std::int64_t elements, int arrays, bool expert) {
  const Sharing s = sharing(stage.plan, expert);
  const bool single = arrays == 1 && elements % s.shards == 0;
  const bool joins = !single && s.members() > 1 && (expert || !stage.plan.gradient_sync.quantised);
  return joins ? elements : 0;
}

std::int64_t joined_bytes(const Stage& stage, std::int64_t elements, int arrays, bool expert) {
  const std::int64_t joined = joined_elements(stage, elements, arrays, expert);
  return whole_blocks(static_cast<double>(joined) * width(stage.plan.precision.reduce));
}

}  // namespace

void add_to_bucket(Stage& stage, int chunk, std::int64_t elements, bool expert, Joined joined) {
  Elements& pending = stage.gradients.pending[chunk];
  std::int64_t& filled = expert ? pending.expert : pending.dense;
  if (filled > 0 && filled + elements > stage.plan.gradient_sync.bucket_elements) {
    send_bucket(stage, chunk, expert, joined);
  }
  filled += elements;
  ++stage.gradients.arrays[expert ? 1 : 0];
}

void send_bucket(Stage& stage, int chunk, bool expert, Joined joined) {
  Elements& pending = stage.gradients.pending[chunk];
  std::int64_t& filled = expert ? pending.expert : pending.dense;
  int& arrays = stage.gradients.arrays[expert ? 1 : 0];
  if (filled == 0) {
    return;
  }
  const StreamIndex stream = reduce_beside(stage.plan) ? stage.streams.data : stage.streams.compute;
  stage.builder.wait(stream, stage.builder.mark(stage.streams.gather));
  program::BufferIndex copy = kNone;
  if (joined == Joined::as_sent && joined_elements(stage, filled, arrays, expert) > 0) {
    copy = stage.builder.allocate(joined_bytes(stage, filled, arrays, expert),
                                  MemoryCategory::communication,
                                  label_of(stage, "joined gradients of a bucket"), stream);
  }
  reduce_shards(stage, chunk, filled, expert, stream);
  stage.builder.release(copy);
  arrays = 0;
  // Two are outstanding at most.
  stage.builder.wait(stage.streams.compute, stage.sharded.last_reduce);
  stage.sharded.last_reduce = stage.builder.mark(stream);
  filled = 0;
}

// Behind an operator the hook of its gradient copies it into the bucket and gives it up; what would
// overfill the bucket has it reduced first (DeepSpeed 0.19.8, runtime/zero/stage3.py:1584). A
// gradient larger than a bucket stays where it is until the next one comes (:1626).
const UnitBucket::Leaving& UnitBucket::leaving(Stage& stage, int chunk, const TensorList& made) {
  std::int64_t filled = stage.gradients.pending[static_cast<std::size_t>(chunk)].dense;
  int arrays = stage.gradients.arrays[0];
  const auto [at, fresh] = leaving_.try_emplace({&made, filled, arrays});
  Leaving& out = at->second;
  if (!fresh) {
    return out;
  }
  const std::int64_t bucket = stage.plan.gradient_sync.bucket_elements;
  const program::LabelIndex label = label_of(stage, "joined gradients of a bucket");
  out.gradients = made;
  std::vector<program::Block>& blocks = out.gradients.blocks;
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    const std::uint16_t here = hook(blocks[n]);
    const auto elements = static_cast<std::int64_t>(static_cast<double>(blocks[n].bytes.count()) /
                                                    width(stage.plan.style.dtype));
    if (filled > 0 && filled + elements > bucket) {
      const std::int64_t bytes = joined_bytes(stage, filled, arrays, false);
      if (bytes > 0) {
        out.copies.blocks.push_back({Bytes(bytes), label, here, here});
        out.copies.bytes = std::max(out.copies.bytes, bytes);  // one at a time
      }
      filled = 0;
      arrays = 0;
    }
    filled += elements;
    ++arrays;
    const bool next = n + 1 < blocks.size();
    blocks[n].end = elements <= bucket ? here : next ? hook(blocks[n + 1]) : kPassEnd;
  }
  return out;
}

}  // namespace stepcast::lower
