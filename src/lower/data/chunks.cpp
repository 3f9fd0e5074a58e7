#include "chunks.h"

#include <algorithm>
#include <utility>

#include "../offload/state_offload.h"

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

namespace {

// Gradients that take the storage of their parameters' chunk are Gemini's. Experts of a group of
// their own are moved as before.
bool chunked(const Stage& stage) {
  return stage.plan.offload.chunk.count() > 0 && stage.plan.state_layout.gradients_in_parameters &&
         fully_sharded(stage.plan) && stage.parameters.trained.expert == 0;
}

// Angel-PTM's pages: whatever else has a page's size and gathers units.
bool paged(const Stage& stage) {
  return stage.plan.offload.page.count() > 0 && fully_sharded(stage.plan) &&
         stage.parameters.trained.expert == 0 && !chunked(stage);
}

}  // namespace

void make_chunks(Stage& stage) {
  if (!chunked(stage) && !paged(stage)) {
    return;
  }
  std::vector<std::vector<std::int64_t>> tensors;
  for (const Wrap& w : stage.sharded.wraps) {
    std::vector<std::int64_t> of_wrap;
    std::int64_t left = w.elements.dense;
    for (const std::size_t u : w.units) {
      for (const Array& a : stage.units[w.chunk][u].passes->arrays) {
        const bool small = a.elements <= stage.plan.parameter_gather.persistent_elements;
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
  const int ranks = sharing(stage.plan, false).shards;
  const auto& offload = stage.plan.offload;
  if (offload.page.count() > 0) {
    double bytes = 0;
    for (const Wrap& w : stage.sharded.wraps) {
      bytes += static_cast<double>(w.elements.dense) * width(stage.plan.precision.parameters);
    }
    check_pieces(stage.context, bytes / ranks / static_cast<double>(offload.page.count()),
                 "memory.offload.page");
  }
  const double away = offload.parameters.share();
  const auto elements = [](double bytes, double each) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / each));
  };
  if (chunked(stage)) {
    stage.sharded.chunks = pack_chunks(
        tensors,
        elements(static_cast<double>(offload.chunk.count()), width(stage.plan.style.dtype)), ranks,
        away, Pack::whole_tensors);
  } else {
    stage.sharded.pages = pack_chunks(tensors,
                                      ranks * elements(static_cast<double>(offload.page.count()),
                                                       width(stage.plan.precision.parameters)),
                                      ranks, away, Pack::cut_tensors);
  }
}

std::vector<Chunk>& stored(Stage& stage) {
  return stage.sharded.chunks.empty() ? stage.sharded.pages : stage.sharded.chunks;
}
const std::vector<Chunk>& stored(const Stage& stage) {
  return stage.sharded.chunks.empty() ? stage.sharded.pages : stage.sharded.chunks;
}

double shard_bytes(const Stage& stage, const Chunk& c) {
  return static_cast<double>(c.elements) / sharing(stage.plan, false).shards *
         width(stage.plan.precision.parameters);
}

std::vector<Chunk*> chunks_of(Stage& stage, const Wrap& w) {
  const auto index = static_cast<std::size_t>(&w - stage.sharded.wraps.data());
  std::vector<Chunk*> out;
  for (Chunk& c : stored(stage)) {
    if (c.first <= index && index <= c.last) {
      out.push_back(&c);
    }
  }
  return out;
}

std::vector<Chunk*> chunks_ended_by(Stage& stage, const Wrap& w, bool backward) {
  const auto index = static_cast<std::size_t>(&w - stage.sharded.wraps.data());
  std::vector<Chunk*> out = chunks_of(stage, w);
  std::erase_if(out, [&](const Chunk* c) { return (backward ? c->first : c->last) != index; });
  return out;
}

void gather_chunks(Stage& stage, const Wrap& w, program::StreamIndex stream) {
  if (stage.sharded.chunks.empty()) {
    return;
  }
  const double own = width(stage.plan.style.dtype);
  for (Chunk* c : chunks_of(stage, w)) {
    if (c->whole) {
      continue;
    }
    c->whole = true;
    const double bytes = static_cast<double>(c->elements) * own;
    c->buffer = stage.builder.allocate(static_cast<std::int64_t>(bytes),
                                       program::MemoryCategory::communication,
                                       label_of(stage, "gathered chunk"), stream);
    if (sharing(stage.plan, false).shards > 1) {
      data_collective(stage, stream, kData, cost::Collective::all_gather, bytes, "chunk");
    }
  }
}

void drop_chunks(Stage& stage, const Wrap& w, bool backward) {
  for (Chunk* c : chunks_ended_by(stage, w, backward)) {
    stage.builder.release(c->buffer, 1U << stage.streams.compute);
    c->buffer = program::kNone;
    c->whole = c->read = c->fetched = false;
  }
}

}  // namespace stepcast::lower
