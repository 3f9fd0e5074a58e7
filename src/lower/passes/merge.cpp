#include "merge.h"

#include <utility>

#include "stepcast/base/checked_time.h"

namespace stepcast::lower {

std::size_t Blends::add(const std::map<program::CurveId, Time>& time_by_curve) {
  Time total{0};
  for (const auto& [curve, time] : time_by_curve) {
    total = checked_sum(total, time);
  }
  std::vector<std::pair<program::CurveId, double>> parts;
  parts.reserve(time_by_curve.size());
  for (const auto& [curve, time] : time_by_curve) {
    parts.emplace_back(curve, total > Time{0} ? static_cast<double>(time.count()) /
                                                    static_cast<double>(total.count())
                                              : 1.0 / static_cast<double>(time_by_curve.size()));
  }
  for (std::size_t i = 0; i < blends_.size(); ++i) {
    if (blends_[i] == parts) {
      return i;
    }
  }
  blends_.push_back(std::move(parts));
  return blends_.size() - 1;
}

std::vector<Item> merge(const std::vector<Item>& items, Time launch, Blends& blends) {
  std::vector<Item> out;
  std::map<program::CurveId, Time> shares;
  auto close = [&] {
    if (shares.size() > 1) {
      out.back().curve = blends.in_tasks(blends.add(shares));
    }
    shares.clear();
  };
  for (const Item& item : items) {
    const bool follows = item.kind == Item::Kind::kernel && !out.empty() &&
                         out.back().kind == Item::Kind::kernel &&
                         out.back().category == item.category &&
                         out.back().slowdown == item.slowdown && out.back().weight == item.weight;
    if (follows && (out.back().more + item.kernels) * launch <= out.back().duration) {
      out.back().duration = checked_sum(out.back().duration, item.duration);
      out.back().more = static_cast<std::uint16_t>(out.back().more + item.kernels);
    } else {
      close();
      out.push_back(item);
    }
    if (item.kind == Item::Kind::kernel) {
      shares[item.curve] += item.duration;
    }
  }
  close();
  return out;
}

}  // namespace stepcast::lower
