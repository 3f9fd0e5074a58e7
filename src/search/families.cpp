#include "families.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dimensions.h"
#include "stepcast/search/objective.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::search {
namespace {

using Texts = std::vector<std::string>;

Texts joined(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Loads the jobs of one family with the first probe that works.
class Reader {
 public:
  Reader(const Space& space, const JobLoader& loader, const std::vector<Texts>& ways, Texts outer)
      : space_(space), loader_(loader), ways_(ways), outer_(std::move(outer)) {}

  std::optional<job::Job> job(const Texts& more, Infeasible* why = nullptr) {
    for (std::size_t n = 0; n < ways_.size(); ++n) {  // the probe that worked last comes first
      const std::size_t way = n == 0 ? last_ : n <= last_ ? n - 1 : n;
      auto loaded = loader_(joined(joined(outer_, ways_[way]), more));
      if (auto* job = std::get_if<job::Job>(&loaded)) {
        last_ = way;
        return std::move(*job);
      }
      if (why != nullptr && why->key.empty()) {
        *why = std::get<Infeasible>(loaded);
      }
    }
    return std::nullopt;
  }

  // Some values need a certain sharding (offloaded parameters need ZeRO-3). If the text alone is
  // refused, it is tried with each sharding of the space.
  std::optional<job::Job> job_with(const std::string& text) {
    auto out = job({text});
    const Dimension* sharding = find_inner(space_, "parallelism.sharding");
    for (std::size_t n = 0; !out && sharding != nullptr && n < sharding->values.size(); ++n) {
      const Texts both = {fmt::format("{}={}", sharding->key, sharding->values[n]), text};
      auto loaded = loader_(joined(joined(outer_, ways_[last_]), both));
      if (auto* found = std::get_if<job::Job>(&loaded)) {
        out = std::move(*found);
      }
    }
    return out;
  }

  template <class T, class Get>
  Choices<T> choices(const char* key, const job::Job& base, const Get& get) {
    Choices<T> out{key, {}, {}};
    if (const Dimension* d = find_inner(space_, key)) {
      for (const std::string& text : d->values) {
        if (const auto with = job_with(fmt::format("{}={}", key, text))) {
          out.texts.push_back(text);
          out.values.push_back(static_cast<T>(get(*with)));
        }
      }
    } else {
      out.values.push_back(static_cast<T>(get(base)));
    }
    return out;
  }

  // Leaves out sizes that the system accepts in no job (with "context" in its rules, as opposed to
  // "context+zero2"). If all are refused they are kept, so that a plan states the reason.
  Choices<int> sizes(const char* key, const job::Job& base, int job::Parallelism::*size) const {
    const Choices<int> all = integers<int>(key, base.parallelism.*size);
    Choices<int> out{key, {}, {}};
    job::Job job = base;
    for (std::size_t i = 0; i < all.values.size(); ++i) {
      job.parallelism.*size = all.values[i];
      const auto asked = strategy::features(job);
      const bool never = std::any_of(asked.begin(), asked.end(), [&](const auto& feature) {
        return feature.key == key &&
               std::any_of(job.system.cannot.begin(), job.system.cannot.end(),
                           [&](const auto& rule) { return rule.first == feature.name; });
      });
      if (!never) {
        out.values.push_back(all.values[i]);
        if (i < all.texts.size()) {
          out.texts.push_back(all.texts[i]);
        }
      }
    }
    return out.values.empty() ? all : out;
  }

  template <class T>
  Choices<T> integers(const char* key, std::int64_t now) const {
    Choices<T> out{key, {}, {}};
    if (const Dimension* d = find_inner(space_, key)) {
      for (const std::string& text : d->values) {
        out.texts.push_back(text);
        out.values.push_back(static_cast<T>(integer_of(*d, text)));
      }
    } else {
      out.values.push_back(static_cast<T>(now));
    }
    return out;
  }

  // 0: the experts are sharded like the dense layers, unless the job says otherwise.
  int expert_tensor(const job::Job& base) {
    const job::Parallelism& p = base.parallelism;
    const Dimension* d = find_inner(space_, "parallelism.tensor");
    if (!base.model.moe || d == nullptr || p.expert_tensor != p.tensor) {
      return p.expert_tensor;
    }
    for (const std::string& text : d->values) {
      const auto other = job({fmt::format("parallelism.tensor={}", text)});
      if (other && other->parallelism.tensor != p.tensor) {
        return other->parallelism.expert_tensor == other->parallelism.tensor ? 0 : p.expert_tensor;
      }
    }
    return p.expert_tensor;
  }

  Inner inner(const job::Job& base) {
    const job::Parallelism& p = base.parallelism;
    Inner out;
    out.tensor = sizes("parallelism.tensor", base, &job::Parallelism::tensor);
    out.pipeline = sizes("parallelism.pipeline", base, &job::Parallelism::pipeline);
    out.chunks = sizes("parallelism.virtual_pipeline", base, &job::Parallelism::virtual_pipeline);
    out.data = integers<int>("parallelism.data", p.data.value_or(0));
    out.context = sizes("parallelism.context", base, &job::Parallelism::context);
    out.micro_batch = integers<std::int64_t>("workload.micro_batch", base.workload.micro_batch);
    out.expert_tensor = integers<int>("parallelism.expert_tensor", expert_tensor(base));
    out.sequence_parallel =
        choices<char>("parallelism.sequence_parallel", base,
                      [](const job::Job& j) { return j.parallelism.sequence_parallel; });
    out.sharding = choices<job::Sharding>("parallelism.sharding", base,
                                          [](const job::Job& j) { return j.parallelism.sharding; });
    out.recompute = choices<job::Recompute>("memory.recompute", base,
                                            [](const job::Job& j) { return j.memory.recompute; });
    out.tensor_overlap =
        choices<job::TensorOverlap>("parallelism.overlap.tensor", base,
                                    [](const job::Job& j) { return j.parallelism.overlap.tensor; });
    out.offload = choices<job::Offload>("memory.offload", base,
                                        [](const job::Job& j) { return j.memory.offload; });
    out.grad_reduce = choices<char>("parallelism.overlap.grad_reduce", base, [](const job::Job& j) {
      return j.parallelism.overlap.grad_reduce;
    });
    out.param_gather =
        choices<char>("parallelism.overlap.param_gather", base,
                      [](const job::Job& j) { return j.parallelism.overlap.param_gather; });
    out.pipeline_overlap =
        choices<char>("parallelism.overlap.pipeline", base,
                      [](const job::Job& j) { return j.parallelism.overlap.pipeline; });
    return out;
  }

 private:
  const Space& space_;
  const JobLoader& loader_;
  const std::vector<Texts>& ways_;
  Texts outer_;
  std::size_t last_ = 0;
};

}  // namespace

void Refusals::add(const Infeasible& why, std::int64_t count) {
  const std::string text = fmt::format("{}: {}", why.key, why.reason);
  const auto at = std::find_if(counts_.begin(), counts_.end(),
                               [&](const auto& one) { return one.first == text; });
  if (at == counts_.end()) {
    counts_.emplace_back(text, count);
  } else {
    at->second += count;
  }
}

std::vector<std::pair<std::string, std::int64_t>> Refusals::sorted() const {
  Refusals all = *this;
  for (const Whole& family : all.take_whole()) {
    all.add(family.why, family.combinations);
  }
  auto out = std::move(all.counts_);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return out;
}

void say_why(const Family& family, bound::Bound& bound, std::int64_t& asked, Refusals& refusals) {
  constexpr std::int64_t kMaxCandidates = 10'000;
  each_layout(family.inner, static_cast<int>(family.gpus),
              [&](std::uint64_t, const bound::Candidate& c) {
                if (asked < kMaxCandidates) {
                  ++asked;
                  if (const auto why = bound.refine(c).refused) {
                    refusals.add(*why, 1);
                  }
                }
              });
}

namespace {

// Numbers below `count` in an order in which any first ones are spread over all of them, whatever
// product of small sizes `count` is.
class Spread {
 public:
  explicit Spread(std::int64_t count)
      : count_(count), step_(std::max<std::int64_t>(1, count * 5 / 8)) {
    while (std::gcd(step_, count_) != 1) {
      ++step_;
    }
  }
  std::int64_t next() {
    at_ = (at_ + step_) % count_;
    return at_;
  }

 private:
  std::int64_t count_, step_, at_ = 0;
};

// The values of the inner dimensions of the combination that has this number.
Texts inner_texts(const Space& space, std::int64_t number) {
  Texts out;
  for (const Dimension& d : space.dimensions) {
    if (is_inner(d)) {
      const auto values = static_cast<std::int64_t>(d.values.size());
      out.push_back(
          fmt::format("{}={}", d.key, d.values[static_cast<std::size_t>(number % values)]));
      number /= values;
    }
  }
  return out;
}

std::vector<Infeasible> reasons_of(const Request& request, const JobLoader& loader,
                                   const Texts& overrides) {
  if (request.reasons) {
    return request.reasons(overrides);
  }
  const auto loaded = loader(overrides);
  const auto* why = std::get_if<Infeasible>(&loaded);
  return why == nullptr ? std::vector<Infeasible>{} : std::vector<Infeasible>{*why};
}

}  // namespace

void ask_whole(const Request& request, const JobLoader& loader, Refusals& refusals,
               result::SearchCounts& counts) {
  constexpr std::int64_t kMaxLoads = 2000;
  const std::vector<Refusals::Whole> families = refusals.take_whole();
  const std::int64_t each =
      families.empty()
          ? 0
          : std::max<std::int64_t>(1, kMaxLoads / static_cast<std::int64_t>(families.size()));
  for (const Refusals::Whole& family : families) {
    Spread numbers(family.combinations);
    bool said = false;
    for (std::int64_t n = 0; n < std::min(each, family.combinations); ++n) {
      ++counts.asked;
      for (const Infeasible& why :
           reasons_of(request, loader,
                      joined(family.overrides, inner_texts(request.space, numbers.next())))) {
        refusals.add(why, 1);
        said = true;
      }
    }
    if (!said) {  // the job loads, and the forecast refuses it
      refusals.add(family.why, std::min(each, family.combinations));
    }
  }
}

void each_family(const Request& request, const JobLoader& loader, forecast::Forecaster& forecaster,
                 result::SearchCounts& counts, Refusals& refusals,
                 const std::function<void(Family&&, forecast::Forecaster::Bounds&&)>& visit,
                 const Stop* stop) {
  const Space& space = request.space;
  std::vector<const Dimension*> outer;
  std::int64_t combinations = 1;
  for (const Dimension& d : space.dimensions) {
    if (is_inner(d)) {
      combinations *= static_cast<std::int64_t>(d.values.size());
    } else {
      outer.push_back(&d);
    }
  }
  const auto ways = probes(space);
  const auto visit_family = [&](Family family) {
    Infeasible why;
    Reader reader(space, loader, ways, family.overrides);
    std::optional<job::Job> base = reader.job({}, &why);
    if (base && per_second(request.objective, base->cluster) <= 0) {
      why = {"objective",
             fmt::format("{} states no power, which energy needs", base->cluster.device.name)};
      base.reset();
    }
    auto bounds = base ? forecaster.bounds(*base)
                       : std::variant<forecast::Forecaster::Bounds, Infeasible>(why);
    if (auto* b = std::get_if<forecast::Forecaster::Bounds>(&bounds)) {
      family.inner = reader.inner(*base);
      family.gpus = base->cluster.ranks();
      family.rate = per_second(request.objective, base->cluster);
      family.capacity = static_cast<double>(b->capacity.count());
      counts.impossible += combinations - family.inner.layouts() *
                                              static_cast<std::int64_t>(family.inner.free().size());
      visit(std::move(family), std::move(*b));
    } else {
      counts.impossible += combinations;
      refusals.add({std::move(family.overrides), std::get<Infeasible>(bounds), combinations});
    }
  };
  std::vector<std::size_t> at(outer.size(), 0);
  for (;;) {
    Family family;
    for (const Dimension& d : space.dimensions) {
      family.keys.push_back(d.key);
    }
    for (std::size_t i = 0; i < outer.size(); ++i) {
      family.overrides.push_back(fmt::format("{}={}", outer[i]->key, outer[i]->values[at[i]]));
    }
    counts.candidates += combinations;
    if (stop == nullptr || !stop->asked()) {
      visit_family(std::move(family));
    }
    std::size_t i = 0;
    while (i < outer.size() && ++at[i] == outer[i]->values.size()) {
      at[i++] = 0;
    }
    if (i == outer.size()) {
      break;
    }
  }
}

}  // namespace stepcast::search
