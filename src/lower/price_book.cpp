#include "price_book.h"

#include <algorithm>

namespace stepcast::lower {

std::uint32_t PriceBook::key(Role role, cost::Collective op, std::int64_t bytes) {
  auto& entries = entries_[role];
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (entries[i].op == op && entries[i].bytes == bytes && !entries[i].tokens) {
      return i;
    }
  }
  entries.push_back({op, bytes});
  return static_cast<std::uint32_t>(entries.size() - 1);
}

std::uint32_t PriceBook::key(Role role, const cost::TokenExchange& tokens) {
  auto& entries = entries_[role];
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& e) { return e.tokens == tokens; });
  if (at == entries.end()) {
    entries.push_back({cost::Collective::all_to_all, tokens.tokens.count(), tokens});
    return static_cast<std::uint32_t>(entries.size() - 1);
  }
  return static_cast<std::uint32_t>(at - entries.begin());
}

cost::CollectivePrice PriceBook::Entry::price(const cost::Collectives& of,
                                              const cluster::GroupShape& group) const {
  return tokens ? of.exchange(*tokens, group) : of.price(op, Bytes(bytes), group);
}

std::string PriceBook::Entry::name() const { return tokens ? "tokens" : cost::to_string(op); }

std::uint32_t PriceBook::message(std::int64_t bytes) {
  const auto at = std::find(messages_.begin(), messages_.end(), bytes);
  if (at == messages_.end()) {
    messages_.push_back(bytes);
    return static_cast<std::uint32_t>(messages_.size() - 1);
  }
  return static_cast<std::uint32_t>(at - messages_.begin());
}

std::uint32_t PriceBook::movement(const Movement& m) {
  const auto at = std::find(movements_.begin(), movements_.end(), m);
  if (at == movements_.end()) {
    movements_.push_back(m);
    return static_cast<std::uint32_t>(movements_.size() - 1);
  }
  return static_cast<std::uint32_t>(at - movements_.begin());
}

const char* to_string(Carrier by) {
  switch (by) {
    case Carrier::to_device:
      return "host to device";
    case Carrier::to_host:
      return "device to host";
    case Carrier::nvme_read:
      return "NVMe read";
    case Carrier::nvme_write:
      return "NVMe write";
    case Carrier::cpu:
      return "CPU";
  }
  return "";
}

}  // namespace stepcast::lower
