#include "chunks.h"

#include <algorithm>
#include <utility>

#include "stage_builder.h"

namespace stepcast::lower {

std::vector<Chunk> pack_chunks(const std::vector<std::vector<std::int64_t>>& tensors,
                               std::int64_t capacity, int ranks, double away) {
  std::vector<Chunk> out;
  const auto whole = [&](std::int64_t elements) { return (elements + ranks - 1) / ranks * ranks; };
  for (std::size_t w = 0; w < tensors.size(); ++w) {
    for (const std::int64_t elements : tensors[w]) {
      if (out.empty() || out.back().filled + elements > out.back().elements) {
        out.push_back({whole(std::max(capacity, elements)), 0, w, w});
      }
      out.back().filled += elements;
      out.back().last = w;
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

void StageBuilder::make_chunks() {
  if (!chunked()) {
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
  const auto capacity = static_cast<std::int64_t>(
      static_cast<double>(job_.memory.offload.chunk.count()) / width(plan_.style.dtype));
  s.chunks = pack_chunks(tensors, std::max<std::int64_t>(capacity, 1), ranks,
                         share_away(job_.memory.offload.parameters));
}

// This rank's shard of a chunk, in the states' format.
double StageBuilder::shard_bytes(const Chunk& c) const {
  return static_cast<double>(c.elements) / sharing(false).shards *
         width(job_.memory.dtypes.parameters);
}

// The chunks with tensors of a wrap.
std::vector<Chunk*> StageBuilder::chunks_of(const Wrap& w) {
  auto& s = data_parallel_;
  const auto index = static_cast<std::size_t>(&w - s.wraps.data());
  std::vector<Chunk*> out;
  for (Chunk& c : s.chunks) {
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
