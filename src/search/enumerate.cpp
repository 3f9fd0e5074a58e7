#include "enumerate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "objective.h"

namespace stepcast::search {
namespace {

// So many candidates are kept for the engine; of more, those with the least bounds.
constexpr std::size_t kKept = 1'000'000;

const char* const kInnerKeys[] = {"parallelism.tensor",           "parallelism.pipeline",
                                  "parallelism.virtual_pipeline", "parallelism.data",
                                  "workload.micro_batch",         "parallelism.sequence_parallel",
                                  "parallelism.sharding",         "memory.recompute"};

bool is_inner(const std::string& key) {
  return std::find(std::begin(kInnerKeys), std::end(kInnerKeys), key) != std::end(kInnerKeys);
}

// The inner values with which a family's job can be read at all: first of one rank a model, then
// with stages. Their own values are the candidates'.
std::vector<std::vector<std::string>> probes(const Space& space) {
  const auto values = [&](const char* key) {
    const Dimension* d = space.find(key);
    return d == nullptr ? std::vector<std::string>{""} : d->values;
  };
  std::vector<std::vector<std::string>> out;
  const auto say = [](std::vector<std::string>& to, const char* key, const std::string& value) {
    if (!value.empty()) {
      to.push_back(fmt::format("{}={}", key, value));
    }
  };
  for (const std::string& pipeline : values("parallelism.pipeline")) {
    for (const std::string& chunks : values("parallelism.virtual_pipeline")) {
      for (const std::string& tensor : values("parallelism.tensor")) {
        for (const std::string& micro : values("workload.micro_batch")) {
          std::vector<std::string> one;
          say(one, "parallelism.tensor", tensor);
          say(one, "parallelism.pipeline", pipeline);
          say(one, "parallelism.virtual_pipeline", chunks);
          say(one, "workload.micro_batch", micro);
          out.push_back(std::move(one));
          if (out.size() == 64) {
            return out;
          }
        }
      }
    }
  }
  return out;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Refusals {
 public:
  void add(const Infeasible& why, std::int64_t count) {
    counts_[fmt::format("{}: {}", why.key, why.reason)] += count;
  }
  std::vector<std::pair<std::string, std::int64_t>> sorted() const {
    std::vector<std::pair<std::string, std::int64_t>> out(counts_.begin(), counts_.end());
    std::stable_sort(out.begin(), out.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return out;
  }

 private:
  std::map<std::string, std::int64_t> counts_;
};

// Values of one inner dimension as a job has them: read from a job that says so.
template <class T, class Get>
Choices<T> choices(const Space& space, const char* key, const job::Job& base, const Get& get,
                   const std::function<std::optional<job::Job>(const std::string&)>& with) {
  Choices<T> out{key, {}, {}};
  if (const Dimension* d = space.find(key)) {
    for (const std::string& text : d->values) {
      if (const auto job = with(fmt::format("{}={}", key, text))) {
        out.texts.push_back(text);
        out.values.push_back(get(*job));
      }
    }
  } else {
    out.values.push_back(get(base));
  }
  return out;
}

Choices<int> integers(const Space& space, const char* key, int now) {
  Choices<int> out{key, {}, {}};
  if (const Dimension* d = space.find(key)) {
    for (const std::string& text : d->values) {
      out.texts.push_back(text);
      out.values.push_back(static_cast<int>(text::to_integer(
          text::Value{text::Value::Kind::scalar, d->origin, text, false, {}, {}})));
    }
  } else {
    out.values.push_back(now);
  }
  return out;
}

Inner inner_of(const Space& space, const job::Job& base, const std::vector<std::string>& overrides,
               const JobLoader& loader) {
  const auto with = [&](const std::string& text) -> std::optional<job::Job> {
    auto loaded = loader(joined(overrides, {text}));
    if (auto* job = std::get_if<job::Job>(&loaded)) {
      return std::move(*job);
    }
    return std::nullopt;
  };
  Inner out;
  const job::Parallelism& p = base.parallelism;
  out.tensor = integers(space, "parallelism.tensor", p.tensor);
  out.pipeline = integers(space, "parallelism.pipeline", p.pipeline);
  out.chunks = integers(space, "parallelism.virtual_pipeline", p.virtual_pipeline);
  out.data = integers(space, "parallelism.data", p.data.value_or(0));
  const Choices<int> micro =
      integers(space, "workload.micro_batch", static_cast<int>(base.workload.micro_batch));
  out.micro_batch = {micro.key, micro.texts, {micro.values.begin(), micro.values.end()}};
  out.sequence_parallel = choices<bool>(
      space, "parallelism.sequence_parallel", base,
      [](const job::Job& j) { return j.parallelism.sequence_parallel; }, with);
  out.sharding = choices<job::Sharding>(
      space, "parallelism.sharding", base, [](const job::Job& j) { return j.parallelism.sharding; },
      with);
  out.recompute = choices<job::Recompute>(
      space, "memory.recompute", base, [](const job::Job& j) { return j.memory.recompute; }, with);
  return out;
}

// Walks all inner combinations in order; `visit(index, candidate)`. A data size that is left open
// follows from the others.
template <class Visit>
std::int64_t walk(const Inner& in, int ranks, const Visit& visit) {
  std::uint32_t index = 0;
  bound::Candidate c;
  for (const int tensor : in.tensor.values) {
    c.tensor = tensor;
    for (const int pipeline : in.pipeline.values) {
      c.pipeline = pipeline;
      for (const int data : in.data.values) {
        const int model_ranks = tensor * pipeline;
        c.data = data > 0 ? data : ranks % model_ranks == 0 ? ranks / model_ranks : 0;
        for (const int chunks : in.chunks.values) {
          c.virtual_pipeline = chunks;
          for (const std::int64_t micro_batch : in.micro_batch.values) {
            c.micro_batch = micro_batch;
            for (const bool sequence_parallel : in.sequence_parallel.values) {
              c.sequence_parallel = sequence_parallel;
              for (const job::Sharding sharding : in.sharding.values) {
                c.sharding = sharding;
                for (const job::Recompute& recompute : in.recompute.values) {
                  c.recompute = recompute;
                  visit(index++, c);
                }
              }
            }
          }
        }
      }
    }
  }
  return index;
}

// The texts of the inner combination that `walk` numbers so.
std::vector<std::string> texts_of(const Inner& in, std::uint32_t index) {
  std::vector<std::string> out;
  const auto take = [&](const auto& choices) {
    const auto n = static_cast<std::uint32_t>(choices.values.size());
    if (!choices.texts.empty()) {
      out.push_back(fmt::format("{}={}", choices.key, choices.texts[index % n]));
    }
    index /= n;
  };
  take(in.recompute);
  take(in.sharding);
  take(in.sequence_parallel);
  take(in.micro_batch);
  take(in.chunks);
  take(in.data);
  take(in.pipeline);
  take(in.tensor);
  std::reverse(out.begin(), out.end());
  return out;
}

// Keeps the least bounds.
void trim(Enumerated& e) {
  if (e.items.size() <= kKept) {
    return;
  }
  std::nth_element(e.items.begin(), e.items.begin() + kKept, e.items.end());
  e.complete_below = std::min(e.complete_below, e.items[kKept].bound);
  e.items.resize(kKept);
}

}  // namespace

std::vector<std::string> Enumerated::overrides(const Item& item) const {
  return joined(families[item.family].overrides, texts_of(inner[item.family], item.index));
}

Enumerated enumerate(const Request& request, const JobLoader& loader,
                     forecast::Forecaster& forecaster, double memory_limit) {
  Enumerated out;
  Refusals refusals;
  const Space& space = request.space;
  std::vector<const Dimension*> outer;
  for (const Dimension& d : space.dimensions) {
    if (!is_inner(d.key)) {
      outer.push_back(&d);
    }
  }
  const auto ways = probes(space);
  std::vector<std::size_t> at(outer.size(), 0);
  for (;;) {
    std::vector<std::string> overrides;
    for (std::size_t i = 0; i < outer.size(); ++i) {
      overrides.push_back(fmt::format("{}={}", outer[i]->key, outer[i]->values[at[i]]));
    }
    std::optional<job::Job> base;
    Infeasible why;
    std::vector<std::string> probe;
    for (const auto& way : ways) {
      auto loaded = loader(joined(overrides, way));
      if (auto* job = std::get_if<job::Job>(&loaded)) {
        base = std::move(*job);
        probe = joined(overrides, way);
        break;
      }
      if (why.key.empty()) {
        why = std::get<Infeasible>(loaded);
      }
    }
    std::int64_t combinations = 1;
    for (const Dimension& d : space.dimensions) {
      combinations *= is_inner(d.key) ? static_cast<std::int64_t>(d.values.size()) : 1;
    }
    out.counts.candidates += combinations;
    if (base && per_second(request.objective, base->cluster) <= 0) {
      why = {"objective",
             fmt::format("{} states no power, which energy needs", base->cluster.device.name)};
      base.reset();
    }
    auto bounds = base ? forecaster.bounds(*base)
                       : std::variant<forecast::Forecaster::Bounds, Infeasible>(why);
    if (auto* b = std::get_if<forecast::Forecaster::Bounds>(&bounds)) {
      const auto family = static_cast<std::uint32_t>(out.families.size());
      const int ranks = base->cluster.ranks();
      out.families.push_back({overrides, static_cast<double>(ranks)});
      out.inner.push_back(inner_of(space, *base, probe, loader));
      const auto capacity = static_cast<double>(b->capacity.count());
      out.capacity = std::max(out.capacity, capacity);
      const double rate = per_second(request.objective, base->cluster);
      const int grid_ranks = ranks / std::max(1, base->parallelism.context);
      const std::int64_t walked =
          walk(out.inner.back(), grid_ranks, [&](std::uint32_t index, const bound::Candidate& c) {
            const bound::Result least = c.data > 0 ? b->of.evaluate(c) : bound::Result{};
            if (!least.feasible) {
              ++out.counts.impossible;
              return;
            }
            const auto memory = static_cast<double>(least.memory.count());
            out.least_memory = std::min(out.least_memory, memory);
            if (memory > memory_limit * capacity) {
              ++out.counts.memory_pruned;
              return;
            }
            out.items.push_back({to_seconds(least.step) * rate, memory, family, index});
            if (out.items.size() >= 2 * kKept) {
              trim(out);
            }
          });
      out.counts.impossible += combinations - walked;
    } else {
      out.counts.impossible += combinations;
      refusals.add(std::get<Infeasible>(bounds), combinations);
    }
    std::size_t i = 0;
    while (i < outer.size() && ++at[i] == outer[i]->values.size()) {
      at[i++] = 0;
    }
    if (i == outer.size()) {
      break;
    }
  }
  trim(out);
  std::sort(out.items.begin(), out.items.end());
  out.refusals = refusals.sorted();
  return out;
}

}  // namespace stepcast::search
