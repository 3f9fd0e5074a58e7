#include "chunks.h"

#include <algorithm>
#include <utility>

#include "stage_builder.h"

namespace stepcast::lower {

std::vector<Chunk> pack_chunks(const std::vector<std::vector<std::int64_t>>& tensors,
                               std::int64_t capacity, int ranks, double away, Pack pack) {
  std::vector<Chunk> out;
  const auto whole = [&](std::int64_t elements) { return (elements + ranks - 1) / ranks * ranks; };
  for (std::size_t w = 0; w < tensors.size(); ++w) {
    for (std::int64_t left : tensors[w]) {
      while (left > 0) {
        const bool cut = pack == Pack::cut_tensors;
        const std::int64_t room = out.empty() ? 0 : out.back().elements - out.back().filled;
        if (room < (cut ? 1 : left)) {
          out.push_back({whole(cut ? capacity : std::max(capacity, left)), 0, w, w});
          continue;
        }
        const std::int64_t here = std::min(left, room);
        out.back().filled += here;
        out.back().last = w;
        left -= here;
      }
    }
  }
  double all = 0;
  for (const Chunk& c : out) {
    all += static_cast<double>(c.elements);
  }
  double gone = 0;
  for (Chunk& c : out) {
    c.away = gone < away * all;
    gone += c.away ? static_cast<double>(c.elements) : 0;
  }
  return out;
}

// Gradients that take the storage of their parameters' chunk are Gemini's. Experts of a group of
// their own are moved as before.
bool StageBuilder::chunked() const {
  return job_.memory.offload.chunk.count() > 0 && job_.system.gradients_in_parameters &&
         fully_sharded() && parameters_.expert == 0;
}

// Angel-PTM's pages: whatever else has a page's size and gathers units.
bool StageBuilder::paged() const {
  return job_.memory.offload.page.count() > 0 && fully_sharded() && parameters_.expert == 0 &&
         !chunked();
}

void StageBuilder::make_chunks() {
  if (!chunked() && !paged()) {
    return;
  }
  auto& s = data_parallel_;
  std::vector<std::vector<std::int64_t>> tensors;
  for (const Wrap& w : s.wraps) {
    std::vector<std::int64_t> of_wrap;
    std::int64_t left = w.elements.dense;
    for (std::size_t u = w.first; u <= w.last; ++u) {
      for (const Array& a : units_[w.chunk][u].passes->arrays) {
        const bool small = a.elements <= job_.system.persistent_elements;
        if (!a.expert && !a.tiled && !small && a.elements <= left) {
          of_wrap.push_back(a.elements);
          left -= a.elements;
        }
      }
    }
    if (left > 0) {  // what no array accounts for
      of_wrap.push_back(left);
    }
    tensors.push_back(std::move(of_wrap));
  }
  const int ranks = sharing(false).shards;
  const auto& offload = job_.memory.offload;
  const double away = share_away(offload.parameters);
  const auto elements = [](double bytes, double width) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / width));
  };
  if (chunked()) {
    s.chunks = pack_chunks(
        tensors, elements(static_cast<double>(offload.chunk.count()), width(plan_.style.dtype)),
        ranks, away, Pack::whole_tensors);
  } else {
    s.pages = pack_chunks(tensors,
                          ranks * elements(static_cast<double>(offload.page.count()),
                                           width(job_.memory.dtypes.parameters)),
                          ranks, away, Pack::cut_tensors);
  }
}

// Whichever parameters are stored in.
std::vector<Chunk>& StageBuilder::stored() {
  return data_parallel_.chunks.empty() ? data_parallel_.pages : data_parallel_.chunks;
}
const std::vector<Chunk>& StageBuilder::stored() const {
  return data_parallel_.chunks.empty() ? data_parallel_.pages : data_parallel_.chunks;
}

// This rank's shard of a chunk, in the states' format.
double StageBuilder::shard_bytes(const Chunk& c) const {
  return static_cast<double>(c.elements) / sharing(false).shards *
         width(job_.memory.dtypes.parameters);
}

// The chunks or pages with tensors of a wrap.
std::vector<Chunk*> StageBuilder::chunks_of(const Wrap& w) {
  auto& s = data_parallel_;
  const auto index = static_cast<std::size_t>(&w - s.wraps.data());
  std::vector<Chunk*> out;
  for (Chunk& c : stored()) {
    if (c.first <= index && index <= c.last) {
      out.push_back(&c);
    }
  }
  return out;
}

// Of the chunks that end with the wrap, in the direction of the pass.
std::vector<Chunk*> StageBuilder::chunks_ended_by(const Wrap& w, bool backward) {
  const auto index = static_cast<std::size_t>(&w - data_parallel_.wraps.data());
  std::vector<Chunk*> out = chunks_of(w);
  std::erase_if(out, [&](const Chunk* c) { return (backward ? c->first : c->last) != index; });
  return out;
}

// A chunk whose first tensor is used is gathered whole, and stays until its last one has been.
void StageBuilder::gather_chunks(const Wrap& w, program::StreamIndex stream) {
  if (data_parallel_.chunks.empty()) {
    return;
  }
  const double own = width(plan_.style.dtype);
  for (Chunk* c : chunks_of(w)) {
    if (c->whole) {
      continue;
    }
    c->whole = true;
    const double bytes = static_cast<double>(c->elements) * own;
    c->buffer =
        b_.allocate(static_cast<std::int64_t>(bytes), program::MemoryCategory::communication,
                    context_.passes.labels->id("gathered chunk"), stream);
    if (sharing(false).shards > 1) {
      data_collective(stream, kData, cost::Collective::all_gather, bytes, "chunk");
    }
  }
}

void StageBuilder::drop_chunks(const Wrap& w, bool backward) {
  for (Chunk* c : chunks_ended_by(w, backward)) {
    b_.release(c->buffer, 1U << compute_);
    c->buffer = program::kNone;
    c->whole = c->read = c->fetched = false;
  }
}

}  // namespace stepcast::lower
