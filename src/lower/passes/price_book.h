// Prices that the programs of a world share, numbered in order of first use: collectives by role,
// messages between two ranks, movements beyond the GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "roles.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// What moves bytes, or touches them, beyond the GPU (host_prices.h).
enum class Carrier : std::uint8_t { to_device, to_host, nvme_read, nvme_write, cpu };
const char* to_string(Carrier by);
struct Movement {
  Carrier by = Carrier::to_device;
  std::int64_t bytes = 0;
  int pieces = 1;  // copies that they take, each with its latency
  bool operator==(const Movement&) const = default;
};

// Collectives by role, numbered once for all programs: the number is the price key. Messages
// between two ranks, of any role, have numbers of their own, and so have movements.
class PriceBook {
 public:
  program::PriceKey key(Role role, cost::Collective op, std::int64_t bytes);
  program::PriceKey key(Role role, const cost::TokenExchange& tokens);
  program::PriceKey message(std::int64_t bytes);
  program::PriceKey movement(const Movement& m);
  struct Entry {
    cost::Collective op;
    std::int64_t bytes;
    std::optional<cost::TokenExchange> tokens = {};  // in place of a collective
    cost::CollectivePrice price(const cost::Collectives& of,
                                const cluster::GroupShape& group) const;
    std::string name() const;
  };
  const std::vector<Entry>& entries(Role role) const { return entries_[role]; }
  const std::vector<std::int64_t>& messages() const { return messages_; }
  const std::vector<Movement>& movements() const { return movements_; }

 private:
  std::vector<Entry> entries_[kRoles];
  std::vector<std::int64_t> messages_;
  std::vector<Movement> movements_;
};

}  // namespace stepcast::lower
