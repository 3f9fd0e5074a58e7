#include "groups.h"

#include <algorithm>

namespace stepcast::lower {
namespace {

using cluster::Coordinates;

class Groups {
 public:
  Groups(const GroupLayout& layout, const std::function<void(Role, const std::vector<int>&)>& visit)
      : layout_(layout), grid_(layout.grid), visit_(visit) {}

  void first() {
    const int t = grid_.tensor;
    const int c = grid_.context;
    group(kTensor, t, [&](int i) { return rank(i, 0, 0, 0); });
    tensor_grid([&](int i) { return rank(i, 0, 0, 0); }, true);
    group(kContext, c, [&](int i) { return rank(0, i, 0, 0); });
    group(kContextInner, layout_.context_inner, [&](int i) { return rank(0, i, 0, 0); });
    if (layout_.experts) {
      const int et = layout_.experts->tensor;
      const int ep = layout_.experts->expert;
      const std::vector<int> near = nearest(0, et * ep);
      group(kExpert, ep, [&](int j) { return near[et * j]; });
      group(kExpertTensor, et, [&](int i) { return near[i]; });
      group(kTensorExpert, et * ep, [&](int i) { return near[i]; });
    }
  }

  void all() {
    for (int p = 0; p < grid_.pipeline; ++p) {
      stage(p);
    }
    across_stages();
    norms();
  }

 private:
  int rank(int tensor, int context, int data, int pipeline) const {
    return cluster::rank_at(grid_, {tensor, context, data, pipeline});
  }

  // The first ranks of a stage, in ascending order.
  std::vector<int> nearest(int stage, int count) const {
    std::vector<int> out;
    for (int r = 0; static_cast<int>(out.size()) < count; ++r) {
      if (cluster::coordinates(grid_, r).pipeline == stage) {
        out.push_back(r);
      }
    }
    return out;
  }

  template <class Member>
  void group(Role role, int count, const Member& member) {
    ranks_.clear();
    for (int i = 0; i < count; ++i) {
      ranks_.push_back(member(i));
    }
    std::sort(ranks_.begin(), ranks_.end());
    visit_(role, ranks_);
  }

  // `all`, sorted, cut into blocks of `inner`: each block a group of `role`, the ranks at one place
  // of every block a group of `outer`.
  void blocks(const std::vector<int>& all, int inner, Role role, Role outer) {
    const int count = static_cast<int>(all.size());
    for (int first = 0; first < count; first += inner) {
      group(role, inner, [&](int i) { return all[first + i]; });
    }
    if (inner < count) {
      for (int offset = 0; offset < inner; ++offset) {
        group(outer, count / inner, [&](int i) { return all[i * inner + offset]; });
      }
    }
  }

  // The ranks that share states in groups of `inner`, and what sums their gradients: the ranks of
  // all groups, or those that hold the same shard.
  void sharers(const std::vector<int>& all, int inner, Role role, Role replicas, Role together) {
    const int count = static_cast<int>(all.size());
    if (inner == count || !layout_.over_copies) {
      blocks(all, inner, role, replicas);
      return;
    }
    for (int first = 0; first < count; first += inner) {
      group(role, inner, [&](int i) { return all[first + i]; });
    }
    group(together, count, [&](int i) { return all[i]; });
  }

  void stage(int p) {
    const int t = grid_.tensor;
    const int c = grid_.context;
    const int d = grid_.data;
    for (int di = 0; di < d; ++di) {
      for (int ci = 0; ci < c; ++ci) {
        group(kTensor, t, [&](int i) { return rank(i, ci, di, p); });
        tensor_grid([&](int i) { return rank(i, ci, di, p); }, false);
      }
    }
    if (c > 1) {
      const int inner = layout_.context_inner;
      for (int di = 0; di < d; ++di) {
        for (int ti = 0; ti < t; ++ti) {
          group(kContext, c, [&](int i) { return rank(ti, i, di, p); });
          for (int first = 0; inner > 1 && inner < c && first < c; first += inner) {
            group(kContextInner, inner, [&](int i) { return rank(ti, first + i, di, p); });
          }
        }
      }
    }
    // Reduce-scatters and gathers run among the ranks that share one copy; without sharding among
    // all.
    const int inner = layout_.whole ? d * c : layout_.shard_ranks;
    const int partition = layout_.partition;
    for (int ti = 0; ti < t; ++ti) {
      std::vector<int> all;
      for (int di = 0; di < d; ++di) {
        for (int ci = 0; ci < c; ++ci) {
          all.push_back(rank(ti, ci, di, p));
        }
      }
      std::sort(all.begin(), all.end());
      sharers(all, inner, kData, kReplicas, kAllData);
      const bool in_two_levels = layout_.node_share > 0;
      for (int first = 0; in_two_levels && first < static_cast<int>(all.size()); first += inner) {
        blocks({all.begin() + first, all.begin() + first + inner}, layout_.node_share, kNode,
               kAcross);
      }
      for (int first = 0; partition > 1 && first < static_cast<int>(all.size());
           first += partition) {
        group(kPartition, partition, [&](int i) { return all[first + i]; });
      }
    }
    if (layout_.experts) {
      experts(p);
    }
  }

  // Tensor ranks counted row by row, layer by layer: ranks of a row are neighbours. `first`: only
  // the groups of the first rank.
  template <class Member>
  void tensor_grid(const Member& member, bool first) {
    if (layout_.tensor_kind == TensorKind::one_d || layout_.side == 1) {
      return;
    }
    const int side = layout_.side;
    const int layer = side * side;
    const int depth = grid_.tensor / layer;
    for (int d = 0; d < (first ? 1 : depth); ++d) {
      for (int k = 0; k < (first ? 1 : side); ++k) {
        group(kTensorRow, side, [&](int i) { return member(d * layer + k * side + i); });
        group(kTensorColumn, side, [&](int i) { return member(d * layer + i * side + k); });
      }
    }
    for (int place = 0; depth > 1 && place < (first ? 1 : layer); ++place) {
      group(kTensorDepth, depth, [&](int i) { return member(i * layer + place); });
    }
  }

  // The ranks of a stage in ascending order: expert-tensor ranks nearest, then expert-parallel
  // ranks, then those that hold the same experts (Megatron-LM, core/parallel_state.py:
  // RankGenerator).
  void experts(int p) {
    std::vector<int> all;  // of the stage
    for (int di = 0; di < grid_.data; ++di) {
      for (int ci = 0; ci < grid_.context; ++ci) {
        for (int ti = 0; ti < grid_.tensor; ++ti) {
          all.push_back(rank(ti, ci, di, p));
        }
      }
    }
    std::sort(all.begin(), all.end());
    const int et = layout_.experts->tensor;
    const int ep = layout_.experts->expert;
    const int edp = layout_.experts->data;
    const auto at = [&](int tensor, int expert, int data) {
      return all[tensor + et * (expert + ep * data)];
    };
    for (int k = 0; k < edp; ++k) {
      for (int i = 0; ep > 1 && i < et; ++i) {
        group(kExpert, ep, [&](int j) { return at(i, j, k); });
      }
      for (int j = 0; et > 1 && j < ep; ++j) {
        group(kExpertTensor, et, [&](int i) { return at(i, j, k); });
      }
      if (et * ep > 1) {
        group(kTensorExpert, et * ep, [&](int i) { return all[i + et * ep * k]; });
      }
    }
    // As many shards as the dense states have, as far as there are ranks.
    const int inner = layout_.experts->shards;
    for (int i = 0; edp > 1 && i < et * ep; ++i) {
      std::vector<int> same;
      for (int k = 0; k < edp; ++k) {
        same.push_back(all[i + et * ep * k]);
      }
      sharers(same, inner, kExpertData, kExpertReplicas, kAllExpertData);
    }
  }

  void across_stages() {
    const int p = grid_.pipeline;
    if (p == 1) {
      return;
    }
    for (int di = 0; di < grid_.data; ++di) {
      for (int ci = 0; ci < grid_.context; ++ci) {
        for (int ti = 0; ti < grid_.tensor; ++ti) {
          if (layout_.stages.tied_embeddings) {
            group(kEmbedding, 2, [&](int i) { return rank(ti, ci, di, i == 0 ? 0 : p - 1); });
          }
          for (int first = 0; layout_.stages.pairs && first < p / 2; ++first) {
            group(kPair, 2,
                  [&](int i) { return rank(ti, ci, di, i == 0 ? first : p - 1 - first); });
          }
          for (const Role role :
               {kPipe, kPipeStatistics, kPipeGradient, kPipeInput, kPipeInputGrad}) {
            if (layout_.stages.vocabulary) {
              group(role, p, [&](int i) { return rank(ti, ci, di, i); });
            }
          }
        }
      }
    }
  }

  // The norm of sharded gradients needs every rank; otherwise one model replica.
  void norms() {
    if (layout_.one_norm) {
      group(kNorm, grid_.ranks(), [](int i) { return i; });
      return;
    }
    for (int di = 0; di < grid_.data; ++di) {
      for (int ci = 0; ci < grid_.context; ++ci) {
        group(kNorm, grid_.tensor * grid_.pipeline,
              [&](int i) { return rank(i % grid_.tensor, ci, di, i / grid_.tensor); });
      }
    }
  }

  const GroupLayout& layout_;
  const cluster::Grid& grid_;
  const std::function<void(Role, const std::vector<int>&)>& visit_;
  std::vector<int> ranks_;
};

}  // namespace

void each_group(const GroupLayout& layout,
                const std::function<void(Role, const std::vector<int>&)>& visit) {
  Groups(layout, visit).all();
}

void each_group(const strategy::Plan& plan,
                const std::function<void(Role, const std::vector<int>&)>& visit) {
  each_group(group_layout(plan), visit);
}

void each_first_group(const strategy::Plan& plan,
                      const std::function<void(Role, const std::vector<int>&)>& visit) {
  Groups(group_layout(plan), visit).first();
}

int next_in_context_ring(const GroupLayout& layout, int rank) {
  Coordinates at = cluster::coordinates(layout.grid, rank);
  at.context = (at.context + layout.context_inner) % layout.grid.context;
  return cluster::rank_at(layout.grid, at);
}

int next_in_tensor_ring(const GroupLayout& layout, int rank) {
  Coordinates at = cluster::coordinates(layout.grid, rank);
  at.tensor = (at.tensor + 1) % layout.grid.tensor;
  return cluster::rank_at(layout.grid, at);
}

}  // namespace stepcast::lower
