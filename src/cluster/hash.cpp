// LAW: a link of rate u that carries m flows gives each u / m. The slowest flow sets the rate of
// its group, so the group keeps min(1, u / (m r)) of the rate r that a flow has without collisions,
// where m is the load of the fullest link. Over k independent switches, the probability that the
// share falls below x is 1 - (1 - P(x))^k. The Monte Carlo finds the distribution of m.
#include "hash.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

namespace stepcast::cluster {
namespace {

constexpr int kMaxDraws = 2000;
constexpr int kMinDraws = 200;
constexpr int kMaxThrows = 2'000'000;    // flows * draws
constexpr std::size_t kMostKept = 4096;  // levels whose draws are kept; each is some kilobytes

}  // namespace

std::shared_ptr<const HashTable> HashTable::of(std::uint64_t seed) {
  static std::mutex mutex;
  static std::shared_ptr<const HashTable> last;
  const std::lock_guard lock(mutex);
  if (last == nullptr || last->seed_ != seed) {
    last = std::make_shared<const HashTable>(seed);
  }
  return last;
}

std::shared_ptr<const HashLoads> HashTable::loads(int flows, int links, int own) const {
  const std::lock_guard lock(mutex_);
  const std::tuple key(flows, links, own);
  if (const auto at = known_.find(key); at != known_.end()) {
    return at->second;
  }
  if (known_.size() >= kMostKept) {
    known_.clear();
  }
  return known_.emplace(key, drawn(flows, links, own)).first->second;
}

std::shared_ptr<const HashLoads> HashTable::drawn(int flows, int links, int own) const {
  auto made = std::make_shared<HashLoads>();
  made->draws = std::clamp(kMaxThrows / std::max(1, flows), kMinDraws, kMaxDraws);
  // mt19937_64 is the same everywhere; std::uniform_int_distribution is not, so scale by hand.
  std::mt19937_64 random(
      seed_ ^ (std::uint64_t{0x9e3779b97f4a7c15} *
               (std::uint64_t(flows) << 40 ^ std::uint64_t(links) << 20 ^ std::uint64_t(own) ^ 1)));
  const auto among = static_cast<std::uint64_t>(links);
  // Most networks have a power of two of links, where the remainder is a mask.
  const std::uint64_t mask = std::has_single_bit(among) ? among - 1 : 0;
  std::vector<int> count(among);
  std::vector<std::size_t> chosen(static_cast<std::size_t>(own));
  made->loads.assign(static_cast<std::size_t>(flows) + 1, 0);
  for (int draw = 0; draw < made->draws; ++draw) {
    std::fill(count.begin(), count.end(), 0);
    const auto thrown = [&] {
      const std::uint64_t number = random();
      const auto link = static_cast<std::size_t>(mask != 0 ? number & mask : number % among);
      ++count[link];
      return link;
    };
    for (std::size_t& link : chosen) {
      link = thrown();
    }
    for (int flow = own; flow < flows; ++flow) {
      thrown();
    }
    int most = 0;
    for (const std::size_t link : chosen) {
      most = std::max(most, count[link]);
    }
    ++made->loads[static_cast<std::size_t>(most)];
  }
  while (made->loads.size() > 1 && made->loads.back() == 0) {
    made->loads.pop_back();
  }
  made->loads.shrink_to_fit();
  return made;
}

HashShare HashTable::share(const std::vector<HashLevel>& levels) const {
  // The shares of the rate that each level can leave, with their probabilities.
  struct Step {
    double share;
    double chance;  // probability of this share at this level
    std::size_t level;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const HashLevel& level = levels[i];
    if (level.flows < 1 || level.links < 1 || level.own < 1 || level.flow_rate <= 0) {
      continue;
    }
    const auto table = loads(level.flows, level.links, std::min(level.own, level.flows));
    double above = 1;  // probability of a load up to m
    for (std::size_t m = table->loads.size(); m-- > 1;) {
      if (table->loads[m] == 0) {
        continue;
      }
      const double below = above - static_cast<double>(table->loads[m]) / table->draws;
      const double share =
          std::min(1.0, level.link_rate / (static_cast<double>(m) * level.flow_rate));
      const double chance = std::pow(std::max(0.0, above), level.switches) -
                            std::pow(std::max(0.0, below), level.switches);
      steps.push_back({share, chance, i});
      above = below;
    }
  }
  HashShare out;
  if (steps.empty()) {
    return out;
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return a.share != b.share ? a.share < b.share : a.level < b.level;
  });
  // The shares ascend: `now` below is the probability that all levels leave more than the present
  // share.
  std::vector<double> faster(levels.size(), 1);
  double before = 1;
  out.mean = 0;
  bool low_found = false;
  bool high_found = false;
  for (const Step& step : steps) {
    faster[step.level] = std::max(0.0, faster[step.level] - step.chance);
    double now = 1;
    for (const double f : faster) {
      now *= f;
    }
    out.mean += step.share * (before - now);
    if (!low_found && now <= 0.95) {
      out.low = step.share;
      low_found = true;
    }
    if (!high_found && now <= 0.05) {
      out.high = step.share;
      high_found = true;
    }
    before = now;
  }
  out.mean += before * steps.back().share;  // probability that is left by rounding
  return out;
}

RouteHash::RouteHash(HashShare share) : draws_(std::make_shared<const Draws>(share)) {}

HashShare RouteHash::share() const {
  if (draws_ == nullptr) {
    return {};
  }
  if (draws_->table == nullptr) {
    return draws_->share;
  }
  std::call_once(draws_->drawn, [&] { draws_->share = draws_->table->share(draws_->levels); });
  return draws_->share;
}

bool RouteHash::operator==(const RouteHash& other) const {
  if (draws_ == other.draws_ ||
      (draws_ != nullptr && other.draws_ != nullptr && draws_->table != nullptr &&
       draws_->table == other.draws_->table && draws_->levels == other.draws_->levels)) {
    return true;
  }
  return share() == other.share();
}

}  // namespace stepcast::cluster
