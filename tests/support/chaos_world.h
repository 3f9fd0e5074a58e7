// Random programs without meaning: streams, waits, syncs, exchanges and collectives in any
// combination that cannot deadlock, because every wait is for something issued earlier in one
// common order. Ranks form rows; all ranks of a row run one program.
#pragma once

#include "support/random_world.h"

namespace stepcast::testing {

enum ChaosChannel { kRowNext, kRowPrevious, kColumnNext, kColumnPrevious, kChaosChannels };

inline World chaos_world(Random& r) {
  const auto rows = static_cast<std::uint32_t>(r.in(1, 5));
  const auto columns = static_cast<std::uint32_t>(r.in(1, 6));
  const auto kinds = static_cast<std::uint32_t>(r.in(1, std::min<std::int64_t>(3, rows)));
  const int streams = static_cast<int>(r.in(1, 4));
  const char* names[] = {"compute", "one", "two", "three"};
  std::vector<ProgramBuilder> programs;
  for (std::uint32_t k = 0; k < kinds; ++k) {
    programs.emplace_back(ProgramBuilder({}, "kind " + std::to_string(k)));
    ProgramBuilder& b = programs.back();
    for (int s = 0; s < streams; ++s) {
      b.p.streams.push_back({names[s]});
      b.counts.push_back(0);
    }
    b.p.communicator_roles = 3;
    b.p.channel_roles = kChaosChannels;
    b.launch_cost = r.chance(50) ? r.in(0, 2000) : 0;
  }
  const auto waits = [&](ProgramBuilder& b, int stream) {
    std::vector<Wait> w;
    for (std::int64_t n = r.in(0, 2); n > 0; --n) {
      const int s = static_cast<int>(r.in(0, streams - 1));
      const bool before = r.chance(25);
      // Waiting for the past of the own stream has no effect; waiting for its previous step has
      // none either but is allowed.
      if (s != stream || before) {
        w.push_back(on(s, static_cast<std::uint32_t>(r.in(0, b.counts[s])), before ? 1 : 0));
      }
    }
    return w;
  };
  const auto stream = [&] { return static_cast<int>(r.chance(40) ? 0 : r.in(0, streams - 1)); };
  // The uses of one communicator or channel are paired in order, so each has a fixed stream of its
  // own.
  const int row_stream = stream();
  const int column_stream = stream();
  const int ring_stream = stream();
  const int round_stream = stream();
  std::vector<std::vector<std::uint32_t>> live(kinds);
  const std::int64_t length = r.in(3, 40);
  for (std::int64_t i = 0; i < length; ++i) {
    const auto k = static_cast<std::uint32_t>(r.in(0, kinds - 1));
    ProgramBuilder& b = programs[k];
    switch (r.in(0, 11)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const int s = stream();
        b.kernel(s, r.chance(10) ? 0 : r.in(1, 9) * 700 + r.in(0, 3), waits(b, s),
                 static_cast<std::uint8_t>(r.in(0, 2)),
                 r.chance(50) ? Category::compute : Category::recompute,
                 program::CurveId::at(r.in(0, 3)));
        break;
      }
      case 4:
        b.collective(row_stream, 0, static_cast<std::uint32_t>(r.in(0, 1)), waits(b, row_stream),
                     Category::tensor);
        break;
      case 5: {
        const auto which = static_cast<std::uint32_t>(r.in(0, 1));
        for (ProgramBuilder& x : programs) {
          x.collective(column_stream, 1, which, waits(x, column_stream), Category::data,
                       Category::bubble);
        }
        break;
      }
      case 6: {
        const auto key = static_cast<std::uint32_t>(r.in(0, 9));
        b.exchange(ring_stream, {{kRowNext, key, 0, true}, {kRowPrevious, key, 0, false}},
                   waits(b, ring_stream), Category::context, Category::stall);
        break;
      }
      case 7: {
        const auto key = static_cast<std::uint32_t>(r.in(0, 9));
        for (ProgramBuilder& x : programs) {
          x.exchange(round_stream, {{kColumnPrevious, key, 0, false}, {kColumnNext, key, 0, true}},
                     waits(x, round_stream));
        }
        break;
      }
      case 8: {
        const int s = stream();
        b.copy(s, 0, waits(b, s));
        break;
      }
      case 9:
        b.host_work(r.in(0, 5000));
        break;
      case 10: {
        const int s = stream();
        b.sync(on(s, static_cast<std::uint32_t>(r.in(0, b.counts[s]))));
        break;
      }
      default:
        if (!live[k].empty() && r.chance(50)) {
          b.release(live[k].back(), static_cast<std::uint32_t>(r.in(0, (1 << streams) - 1)));
          live[k].pop_back();
        } else {
          live[k].push_back(b.buffer(r.in(1, 1000), static_cast<MemoryCategory>(r.in(0, 6))));
          b.allocate(live[k].back());
        }
        break;
    }
  }
  for (std::uint32_t k = 0; k < kinds; ++k) {
    for (const std::uint32_t x : live[k]) {
      programs[k].release(x);
    }
  }
  // All programs end their step together.
  for (ProgramBuilder& x : programs) {
    x.collective(0, 2, 0, waits(x, 0), Category::other);
  }

  WorldBuilder w;
  w.w.slowdowns = {
      {}, {3, {1'000'000, 873'211, 700'001}}, {2, {1'000'000, 950'000, 912'347, 333'333}}};
  if (r.chance(30)) {
    w.w.transfer_speed = {1'000'000, 812'345, 600'001};
  }
  for (int c = 0; c < 4; ++c) {
    Curve curve;
    curve.name = "curve " + std::to_string(c);
    w.w.curves.push_back(curve);
  }
  std::vector<ProgramId> ids;
  for (ProgramBuilder& b : programs) {
    ids.push_back(w.program(b.done()));
  }
  std::vector<std::uint32_t> kind_of_row;
  for (std::uint32_t i = 0; i < rows; ++i) {
    kind_of_row.push_back(i < kinds ? i : static_cast<std::uint32_t>(r.in(0, kinds - 1)));
    for (std::uint32_t j = 0; j < columns; ++j) {
      w.rank(ids[kind_of_row.back()]);
    }
  }
  const auto at = [&](std::uint32_t i, std::uint32_t j) {
    return RankId::at((i % rows) * columns + j % columns);
  };
  const auto share = static_cast<std::uint32_t>(r.in(1, 4));
  const std::int64_t rate = 1'000'000'007;
  std::vector<ResourceId> links;
  const std::uint32_t size = rows * columns;
  for (std::uint32_t n = 0; n <= size / share; ++n) {
    links.push_back(w.resource(r.chance(10) ? rate / 2 : rate));
  }
  const auto link = [&](RankId rank) { return links[rank / share]; };
  const auto some_price = [&] {
    Price p = price(r.chance(20) ? 0 : r.in(0, 3000), r.chance(10) ? 0 : r.in(1, 5000),
                    r.in(1, 10) * rate / 10, static_cast<std::uint16_t>(r.in(0, 6)));
    p.weight[0] = r.in(0, 3) * kWeightOne / 2;
    p.curve = program::CurveId::at(r.in(0, 3));
    return p;
  };
  const auto row_shape = w.shape({some_price(), some_price()});
  const auto column_shape = w.shape({some_price(), some_price()});
  const auto all_shape = w.shape({some_price()});
  const auto ring_shape = w.shape({some_price()});
  const auto copy_shape = w.shape({some_price()});
  const auto usages = [&](const std::vector<WorldBuilder::Member>& members) {
    std::vector<Usage> u;
    for (const auto& m : members) {
      if (!u.empty() && u.back().resource == link(m.rank)) {
        ++u.back().count;
      } else {
        u.push_back({link(m.rank), 0, 1});
      }
    }
    return u;
  };
  std::vector<WorldBuilder::Member> everyone;
  for (std::uint32_t i = 0; i < rows; ++i) {
    std::vector<WorldBuilder::Member> row;
    for (std::uint32_t j = 0; j < columns; ++j) {
      row.push_back({at(i, j), 0});
      everyone.push_back({at(i, j), 2});
      w.channel(ring_shape, {at(i, j), kRowNext}, {at(i, j + 1), kRowPrevious},
                {{link(at(i, j)), 0, 1}});
      w.channel(ring_shape, {at(i, j), kColumnNext}, {at(i + 1, j), kColumnPrevious},
                {{link(at(i + 1, j)), 0, 1}});
    }
    w.communicator(row_shape, row, usages(row));
  }
  for (std::uint32_t j = 0; j < columns; ++j) {
    std::vector<WorldBuilder::Member> column;
    for (std::uint32_t i = 0; i < rows; ++i) {
      column.push_back({at(i, j), 1});
    }
    w.communicator(column_shape, column, usages(column));
  }
  w.communicator(all_shape, everyone, usages(everyone));
  for (RankId i = 0; i < size; ++i) {
    w.w.ranks[i].copy_shape = copy_shape;
    w.w.ranks[i].first_usage = w.usages({{link(i), 0, 1}});
    w.w.ranks[i].usages = 1;
  }
  return w.w;
}

// The same world with other numbers of ranks, communicators, channels and resources; `at` maps each
// old rank to its new number.
inline World renumbered(const World& w, Random& r, std::vector<RankId>& at) {
  const auto permutation = [&](std::size_t n) {
    std::vector<std::uint32_t> p(n);
    std::iota(p.begin(), p.end(), 0U);
    for (std::size_t i = n; i > 1; --i) {
      std::swap(p[i - 1], p[r.in(0, static_cast<std::int64_t>(i) - 1)]);
    }
    return p;
  };
  World out = w;
  at.clear();
  for (const std::uint32_t to : permutation(w.ranks.size())) {
    at.push_back(RankId::at(to));
  }
  const auto communicator = permutation(w.communicators.size());
  const auto channel = permutation(w.channels.size());
  const auto resource = permutation(w.resources.size());
  for (std::size_t i = 0; i < w.ranks.size(); ++i) {
    out.ranks[at[i]] = w.ranks[i];
  }
  for (std::size_t i = 0; i < w.communicators.size(); ++i) {
    out.communicators[communicator[i]] = w.communicators[i];
  }
  for (std::size_t i = 0; i < w.channels.size(); ++i) {
    Channel c = w.channels[i];
    c.sender = at[c.sender];
    c.receiver = at[c.receiver];
    out.channels[channel[i]] = c;
  }
  for (std::size_t i = 0; i < w.resources.size(); ++i) {
    out.resources[resource[i]] = w.resources[i];
  }
  for (Usage& u : out.usages) {
    u.resource = ResourceId::at(resource[u.resource]);
  }
  for (auto& id : out.communicator_table) {
    id = id == kNone ? id : CommunicatorId::at(communicator[id]);
  }
  for (auto& id : out.channel_table) {
    id = id == kNone ? id : ChannelId::at(channel[id]);
  }
  return out;
}

}  // namespace stepcast::testing
