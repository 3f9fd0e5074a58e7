// Which operators run again, what that drops and when it must have run.
#include "redone.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

namespace stepcast::lower {

using model::Operator;
using model::OperatorGraph;

namespace {

// Names of saved tensors that the operator reads; the others it makes itself.
constexpr std::array<std::string_view, 7> kRead = {
    "input", "qkv", "repeated_kv", "gate", "gate_input", "shared_output", "expert_output"};

bool reads(const model::Saved& saved) {
  return std::find(kRead.begin(), kRead.end(), saved.name) != kRead.end();
}

bool saves(const Operator& op, std::uint32_t storage) {
  return std::any_of(op.saved.begin(), op.saved.end(),
                     [&](const model::Saved& s) { return s.storage == storage; });
}

}  // namespace

bool scatters_result(const model::Shard& shard, const Operator& op) {
  return shard.tensor > 1 && shard.sequence_parallel && op.tensor == model::TensorRole::row;
}

bool by_policy(const Redone& redone) {
  return std::any_of(redone.begin(), redone.end(),
                     [](const Redo& r) { return r.kind == Redo::Kind::kept; });
}

std::optional<std::size_t> maker_of(const OperatorGraph& graph, std::uint32_t storage) {
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    for (const model::Saved& saved : graph.operators[i].saved) {
      if (saved.storage != storage) {
        continue;
      }
      if (!reads(saved)) {
        return i;
      }
      // The last operator before it that leads here.
      std::optional<std::size_t> from;
      for (const auto& [producer, consumer] : graph.edges) {
        if (static_cast<std::size_t>(consumer) == i) {
          const auto p = static_cast<std::size_t>(producer);
          from = from ? std::max(*from, p) : p;
        }
      }
      return from;
    }
  }
  return std::nullopt;
}

std::set<std::uint32_t> made_again(const OperatorGraph& graph, const Redone& redone) {
  std::set<std::uint32_t> out;
  if (redone.empty()) {
    return out;
  }
  for (const Operator& op : graph.operators) {
    for (const model::Saved& saved : op.saved) {
      const auto maker = maker_of(graph, saved.storage);
      if (!maker || !runs_again(redone, *maker) || out.count(saved.storage) > 0) {
        continue;
      }
      bool kept = false;
      for (std::size_t i = 0; i < graph.operators.size(); ++i) {
        const bool elsewhere = !runs_again(redone, i) || redone[i].region != redone[*maker].region;
        kept = kept || (elsewhere && saves(graph.operators[i], saved.storage));
      }
      if (!kept || redone[*maker].kind == Redo::Kind::dropped) {
        out.insert(saved.storage);
      }
    }
  }
  return out;
}

namespace {

// Bytes of an operator's result that are saved and not made again.
std::int64_t kept_of_result(const OperatorGraph& graph, const std::set<std::uint32_t>& again,
                            std::size_t maker) {
  std::set<std::uint32_t> counted;
  std::int64_t out = 0;
  for (const Operator& op : graph.operators) {
    for (const model::Saved& saved : op.saved) {
      if (again.count(saved.storage) == 0 && maker_of(graph, saved.storage) == maker &&
          counted.insert(saved.storage).second) {
        out += saved.bytes.count();
      }
    }
  }
  return out;
}

}  // namespace

bool read_backward(const OperatorGraph& graph, const Redone& redone, std::size_t i) {
  const auto reads_result = [&](const Operator& op) {
    return std::any_of(op.saved.begin(), op.saved.end(), [&](const model::Saved& saved) {
      return maker_of(graph, saved.storage) == i;
    });
  };
  if (std::any_of(graph.operators.begin(), graph.operators.end(), reads_result)) {
    return true;
  }
  return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const auto& edge) {
    const auto reader = static_cast<std::size_t>(edge.second);
    return static_cast<std::size_t>(edge.first) == i && runs_again(redone, reader) &&
           read_backward(graph, redone, reader);
  });
}

std::vector<HeldTensor> kept_to_redo(const OperatorGraph& graph, const Redone& redone) {
  std::vector<HeldTensor> out;
  const std::set<std::uint32_t> again = made_again(graph, redone);
  std::set<std::size_t> counted;
  const auto keep = [&](std::size_t i, double share) {
    const auto bytes = static_cast<double>(graph.operators[i].forward_output.count()) * share;
    const std::int64_t more = static_cast<std::int64_t>(bytes) - kept_of_result(graph, again, i);
    if (counted.insert(i).second && more > 0) {
      out.push_back({i, more});
    }
  };
  for (std::size_t i = 0; i < redone.size(); ++i) {
    const bool in_part = redone[i].share > 0 && redone[i].share < 1;
    if (redone[i].kind == Redo::Kind::kept || in_part) {
      keep(i, redone[i].kind == Redo::Kind::kept ? 1 : 1 - redone[i].share);
    }
  }
  // What a region reads from before it is kept where one of its operators saves it.
  for (const Replay& replay : replays(graph, redone)) {
    const bool saved =
        std::any_of(replay.operators.begin(), replay.operators.end(), [&](std::size_t i) {
          const auto& all = graph.operators[i].saved;
          return std::any_of(all.begin(), all.end(), [&](const model::Saved& s) {
            return reads(s) && again.count(s.storage) == 0;
          });
        });
    for (const auto& [producer, consumer] : graph.edges) {
      const auto from = static_cast<std::size_t>(producer);
      const auto to = static_cast<std::size_t>(consumer);
      const auto& ops = replay.operators;
      if (!saved && std::find(ops.begin(), ops.end(), to) != ops.end() &&
          (!runs_again(redone, from) || redone[from].region != redone[to].region) &&
          counted.count(from) == 0) {
        keep(from, 1);
      }
    }
  }
  return out;
}

std::vector<Replay> replays(const OperatorGraph& graph, const Redone& redone) {
  const std::size_t n = graph.operators.size();
  std::vector<std::size_t> group(n);
  std::iota(group.begin(), group.end(), std::size_t{0});
  const auto join = [&](std::size_t a, std::size_t b) {
    const std::size_t low = std::min(group[a], group[b]);
    const std::size_t high = std::max(group[a], group[b]);
    std::replace(group.begin(), group.end(), high, low);
  };
  for (const auto& [producer, consumer] : graph.edges) {
    const auto from = static_cast<std::size_t>(producer);
    const auto to = static_cast<std::size_t>(consumer);
    if (runs_again(redone, from) && runs_again(redone, to) &&
        redone[from].region == redone[to].region) {
      join(from, to);
    }
  }
  std::vector<std::size_t> first(n, n);  // index into `out`, by group
  std::vector<Replay> out;
  for (std::size_t i = 0; i < n; ++i) {
    if (!runs_again(redone, i)) {
      continue;
    }
    if (first[group[i]] == n) {
      first[group[i]] = out.size();
      out.push_back({});
    }
    Replay& replay = out[first[group[i]]];
    replay.operators.push_back(i);
    replay.before = std::max(replay.before, i);
  }
  for (const std::uint32_t storage : made_again(graph, redone)) {
    Replay& replay = out[first[group[*maker_of(graph, storage)]]];
    for (std::size_t i = n; i-- > replay.before + 1;) {
      if (saves(graph.operators[i], storage)) {
        replay.before = i;
      }
    }
  }
  return out;
}

}  // namespace stepcast::lower
