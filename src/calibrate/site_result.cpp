#include "site_result.h"

#include <algorithm>
#include <cmath>

#include "stepcast/base/statistics.h"

namespace stepcast::calibrate {

using result::SiteCalibration;

result::SiteError error_of(const std::vector<double>& forecast_over_measured) {
  std::vector<double> absolute, relative;
  for (const double q : forecast_over_measured) {
    relative.push_back(q - 1);
    absolute.push_back(std::abs(q - 1));
  }
  return {median(absolute),
          absolute.empty() ? 0 : *std::max_element(absolute.begin(), absolute.end()),
          median(relative)};
}

cost::Site site_at(const SiteCalibration& out, const Priors& priors, const Vector& x,
                   const std::vector<bool>* only) {
  cost::Site site;
  site.name = out.name;
  site.devices = {out.device};
  site.system = out.system;
  site.fabric = out.fabric;
  for (std::size_t i = 0; i < kParameters.size(); ++i) {
    cost::SiteValue& v = site[kParameters[i]];
    v.prior = priors.value(kParameters[i], 0);
    const bool moves = only == nullptr ? x[static_cast<Eigen::Index>(i)] != 0 : (*only)[i];
    v.value = moves ? priors.value(kParameters[i], x[static_cast<Eigen::Index>(i)]) : v.prior;
    v.determined = moves;
  }
  return site;
}

void fill_deviations(const Selected& selected, const Priors& priors, cost::Site& site) {
  const auto& kept = selected.known;
  for (std::size_t a = 0; a < kept.size(); ++a) {
    const auto ia = static_cast<std::size_t>(kept[a]);
    const auto index = static_cast<Eigen::Index>(a);
    const double deviation = std::sqrt(selected.covariance(index, index));
    site.values[ia].deviation = deviation * priors.deviation(kParameters[ia]);
    for (std::size_t b = 0; b < kept.size(); ++b) {
      const auto other = static_cast<Eigen::Index>(b);
      site.correlation[ia][static_cast<std::size_t>(kept[b])] =
          selected.covariance(index, other) /
          (deviation * std::sqrt(selected.covariance(other, other)));
    }
  }
}

void fill_parameters(const Selected& selected, const Priors& priors, cost::Site& site,
                     SiteCalibration& out) {
  for (std::size_t i = 0; i < kParameters.size(); ++i) {
    cost::SiteValue& v = site.values[i];
    v.reason = selected.reasons[i];
    out.parameters.push_back(
        {to_string(kParameters[i]), describe(kParameters[i]), Priors::in_seconds(kParameters[i]),
         v.prior, v.value, priors.deviation(kParameters[i]), v.deviation, v.determined, v.reason});
  }
}

}  // namespace stepcast::calibrate
