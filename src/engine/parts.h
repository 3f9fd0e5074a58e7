// A large world in parts that meet in collectives and on links that all of them use, as the
// data-parallel replicas of a pipeline do: each part is simulated by itself, on a thread of its own
// and in a core's cache.
//
// A part assumes that the others do as it does: its share of a collective begins when its own
// members are there, and a transfer over a link that all parts use counts for as many as there are
// parts. Where all parts find the same times, caps and rates for all that they share, they are
// together the course of the whole world, and the only one: a collective begins when its last
// member arrives, which is the same time in every part; and rates are the one assignment in which
// each activity stops at its cap or at a full resource (network.h), which holds in the whole where
// it holds in each part with the same rates of what is shared. Where they find anything else,
// nothing of it is used, and the whole world is run as one.
//
// How a world is divided follows from the world alone, not from the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "machine.h"
#include "prepared.h"
#include "stepcast/engine/engine.h"

namespace stepcast::engine {

struct Division {
  std::vector<std::vector<std::uint32_t>> parts;  // their ranks, rising
  std::vector<std::uint32_t> part_of;             // by rank
  std::vector<bool> shared;                       // by communicator: of several parts
  // By resource: the one part that uses it, shared communicators aside; none: all of them do.
  std::vector<std::uint32_t> owner;
  std::vector<bool> binds;  // by resource
};

// Parts of at least `least_tasks` tasks a step, of which each has the same programs and shapes in
// the same order and takes part in everything that is shared. None: there are not two such.
// Throws as check().
std::optional<Division> divide(const program::World& world, const Prepared::Programs& programs,
                               std::uint64_t least_tasks);

// Makes the worlds of parts, one after the other, in the same place.
class Excerpt {
 public:
  Excerpt(const program::World& of, const Prepared::Programs& programs, const Division& division);
  // Without programs: numbers of programs are those of the whole.
  const program::World& take(std::uint32_t part);
  const Share& share() const { return share_; }  // of the part that was taken

 private:
  const program::World& whole_;
  const Prepared::Programs& programs_;
  const Division& division_;
  program::World world_;
  Share share_;
  // Numbers within the part; none: not yet in it.
  std::vector<std::uint32_t> communicators_;
  std::vector<std::uint32_t> channels_;
  std::vector<std::uint32_t> resources_;
  std::vector<std::uint32_t> ranks_;

  program::CommunicatorId communicator(std::uint32_t id, std::uint32_t part);
  program::ChannelId channel(std::uint32_t id, std::uint32_t part);
  void keep_usages(std::uint32_t first, std::uint32_t count, std::uint32_t part, bool shared,
                   std::uint32_t& to_first, std::uint32_t& to_count);
};

// The timeline of the whole world from runs of its parts, on up to Options::threads threads; none:
// the parts are not alike, or nothing happens any more in one. The origin of times is that of a run
// of the whole.
std::optional<program::Timeline> run_parts(const program::World& world, const Options& options,
                                           Prepared::Programs& programs, const Division& division);

}  // namespace stepcast::engine
