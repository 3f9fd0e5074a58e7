#include "health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stepcast/base/interval.h"
#include "stepcast/base/statistics.h"

namespace stepcast::calibrate {
namespace {

using result::Health;

// A broken part costs a factor of two or more of the large-message bandwidth: a path of half the
// rate (one of two NICs is down, a link trained at half its width), sockets in place of RDMA
// (4 to 12 on Slingshot without its plug-in), copies through the host in place of GPUDirect.
// Smaller losses (1 of 8 NICs: 1.14; hash collisions and other releases of NCCL: up to 1.5 between
// healthy logs of one machine) cannot be distinguished from other tuning.
constexpr double kBroken = 2;
// A model of another kind of machine, or a general one, may be wrong by a further factor for a
// healthy machine (NICs of the same rate with the curves of another fabric: all-to-all on Slingshot
// 2.7, sockets on 100 Gb/s 2.6, TCPX 1.9).
constexpr double kBorrowed = 2;
// A quarter of the links is missing, or the fabric is busy: the log is suspect.
constexpr double kSlow = 4.0 / 3;
// Wrong results at a few sizes come from the fabric or the memory; with more than a quarter of the
// sizes wrong the run computed something else.
constexpr double kMaxWrongShare = 0.25;

constexpr std::int64_t kOneMiB = 1 << 20;
constexpr std::int64_t kLarge = 64;  // large sizes are within this factor of the largest

// The sizes at which bandwidth and not latency determines the time: from 1 MiB on and near the
// largest; in a log of small messages, those near the largest.
std::vector<const Sample*> large(const std::vector<Sample>& samples) {
  std::vector<const Sample*> out;
  if (samples.empty()) {
    return out;
  }
  const std::int64_t most = samples.back().bytes;
  const std::int64_t from = most < kOneMiB ? most / 8 : std::max(kOneMiB, most / kLarge);
  for (const Sample& s : samples) {
    if (s.bytes >= from) {
      out.push_back(&s);
    }
  }
  return out;
}

std::string times(double factor) {
  return factor >= 9.95 ? fmt::format("{:.0f}", factor) : fmt::format("{:.1f}", factor);
}

struct Judge {
  Verdict verdict;

  void say(Health health, std::string reason) {
    verdict.health = std::max(verdict.health, health);
    verdict.reasons.push_back(std::move(reason));
  }
};

void by_model(Judge& j, const std::vector<const Sample*>& big, bool own) {
  std::vector<double> ratios, spreads;
  for (const Sample* s : big) {
    if (s->expected > 0) {
      ratios.push_back(s->seconds / s->expected);
      spreads.push_back(s->residual);
    }
  }
  if (ratios.empty()) {
    return;
  }
  const double ratio = median(ratios);
  j.verdict.ratio = ratio;
  // The upper end of the 90 % interval of healthy logs (residuals are of logarithms).
  const double far =
      std::max(std::exp(kDeviations90 * median(spreads)), own ? 1.0 : kBorrowed * kSlow);
  const double broken = std::max(far, own ? kBroken : kBorrowed * kBroken);
  const double slow = std::max(far, kSlow);
  const char* whose = own ? "this cluster" : "a cluster of its kind";
  if (ratio > slow) {
    j.say(ratio > broken ? Health::degraded : Health::suspect,
          fmt::format("large messages take {} times what {} needs (healthy: up to {:.2f})",
                      times(ratio), whose, slow));
  } else if (1 / ratio > std::max(kBroken, far)) {
    j.say(Health::suspect,
          fmt::format(
              "large messages are {} times faster than on {}: was it measured on another machine?",
              times(1 / ratio), whose));
  }
}

void by_peers(Judge& j, double peers) {
  if (peers > kBroken) {
    j.say(Health::degraded,
          fmt::format("{} times slower than other logs of its kind", times(peers)));
  } else if (peers > kSlow) {
    j.say(Health::suspect,
          fmt::format("{} times slower than other logs of its kind", times(peers)));
  }
}

// Bandwidth rises with size until a link is full and then stays. It falls where buffers, memory
// registration or congestion control fail.
void by_collapse(Judge& j, const std::vector<Sample>& samples) {
  constexpr std::size_t kTail = 3;
  std::vector<const Sample*> whole;
  for (const Sample& s : samples) {
    if (s.bytes >= kOneMiB) {
      whole.push_back(&s);
    }
  }
  if (whole.size() < kTail + 2) {
    return;
  }
  const auto bandwidth = [](const Sample* s) { return static_cast<double>(s->bytes) / s->seconds; };
  std::vector<double> tail;
  double best = 0;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double b = bandwidth(whole[i]);
    if (i + kTail >= whole.size()) {
      tail.push_back(b);
    } else if (b > best) {
      best = b;
      at = whole[i]->bytes;
    }
  }
  const double fall = best / median(tail);
  if (fall > kBroken) {
    j.say(Health::degraded, fmt::format("bandwidth falls to {:.0f} % of what {} MiB reached",
                                        100 / fall, at / kOneMiB));
  } else if (fall > kSlow) {
    j.say(Health::suspect, fmt::format("bandwidth falls to {:.0f} % of what {} MiB reached",
                                       100 / fall, at / kOneMiB));
  }
}

// Out-of-place and in-place runs move the same bytes over the same links.
void by_halves(Judge& j, const std::vector<const Sample*>& big) {
  std::vector<double> ratios;
  for (const Sample* s : big) {
    if (s->in_place > 0) {
      ratios.push_back(std::abs(std::log(s->seconds / s->in_place)));
    }
  }
  if (ratios.size() >= 2) {
    const double factor = std::exp(median(ratios));
    if (factor > kSlow) {
      j.say(Health::suspect,
            fmt::format("out-of-place and in-place runs differ {} times", times(factor)));
    }
  }
}

void by_results(Judge& j, int wrong, std::size_t right) {
  if (wrong == 0) {
    return;
  }
  const double share = wrong / (static_cast<double>(right) + wrong);
  j.say(share > kMaxWrongShare ? Health::degraded : Health::suspect,
        fmt::format("{} {} wrong results{}", wrong, wrong == 1 ? "size has" : "sizes have",
                    share > kMaxWrongShare ? "" : ": left out"));
}

}  // namespace

Verdict judge(const Evidence& evidence) {
  Judge j;
  const auto big = large(evidence.samples);
  by_model(j, big, evidence.own_model);
  by_peers(j, evidence.peers);
  by_collapse(j, evidence.samples);
  by_halves(j, big);
  by_results(j, evidence.wrong, evidence.samples.size());
  return std::move(j.verdict);
}

std::vector<double> against_peers(const std::vector<std::vector<Sample>>& series) {
  std::map<std::int64_t, std::vector<double>> at;  // times by size
  for (const auto& samples : series) {
    for (const Sample* s : large(samples)) {
      at[s->bytes].push_back(s->seconds);
    }
  }
  for (auto& [bytes, all] : at) {
    std::sort(all.begin(), all.end());
  }
  std::vector<double> out;
  for (const auto& samples : series) {
    std::vector<double> ratios;
    for (const Sample* s : large(samples)) {
      const auto& all = at[s->bytes];
      if (all.size() > 1) {
        // The faster logs show what the machine can do, however many others are slow.
        ratios.push_back(s->seconds / all[(all.size() - 1) / 4]);
      }
    }
    out.push_back(median(std::move(ratios)));
  }
  return out;
}

}  // namespace stepcast::calibrate
