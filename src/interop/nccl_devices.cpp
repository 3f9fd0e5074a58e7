#include "nccl_devices.h"

#include <algorithm>

namespace stepcast::interop {

void Devices::read(std::string_view line) {
  const Words w = words(line);
  for (std::size_t i = 0; i + 1 < w.size(); ++i) {
    if (w[i] != "Rank") {
      continue;
    }
    const auto rank = number<int>(w[i + 1]);
    const auto on = std::find(w.begin() + static_cast<std::ptrdiff_t>(i), w.end(), "on");
    if (!rank || *rank < 0 || *rank >= kMaxRanks || w.end() - on < 4 || on[2] != "device") {
      return;
    }
    auto host = ranks_.find(on[1]);
    if (host == ranks_.end()) {
      hosts_.emplace_back(on[1]);
      host = ranks_.try_emplace(std::string(on[1])).first;
    }
    ++host->second[number<int>(on[3]).value_or(0)];
    ++listed_;
    highest_ = std::max(highest_, *rank);
    if (w.end() - on > 5) {  // after the bus address
      const auto first = static_cast<std::size_t>(on[5].data() - line.data());
      std::string name(line.substr(first));
      name.erase(name.find_last_not_of(" \t\r\n") + 1);
      constexpr std::size_t kMaxNames = 16;  // more names are a list of hosts, not of devices
      if (names_.size() < kMaxNames &&
          std::find(names_.begin(), names_.end(), name) == names_.end()) {
        names_.push_back(std::move(name));
      }
    }
    return;
  }
}

std::vector<int> Devices::per_node() const {
  if (listed_ == 0 || highest_ + 1 != listed_) {
    return {};
  }
  std::vector<int> out;
  for (const std::string& host : hosts_) {
    // with[c]: number of devices that occur more than c times, which is that of the ranks of the
    // host's copy c.
    std::vector<int> with;
    for (const auto& [device, times] : ranks_.find(host)->second) {
      with.resize(std::max(with.size(), static_cast<std::size_t>(times)), 0);
      ++with[static_cast<std::size_t>(times) - 1];
    }
    for (std::size_t c = with.size(); c-- > 1;) {
      with[c - 1] += with[c];
    }
    out.insert(out.end(), with.begin(), with.end());
  }
  return out;
}

void Promise::read(std::string_view line) {
  const Words w = words(line);
  for (std::size_t i = 0; i + 1 < w.size(); ++i) {
    if (w[i] == "maxBytes") {
      most_ = number<std::int64_t>(w[i + 1]).value_or(0);
    } else if (w[i] == "step:") {
      const std::string_view value = w[i + 1].substr(0, w[i + 1].find('('));
      const bool times = w[i + 1].find("factor") != std::string_view::npos;
      const double amount = number<double>(value).value_or(0);
      const auto bytes = number<std::int64_t>(value).value_or(0);
      factor_ = times ? amount : 0;
      step_ = times ? 0 : bytes;
    }
  }
}

bool Promise::goes_on(std::int64_t last) const {
  constexpr double kRounding = 0.98;
  const double now = static_cast<double>(last);
  const double end = static_cast<double>(most_);
  const double next = factor_ > 1 ? now * factor_
                      : step_ > 0 ? now + static_cast<double>(step_)
                                  : 0;
  return next > 0 && (next == end || next <= kRounding * end);
}

}  // namespace stepcast::interop
