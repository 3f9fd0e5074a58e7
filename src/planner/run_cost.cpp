#include "stepcast/planner/run_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plan_words.h"
#include "stepcast/base/calendar.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/input/input.h"

namespace stepcast::planner {
namespace {

using result::Estimate;

job::Cluster offered_by(const Offer& offer) {
  return input::network(offer.cluster, 1, {}, offer.name).cluster;
}

// Whether the offer's nodes are made of the GPUs that all nodes of the job have.
bool same_nodes(const job::Cluster& cluster, const job::Cluster& offered) {
  return offered.device.name == cluster.device.name && offered.node.gpus == cluster.node.gpus &&
         std::all_of(
             cluster.overrides.begin(), cluster.overrides.end(),
             [&](const job::DeviceOverride& o) { return o.device.name == cluster.device.name; });
}

const Offer* offer_of(const job::Cluster& cluster, const RunRequest& request) {
  const std::vector<Offer>& all = request.catalogue.offers;
  if (!request.offer.empty()) {
    std::vector<std::string> names;
    for (const Offer& o : all) {
      names.push_back(o.name);
      if (o.name != request.offer) {
        continue;
      }
      if (!same_nodes(cluster, offered_by(o))) {
        throw std::invalid_argument(
            fmt::format("the offer {} has nodes that differ from the job's {} of {} x {}", o.name,
                        cluster.name, cluster.node.gpus, cluster.device.name));
      }
      return &o;
    }
    throw std::invalid_argument(fmt::format("the catalogue {} has no offer '{}'{}",
                                            request.catalogue.name, request.offer,
                                            suggestion(request.offer, names)));
  }
  const Offer* out = nullptr;
  for (const Offer& o : all) {
    const job::Cluster offered = offered_by(o);
    if (same_nodes(cluster, offered)) {
      if (o.cluster == cluster.name || offered.name == cluster.name) {
        return &o;
      }
      out = out == nullptr ? &o : out;
    }
  }
  return out;
}

// The same machines at that price of a GPU-hour, or without one.
Offer rented(const Offer& offer, std::optional<double> price) {
  Offer out;
  out.name = offer.name;
  out.cluster = offer.cluster;
  out.site = offer.site;
  out.host = offer.host;
  out.nodes = offer.nodes;
  if (price) {
    out.rent = Figure{*price, "as given"};
  }
  return out;
}

}  // namespace

std::optional<Rates> rates_of(const job::Job& job, const RunRequest& request) {
  const Offer* found = offer_of(job.cluster, request);
  if (found == nullptr) {
    return std::nullopt;
  }
  const Catalogue& c = request.catalogue;
  return Rates{c.devices.at(job.cluster.device.name), c.hosts.at(found->host),
               c.sites.at(found->site),
               request.price           ? rented(*found, request.price)
               : request.offer.empty() ? rented(*found, {})
                                       : *found};
}

std::optional<result::RunCost> run_cost(const job::Job& job, const result::Report& report,
                                        const RunRequest& request) {
  if (!job.workload.tokens) {
    return std::nullopt;
  }
  const std::optional<Rates> rates = rates_of(job, request);
  const Pace pace = pace_of(job, report, request.operations);
  const auto at = [&](double step, double effective) {
    return bill(rates.value_or(Rates{}), job, job.cluster.nodes, *job.workload.tokens, pace, step,
                effective);
  };
  const Bill b = at(pace.step.value, pace.effective.value);
  const Bill low = at(pace.step.low, pace.effective.high);
  const Bill high = at(pace.step.high, pace.effective.low);

  result::RunCost out;
  out.tokens = *job.workload.tokens;
  out.at_least = report.breakdown.empty();
  out.operations = request.operations != nullptr ? request.operations->name : "";
  out.effective = pace.effective;
  out.days = {b.wall.count() / kDay, low.wall.count() / kDay, high.wall.count() / kDay};
  out.gpu_hours = {b.gpu_hours, low.gpu_hours, high.gpu_hours};
  out.catalogue = request.catalogue.name;
  out.currency = request.catalogue.currency;
  if (request.price && !rates) {
    const double p = *request.price;
    out.expenses.rent = b.gpu_hours * p;
    out.cost = Estimate{out.expenses.rent, low.gpu_hours * p, high.gpu_hours * p};
  }
  if (!rates) {
    out.no_energy = fmt::format("the catalogue {} has no nodes of {} x {}", out.catalogue,
                                job.cluster.node.gpus, job.cluster.device.name);
    return out;
  }
  if (rates->offer.rent || rates->offer.purchase) {
    out.cost = Estimate{b.cost(), low.cost(), high.cost()};
    out.expenses = b.expenses;
    out.capital = b.capital;
  }
  if (out.at_least) {  // a rent follows from the time alone; what is bought draws power as well
    out.no_energy = "a lower bound does not state how long GPUs wait";
    if (rates->offer.purchase) {
      out.cost = std::nullopt;
      out.expenses = {};
      out.capital = 0;
    }
    return out;
  }
  out.offer = rates->offer.name;
  out.busy = pace.busy;
  out.communicating = pace.communicating;
  out.pue = rates->site.pue.value;
  out.energy = Estimate{b.energy, low.energy, high.energy};
  out.average_power = b.average_power;
  out.peak_power = b.peak_power;
  out.figures = figures(*rates, out.currency);
  if (out.cost && rates->site.carbon) {
    out.carbon = Estimate{b.carbon, low.carbon, high.carbon};
  }
  return out;
}

}  // namespace stepcast::planner
