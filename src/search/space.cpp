#include "stepcast/search/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "stepcast/base/suggestion.h"
#include "stepcast/config/config.h"
#include "stepcast/model/operators.h"
#include "stepcast/text/map.h"

namespace stepcast::search {
namespace {

using text::Value;

// What the values of a size must divide.
enum class Whole { none, ranks, layers, experts, global_batch };

struct Known {
  std::string_view name;
  std::string_view key;
  Whole whole = Whole::none;
};

// Dimensions that may be written without the name of their section.
constexpr Known kKnown[] = {
    {"tensor", "parallelism.tensor", Whole::ranks},
    {"pipeline", "parallelism.pipeline", Whole::ranks},
    {"virtual_pipeline", "parallelism.virtual_pipeline", Whole::layers},
    {"data", "parallelism.data", Whole::ranks},
    {"context", "parallelism.context", Whole::ranks},
    {"expert", "parallelism.expert", Whole::experts},
    {"expert_tensor", "parallelism.expert_tensor", Whole::ranks},
    {"sequence_parallel", "parallelism.sequence_parallel"},
    {"sharding", "parallelism.sharding"},
    {"shard_size", "parallelism.shard_size", Whole::ranks},
    {"schedule", "parallelism.schedule"},
    {"layers_per_stage", "parallelism.layers_per_stage"},
    {"micro_batch", "workload.micro_batch", Whole::global_batch},
    {"recompute", "memory.recompute"},
    {"offload", "memory.offload"},
    {"order", "cluster.order"},
    {"dispatcher", "moe.dispatcher"},
};

const Known* known(std::string_view name) {
  for (const Known& k : kKnown) {
    if (k.name == name || k.key == name) {
      return &k;
    }
  }
  return nullptr;
}

std::int64_t whole_of(Whole whole, const job::Job& job) {
  switch (whole) {
    case Whole::none:
      return 0;
    case Whole::ranks:
      return job.cluster.ranks();
    case Whole::layers:
      return model::layer_count(job.model);
    case Whole::experts:
      return job.model.moe ? job.model.moe->experts : 1;
    case Whole::global_batch:
      return job.workload.global_batch;
  }
  return 0;
}

// Writes a value as one-line YAML, as it appears after "--set KEY=".
std::string flow(const Value& v) {
  std::string out;
  switch (v.kind) {
    case Value::Kind::null:
      return "null";
    case Value::Kind::scalar:
      return v.quoted ? fmt::format("\"{}\"", v.scalar) : v.scalar;
    case Value::Kind::sequence:
      for (const Value& item : v.items) {
        out += (out.empty() ? "" : ", ") + flow(item);
      }
      return "[" + out + "]";
    case Value::Kind::map:
      for (const auto& entry : v.entries) {
        out += (out.empty() ? "" : ", ") + entry.key + ": " + flow(entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

bool is_rule(const Value& v, std::string_view rule) {
  return (v.kind == Value::Kind::scalar && v.scalar == rule) ||
         (v.kind == Value::Kind::map && v.entries.size() == 1 && v.entries.front().key == rule);
}

std::vector<std::string> divisors(std::int64_t whole, std::int64_t most, bool powers) {
  std::vector<std::string> out;
  for (std::int64_t n = 1; n <= std::min(whole, most); n = powers ? 2 * n : n + 1) {
    if (whole % n == 0) {
      out.push_back(std::to_string(n));
    }
  }
  return out;
}

Dimension read_dimension(const std::string& given, const Origin& origin, const Value& v,
                         const job::Job& job) {
  const std::string name = config::whole_key(given);
  const Known* k = known(name);
  if (k == nullptr && name.find('.') == std::string::npos) {
    std::vector<std::string> names;
    for (const Known& one : kKnown) {
      names.emplace_back(one.name);
    }
    throw InputError(
        {origin, fmt::format("unknown dimension '{}'; expected a key of the job such as "
                             "parallelism.tensor{}",
                             name, suggestion(name, names))});
  }
  Dimension out{k != nullptr ? std::string(k->key) : name, {}, origin};
  const bool powers = is_rule(v, "powers");
  if (powers || is_rule(v, "divisors")) {
    const std::int64_t whole = k != nullptr ? whole_of(k->whole, job) : 0;
    if (whole == 0) {
      throw InputError(
          {v.origin, fmt::format("{} has no divisors; expected a list of values", out.key)});
    }
    const std::int64_t most =
        v.kind == Value::Kind::map ? text::to_integer(v.entries.front().value) : whole;
    out.values = divisors(whole, most, powers);
  } else if (v.kind == Value::Kind::sequence) {
    for (const Value& item : v.items) {
      out.values.push_back(flow(item));
      out.places.push_back(origin.line > 0 ? item.origin : origin);
    }
  } else {
    out.values.push_back(flow(v));
    out.places.push_back(origin.line > 0 ? v.origin : origin);
  }
  if (out.values.empty()) {
    throw InputError({v.origin, fmt::format("{} has no values; expected at least one", out.key)});
  }
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    for (std::size_t n = 0; n < i; ++n) {
      if (out.values[i] == out.values[n]) {
        throw InputError(
            {v.origin, fmt::format("{} is given twice; expected each value once", out.values[i])});
      }
    }
  }
  return out;
}

}  // namespace

bool overlap(std::string_view a, std::string_view b) {
  const auto within = [](std::string_view inner, std::string_view outer) {
    return inner == outer ||
           (inner.starts_with(outer) && inner.size() > outer.size() && inner[outer.size()] == '.');
  };
  return within(a, b) || within(b, a);
}

const Dimension* Space::find(const std::string& key) const {
  const auto at = std::find_if(dimensions.begin(), dimensions.end(),
                               [&](const Dimension& d) { return d.key == key; });
  return at == dimensions.end() ? nullptr : &*at;
}

Space read_space(const Value& document, const job::Job& job) {
  Space out;
  text::Faults faults;
  for (const auto& entry :
       text::expect_map(document, "a space is a map; expected 'tensor: [1, 2, 4, 8]' and so on")
           .entries) {
    faults.guarded([&] {
      Dimension d = read_dimension(entry.key, entry.origin, entry.value, job);
      for (const Dimension& other : out.dimensions) {
        if (overlap(d.key, other.key)) {
          throw InputError({entry.origin, fmt::format("{} and {} set one key; expected one of them",
                                                      d.key, other.key)});
        }
      }
      out.dimensions.push_back(std::move(d));
    });
  }
  faults.done();
  return out;
}

job::Job smallest_job() {
  job::Job out;
  out.cluster.nodes = 1;
  out.cluster.node.gpus = 1;
  out.model.layers = 1;
  out.workload.global_batch = 1;
  return out;
}

void check_values(const Space& space) {
  std::vector<Fault> faults;
  for (const Dimension& d : space.dimensions) {
    for (std::size_t i = 0; i < d.places.size(); ++i) {
      const auto more = config::faults_of_value(d.key, d.values[i], d.places[i]);
      faults.insert(faults.end(), more.begin(), more.end());
    }
  }
  if (!faults.empty()) {
    throw InputError(std::move(faults));
  }
}

void vary(Space& space, const std::string& option, const std::string& text, const job::Job& job) {
  const std::size_t at = text.find('=');
  const Origin origin{fmt::format("{} {}", option, text), 0, 0};
  if (at == std::string::npos || at == 0) {
    throw InputError({origin, "expected KEY=VALUE,VALUE,..."});
  }
  Value list = text::parse_yaml("[" + text.substr(at + 1) + "]", to_string(origin));
  Value v = list.items.size() == 1 &&
                    (is_rule(list.items[0], "powers") || is_rule(list.items[0], "divisors"))
                ? list.items[0]
                : list;
  v.origin = origin;
  Dimension d = read_dimension(text.substr(0, at), origin, v, job);
  std::erase_if(space.dimensions, [&](const Dimension& have) { return overlap(have.key, d.key); });
  space.dimensions.push_back(std::move(d));
}

void fix(Space& space, const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    std::erase_if(space.dimensions, [&](const Dimension& d) { return overlap(d.key, key); });
  }
}

std::int64_t integer_of(const Dimension& dimension, const std::string& value) {
  return text::to_integer({Value::Kind::scalar, dimension.origin, value, false, {}, {}});
}

}  // namespace stepcast::search
