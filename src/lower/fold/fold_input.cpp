#include "fold_input.h"

#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#include "fold_classes.h"

namespace stepcast::lower {
namespace {

using program::World;

// Calls f with each table of a world and the input's own.
template <class W, class I, class F>
void each_table(W& w, I& input, const F& f) {
  f(w.ranks, input.ranks);
  f(w.communicator_table, input.communicator_table);
  f(w.channel_table, input.channel_table);
  f(w.communicators, input.communicators);
  f(w.channels, input.channels);
  f(w.usages, input.usages);
  f(w.multiplicity, input.multiplicity);
}
template <class I, class F>
void each_equality(I& a, I& b, const F& f) {
  f(a.roles, b.roles);
  f(a.shapes, b.shapes);
  f(a.capacities, b.capacities);
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  static_assert(std::has_unique_object_representations_v<T>);
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

std::vector<std::uint32_t> equal_shapes(const World& w) {
  std::map<std::vector<std::int64_t>, std::uint32_t> known;
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < w.shapes.size(); ++i) {
    std::vector<std::int64_t> key;
    for (const program::Price& p : w.shapes[i].prices) {
      key.insert(key.end(), {p.latency.count(), p.fluid.count(), p.rate, p.bytes.count(),
                             p.latency_curve, p.curve, p.pressure_waiting, p.pressure, p.label});
      key.insert(key.end(), std::begin(p.weight), std::end(p.weight));
    }
    out.push_back(known.emplace(std::move(key), i).first->second);
  }
  return out;
}

std::vector<std::uint32_t> equal_capacities(const World& w) {
  std::vector<Colour> capacities;
  capacities.reserve(w.resources.size());
  for (const program::Resource& r : w.resources) {
    capacities.push_back(static_cast<Colour>(r.capacity));
  }
  return classes_of(capacities).of;
}

}  // namespace

FoldInput equals_of(const World& w) {
  FoldInput out;
  for (const program::Program& p : w.programs) {
    out.roles.push_back({p.communicator_roles, p.channel_roles});
  }
  out.shapes = equal_shapes(w);
  out.capacities = equal_capacities(w);
  return out;
}

void copy_tables(const World& from, FoldInput& to) {
  each_table(from, to, [](const auto& table, auto& input) { input = table; });
}

void take_tables(World& from, FoldInput& to) {
  each_table(from, to, [](auto& table, auto& input) { input = std::move(table); });
}

void give_back_tables(FoldInput& from, World& to) {
  each_table(to, from, [](auto& table, auto& input) { table = std::move(input); });
}

bool same_input(const FoldInput& known, const FoldInput& equals, const World& w) {
  bool all = true;
  each_equality(known, equals, [&](const auto& a, const auto& b) { all = all && same(a, b); });
  each_table(w, known, [&](const auto& a, const auto& b) { all = all && same(a, b); });
  return all;
}

std::size_t size_of(const FoldInput& input) {
  std::size_t bytes = 0;
  const auto add = [&](const auto& table, const auto&) {
    bytes += table.size() * sizeof(table[0]);
  };
  each_table(input, input, add);
  each_equality(input, input, add);
  return bytes;
}

}  // namespace stepcast::lower
