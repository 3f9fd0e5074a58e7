#include "dimensions.h"

#include <fmt/format.h>

#include <algorithm>

#include "stepcast/config/config.h"
#include "stepcast/text/document.h"

namespace stepcast::search {
namespace {

using Texts = std::vector<std::string>;
using text::Value;

// Sizes that have further settings ("{size: 2, kind: a2a}") or follow a rule ("auto") make families
// instead.
bool is_size(const std::string& key) {
  return key == "parallelism.tensor" || key == "parallelism.pipeline" ||
         key == "parallelism.virtual_pipeline" || key == "parallelism.data" ||
         key == "parallelism.context" || key == "parallelism.expert_tensor" ||
         key == "workload.micro_batch";
}

}  // namespace

const std::vector<std::string>& inner_keys() {
  static const std::vector<std::string> keys = {"parallelism.tensor",
                                                "parallelism.pipeline",
                                                "parallelism.virtual_pipeline",
                                                "parallelism.data",
                                                "parallelism.context",
                                                "parallelism.expert_tensor",
                                                "workload.micro_batch",
                                                "parallelism.sequence_parallel",
                                                "parallelism.sharding",
                                                "memory.recompute",
                                                "parallelism.overlap.tensor",
                                                "memory.offload",
                                                "parallelism.overlap.grad_reduce",
                                                "parallelism.overlap.param_gather",
                                                "parallelism.overlap.pipeline"};
  return keys;
}

bool is_inner(const Dimension& d) {
  const auto number = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const auto& keys = inner_keys();
  return !d.followed && std::find(keys.begin(), keys.end(), d.key) != keys.end() &&
         (!is_size(d.key) || std::all_of(d.values.begin(), d.values.end(), number));
}

const Dimension* find_inner(const Space& space, const std::string& key) {
  const Dimension* d = space.find(key);
  return d != nullptr && is_inner(*d) ? d : nullptr;
}

std::vector<Texts> probes(const Space& space) {
  constexpr std::size_t kMaxProbes = 64;
  std::vector<Texts> out = {{}};
  for (const char* key : {"parallelism.pipeline", "parallelism.virtual_pipeline",
                          "parallelism.tensor", "workload.micro_batch", "parallelism.context"}) {
    const Dimension* d = find_inner(space, key);
    if (d == nullptr) {
      continue;
    }
    std::vector<Texts> more;
    for (const Texts& one : out) {
      for (const std::string& value : d->values) {
        if (more.size() < kMaxProbes) {
          more.push_back(one);
          more.back().push_back(fmt::format("{}={}", key, value));
        }
      }
    }
    out = std::move(more);
  }
  return out;
}

namespace {

// Whether two documents differ outside `key`.
bool documents_differ(const Value& a, const Value& b, const std::string& path,
                      const std::string& key) {
  if (path == key) {
    return false;
  }
  if (a.kind != b.kind || a.scalar != b.scalar || a.items.size() != b.items.size() ||
      a.entries.size() != b.entries.size()) {
    return true;
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (documents_differ(a.items[i], b.items[i], path + "[]", key)) {
      return true;
    }
  }
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    const std::string& name = a.entries[i].key;
    if (name != b.entries[i].key ||
        documents_differ(a.entries[i].value, b.entries[i].value,
                         path.empty() ? name : path + "." + name, key)) {
      return true;
    }
  }
  return false;
}

// Loads jobs of one family with the probe that worked last, or, until one has, with the first that
// works.
class Probing {
 public:
  Probing(const JobLoader& loader, const std::vector<Texts>& ways, Texts outer)
      : loader_(loader), ways_(ways), outer_(std::move(outer)) {}

  std::optional<job::Job> with(const std::string& text) {
    for (std::size_t n = works_.value_or(0); n < (works_ ? *works_ + 1 : ways_.size()); ++n) {
      Texts overrides = outer_;
      overrides.insert(overrides.end(), ways_[n].begin(), ways_[n].end());
      overrides.push_back(text);
      auto job = loader_(overrides);
      if (auto* found = std::get_if<job::Job>(&job)) {
        works_ = n;
        return std::move(*found);
      }
    }
    return std::nullopt;
  }

 private:
  const JobLoader& loader_;
  const std::vector<Texts>& ways_;
  Texts outer_;
  std::optional<std::size_t> works_;
};

// Whether other keys differ where a dimension's value does.
bool followed(const Dimension& d, Probing& jobs) {
  std::optional<job::Job> first;
  for (const std::string& value : d.values) {
    auto job = jobs.with(fmt::format("{}={}", d.key, value));
    if (job && first && differ_beside(*first, *job, d.key)) {
      return true;
    }
    if (!first) {
      first = std::move(job);
    }
  }
  return false;
}

}  // namespace

bool differ_beside(const job::Job& a, const job::Job& b, const std::string& key) {
  const auto document = [](const job::Job& job) {
    return text::parse_json(config::to_json(job), "a job of the space");
  };
  return documents_differ(document(a), document(b), "", key);
}

const std::vector<std::string>& leading_keys() {
  static const std::vector<std::string> keys = {"parallelism.sharding", "parallelism.pipeline",
                                                "parallelism.sequence_parallel"};
  return keys;
}

Space followed_space(const Space& space, const JobLoader& loader) {
  Space out = space;
  const auto ways = probes(space);
  // Each training system has defaults of its own; otherwise the first family stands for all.
  std::vector<Texts> outers = {{}};
  for (const Dimension& d : space.dimensions) {
    if (is_inner(d) || d.values.empty()) {
      continue;
    }
    const bool each = d.key.starts_with("system");
    std::vector<Texts> more;
    for (const Texts& one : outers) {
      for (std::size_t n = 0; n < (each ? d.values.size() : 1); ++n) {
        more.push_back(one);
        more.back().push_back(fmt::format("{}={}", d.key, d.values[n]));
      }
    }
    outers = std::move(more);
  }
  std::vector<Probing> jobs;
  for (Texts& outer : outers) {
    jobs.emplace_back(loader, ways, std::move(outer));
  }
  for (Dimension& d : out.dimensions) {
    const auto& keys = leading_keys();
    const bool leads = std::find(keys.begin(), keys.end(), d.key) != keys.end();
    d.followed =
        leads && is_inner(d) && d.values.size() > 1 &&
        std::any_of(jobs.begin(), jobs.end(), [&](Probing& of) { return followed(d, of); });
  }
  return out;
}

}  // namespace stepcast::search
