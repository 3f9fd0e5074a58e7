// Resources of a lattice that can limit a rate, and the communicators and channels that use them.
#include <algorithm>

#include "lattice_draft.h"

namespace stepcast::lower {

using program::kNone;

namespace {

// Numbers of the topology's resources in the lattice; kNone: it cannot bind.
std::vector<program::ResourceId> choose_resources(LatticeDraft& w) {
  const auto& all = w.topology.resources();
  std::vector<program::ResourceId> ids(all.size(), kNone);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (w.users.can_bind(static_cast<int>(i))) {
      ids[i] = program::ResourceId::at(w.out.resources.size());
      w.out.resources.push_back({static_cast<std::int64_t>(all[i].capacity.count())});
    }
  }
  return ids;
}

constexpr int kEachMember = -1;

void add_usage(LatticeDraft& w, const std::vector<program::ResourceId>& ids, int resource,
               int count = 1) {
  if (resource < 0 || ids[resource] == kNone) {
    return;
  }
  w.out.usages.push_back(
      {ids[resource], static_cast<std::uint32_t>(w.topology.resources()[resource].kind), count});
}

// A NIC or uplink that several members share is one resource that the price counts once; through
// host memory, the bytes of every member pass its PCIe switch's uplink.
void merge_usages(LatticeDraft& w, std::size_t first) {
  auto& all = w.out.usages;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  const auto before = [](const auto& a, const auto& b) { return a.resource < b.resource; };
  if (!std::is_sorted(begin, all.end(), before)) {
    std::sort(begin, all.end(), before);
  }
  auto out = begin;
  for (auto in = begin; in != all.end();) {
    program::Usage one = *in;
    std::int64_t members = 0;
    for (; in != all.end() && in->resource == one.resource; ++in) {
      ++members;
    }
    one.count = one.count == kEachMember ? members : one.count;
    *out++ = one;
  }
  all.erase(out, all.end());
}

// Kind by kind, as the topology numbers its resources: members stand in ascending order, so what
// comes of them mostly does as well.
void add_members_usages(LatticeDraft& w, const std::vector<program::ResourceId>& ids,
                        const DraftGroup& m) {
  const cluster::Topology& t = w.topology;
  const auto each_member = [&](const auto& add) {
    for (std::size_t k = 0; k < m.count; ++k) {
      add(w.members[m.first + k]);
    }
  };
  each_member([&](int r) { add_usage(w, ids, t.nvlink_port(r)); });
  if (m.crosses) {
    each_member([&](int r) {
      add_usage(w, ids, t.nic_out(r));
      add_usage(w, ids, t.nic_in(r));
    });
    each_member([&](int r) { add_usage(w, ids, t.spine(r)); });
  }
  if (m.leaves > 0) {
    each_member([&](int r) { add_usage(w, ids, t.core(r), m.leaves); });
  }
  if (m.over_switches) {
    const int count = w.layout.peer_to_peer ? 1 : kEachMember;
    each_member([&](int r) { add_usage(w, ids, t.pcie_uplink(r), count); });
  }
  if (m.over_sockets) {
    each_member([&](int r) { add_usage(w, ids, t.socket_link(r)); });
  }
}

void fill_usages(LatticeDraft& w, const std::vector<program::ResourceId>& ids) {
  if (w.out.resources.empty()) {
    return;
  }
  for (std::size_t i = 0; i < w.out.communicators.size(); ++i) {
    auto& c = w.out.communicators[i];
    c.first_usage = static_cast<std::uint32_t>(w.out.usages.size());
    const DraftGroup& m = w.groups[i];
    if (m.count > 1) {
      add_members_usages(w, ids, m);
      merge_usages(w, c.first_usage);
    }
    c.usages = static_cast<std::uint32_t>(w.out.usages.size()) - c.first_usage;
  }
  for (std::size_t i = 0; i < w.out.channels.size(); ++i) {
    auto& c = w.out.channels[i];
    c.first_usage = static_cast<std::uint32_t>(w.out.usages.size());
    for (int resource : w.channel_resources[i]) {
      add_usage(w, ids, resource);
    }
    c.usages = static_cast<std::uint32_t>(w.out.usages.size()) - c.first_usage;
  }
}

}  // namespace

void make_resources(LatticeDraft& w) {
  const std::vector<program::ResourceId> ids = choose_resources(w);
  fill_usages(w, ids);
}

}  // namespace stepcast::lower
