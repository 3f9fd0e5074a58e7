#include "adapter_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "stepcast/base/number.h"

namespace stepcast::config {
namespace {

enum class Network { infiniband, ethernet, roce, efa, slingshot, omni_path, tcp };

struct NetworkWord {
  std::string_view word;
  Network network;
};
constexpr std::array kNetworkWords = {NetworkWord{"infiniband", Network::infiniband},
                                      NetworkWord{"ib", Network::infiniband},
                                      NetworkWord{"quantum", Network::infiniband},
                                      NetworkWord{"ethernet", Network::ethernet},
                                      NetworkWord{"roce", Network::roce},
                                      NetworkWord{"rocev2", Network::roce},
                                      NetworkWord{"spectrum-x", Network::roce},
                                      NetworkWord{"efa", Network::efa},
                                      NetworkWord{"slingshot", Network::slingshot},
                                      NetworkWord{"omni-path", Network::omni_path},
                                      NetworkWord{"omnipath", Network::omni_path},
                                      NetworkWord{"opa", Network::omni_path},
                                      NetworkWord{"tcp", Network::tcp},
                                      NetworkWord{"tcpx", Network::tcp},
                                      NetworkWord{"tcpxo", Network::tcp},
                                      NetworkWord{"ipoib", Network::tcp},
                                      NetworkWord{"gpudirect-tcpx", Network::tcp},
                                      NetworkWord{"gpudirect-tcpxo", Network::tcp}};

// Gb/s of one port by the name of its speed: four lanes of InfiniBand (IBTA's roadmap), and two of
// them under names that end in the lower figure; Slingshot's Cassini and, before it, ConnectX-5.
// `half`: what the name may also mean. scripts/rows/network.py knows the same names.
struct SpeedName {
  std::string_view word;
  double rate;
  double half;
  Network network;
};
constexpr std::array kSpeedNames = {SpeedName{"fdr", 56, 56, Network::infiniband},
                                    SpeedName{"edr", 100, 100, Network::infiniband},
                                    SpeedName{"hdr", 200, 100, Network::infiniband},
                                    SpeedName{"hdr100", 100, 100, Network::infiniband},
                                    SpeedName{"hdr200", 200, 200, Network::infiniband},
                                    SpeedName{"ndr", 400, 200, Network::infiniband},
                                    SpeedName{"ndr200", 200, 200, Network::infiniband},
                                    SpeedName{"ndr400", 400, 400, Network::infiniband},
                                    SpeedName{"xdr", 800, 800, Network::infiniband},
                                    SpeedName{"xdr800", 800, 800, Network::infiniband},
                                    SpeedName{"slingshot-10", 100, 100, Network::slingshot},
                                    SpeedName{"slingshot-11", 200, 200, Network::slingshot},
                                    SpeedName{"slingshot10", 100, 100, Network::slingshot},
                                    SpeedName{"slingshot11", 200, 200, Network::slingshot}};

// Words that say nothing of the rate.
constexpr std::array<std::string_view, 7> kPlain = {"over", "rdma",    "adapter", "nic",
                                                    "hca",  "network", "link"};
constexpr std::array<std::string_view, 9> kSeveral = {
    "per", "node", "node-node", "total", "aggregate", "host", "server", "each", "gpu"};

constexpr double kGigabit = 1e9 / 8;
// Gb/s of a port: no adapter is sold with more (ConnectX-8, 2024). A plain rate may have more, as a
// what-if.
constexpr double kFastest = 800;

std::string_view name_of(Network n) {
  switch (n) {
    case Network::infiniband:
      return "InfiniBand";
    case Network::ethernet:
      return "Ethernet";
    case Network::roce:
      return "RoCE";
    case Network::efa:
      return "EFA";
    case Network::slingshot:
      return "Slingshot";
    case Network::omni_path:
      return "Omni-Path";
    case Network::tcp:
      return "TCP";
  }
  return "";
}

// Whether the first network may run over the second.
bool runs_over(Network upper, Network lower) {
  return upper == lower || upper == Network::tcp ||
         (lower == Network::ethernet &&
          (upper == Network::roce || upper == Network::efa || upper == Network::slingshot));
}

std::string lower_case(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::string_view(" \t,;()").find(c) != std::string_view::npos) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  words.erase(std::remove(words.begin(), words.end(), std::string()), words.end());
  return words;
}

class Reading {
 public:
  explicit Reading(const std::string& text) : words_(words_of(text)) {}

  AdapterText read() {
    for (std::size_t i = 0; i < words_.size() && known_; ++i) {
      word(i);
    }
    if (!known_ || (!rate_ && speed_ == nullptr)) {
      return {};
    }
    return result();
  }

 private:
  void word(std::size_t& i) {
    std::string w = words_[i];
    count(w);
    if (w.empty()) {
      return;
    }
    const std::string lower = lower_case(w);
    const auto speed = std::find_if(kSpeedNames.begin(), kSpeedNames.end(),
                                    [&](const SpeedName& s) { return s.word == lower; });
    if (speed != kSpeedNames.end()) {
      speed_ = &*speed;
      speed_word_ = w;
      name(speed->network, w);
      return;
    }
    for (const NetworkWord& n : kNetworkWords) {
      if (n.word == lower) {
        // "Slingshot 11" is written in two words.
        const bool numbered = n.network == Network::slingshot && i + 1 < words_.size() &&
                              (words_[i + 1] == "10" || words_[i + 1] == "11");
        if (numbered) {
          words_[i + 1] = lower + words_[i + 1];
        } else {
          name(n.network, w);
        }
        return;
      }
    }
    if (std::find(kSeveral.begin(), kSeveral.end(), lower) != kSeveral.end()) {
      several_ = true;
      return;
    }
    if (std::find(kPlain.begin(), kPlain.end(), lower) == kPlain.end()) {
      known_ = figure(w, i);
    }
  }

  // Takes a number of adapters, "8x" or "8x200Gb/s", off the word.
  void count(std::string& w) {
    const auto digits = std::min(w.find_first_not_of("0123456789"), w.size());
    if (digits > 0 && digits < w.size() && (w[digits] == 'x' || w[digits] == 'X')) {
      count_ = w.substr(0, digits);
      w = w.substr(digits + 1);
    } else if (w == "x" || w == "X") {  // "8 x 200 Gb/s"
      count_ = pending_;
      pending_.clear();
      w.clear();
    }
  }

  // "400Gb/s", "400 Gb/s", "400G", "100GbE", "8" before "x".
  bool figure(const std::string& w, std::size_t& i) {
    const std::size_t length = number_length(w);
    if (length == 0) {
      return false;
    }
    std::string unit = w.substr(length);
    std::string written = w;
    if (unit.empty() && i + 1 < words_.size()) {
      if (lower_case(words_[i + 1]) == "x") {
        pending_ = w;
        return true;
      }
      unit = words_[++i];
      written += " " + unit;
    }
    const std::string lower = lower_case(unit);
    try {
      if (lower == "gbe" || lower == "tbe") {
        name(Network::ethernet, written);
        rate_ =
            Bandwidth(parse_number(w.substr(0, length)) * kGigabit * (lower == "tbe" ? 1000 : 1));
      } else if (unit == "G" || unit == "T") {
        rate_ = Bandwidth(parse_number(w.substr(0, length)) * kGigabit * (unit == "T" ? 1000 : 1));
      } else {
        rate_ = parse_bandwidth(w.substr(0, length) + " " + unit);
      }
    } catch (const std::exception&) {
      return false;
    }
    rate_word_ = written;
    return true;
  }

  void name(Network n, const std::string& w) {
    for (auto& [other, its] : networks_) {
      if (runs_over(n, other)) {
        other = n;
        its = w;
        return;
      }
      if (runs_over(other, n)) {
        return;
      }
    }
    networks_.emplace_back(n, w);
  }

  AdapterText result() const {
    const auto said = [](const std::pair<Network, std::string>& n) {
      const std::string_view kind = name_of(n.first);
      return lower_case(n.second) == lower_case(kind) ? fmt::format("'{}'", n.second)
                                                      : fmt::format("'{}' ({})", n.second, kind);
    };
    constexpr std::string_view kInstead =
        "expected the line rate of one adapter such as '100 Gb/s', 'HDR' or 'NDR200'";
    if (networks_.size() > 1) {
      return {{},
              fmt::format(
                  "{} and {} contradict each other; {}, and the network as cluster.fabric such as "
                  "ib-ndr-rail, roce-rail or efa",
                  said(networks_[0]), said(networks_[1]), kInstead)};
    }
    const Bandwidth rate = rate_ ? *rate_ : Bandwidth(speed_->rate * kGigabit);
    const double gigabits = rate.count() / kGigabit;
    if (!count_.empty()) {
      return {
          {},
          fmt::format(
              "it states {} adapters; expected the line rate of one, as nics: {}, nic: {:g} Gb/s",
              count_, count_, gigabits)};
    }
    if (several_) {
      return {{},
              fmt::format("it states a rate of a whole node or GPU; {}, and their number as nics",
                          kInstead)};
    }
    if (rate_ && speed_ != nullptr && gigabits != speed_->rate && gigabits != speed_->half) {
      const std::string or_half =
          speed_->half == speed_->rate ? "" : fmt::format(" or {:g}", speed_->half);
      return {{},
              fmt::format("'{}' is {:g}{} Gb/s and '{}' is not; {}", speed_word_, speed_->rate,
                          or_half, rate_word_, kInstead)};
    }
    if (!networks_.empty() && gigabits > kFastest) {
      return {{},
              fmt::format("'{}' is more than the {:g} Gb/s of the fastest adapter; {}, and their "
                          "number as nics",
                          rate_word_, kFastest, kInstead)};
    }
    return {rate, ""};
  }

  std::vector<std::string> words_;
  std::vector<std::pair<Network, std::string>> networks_;  // that do not run over each other
  std::optional<Bandwidth> rate_;
  std::string rate_word_;
  const SpeedName* speed_ = nullptr;
  std::string speed_word_;
  std::string count_;
  std::string pending_;  // a number before "x"
  bool several_ = false;
  bool known_ = true;
};

}  // namespace

AdapterText read_adapter(const std::string& text) { return Reading(text).read(); }

}  // namespace stepcast::config
