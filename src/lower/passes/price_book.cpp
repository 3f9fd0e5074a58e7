#include "price_book.h"

#include <algorithm>

namespace stepcast::lower {

program::PriceKey PriceBook::key(Role role, cost::Collective op, std::int64_t bytes) {
  auto& entries = entries_[role];
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (entries[i].op == op && entries[i].bytes == bytes && !entries[i].tokens) {
      return program::PriceKey::at(i);
    }
  }
  entries.push_back({op, bytes});
  return program::PriceKey::at(entries.size() - 1);
}

program::PriceKey PriceBook::key(Role role, const cost::TokenExchange& tokens) {
  auto& entries = entries_[role];
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& e) { return e.tokens == tokens; });
  if (at == entries.end()) {
    entries.push_back({cost::Collective::all_to_all, tokens.tokens.count(), tokens});
    return program::PriceKey::at(entries.size() - 1);
  }
  return program::PriceKey::at(at - entries.begin());
}

cost::CollectivePrice PriceBook::Entry::price(const cost::Collectives& of,
                                              const cluster::GroupShape& group) const {
  return tokens ? of.exchange(*tokens, group) : of.price(op, Bytes(bytes), group);
}

std::string PriceBook::Entry::name() const { return tokens ? "tokens" : cost::to_string(op); }

program::PriceKey PriceBook::message(std::int64_t bytes) {
  const auto at = std::find(messages_.begin(), messages_.end(), bytes);
  if (at == messages_.end()) {
    messages_.push_back(bytes);
    return program::PriceKey::at(messages_.size() - 1);
  }
  return program::PriceKey::at(at - messages_.begin());
}

program::PriceKey PriceBook::movement(const Movement& m) {
  const auto at = std::find(movements_.begin(), movements_.end(), m);
  if (at == movements_.end()) {
    movements_.push_back(m);
    return program::PriceKey::at(movements_.size() - 1);
  }
  return program::PriceKey::at(at - movements_.begin());
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
