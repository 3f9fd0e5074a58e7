// Numbers the combinations of a family's inner dimensions and turns numbers into texts and back.
#include <fmt/format.h>

#include <algorithm>

#include "families.h"

namespace stepcast::search {

using Texts = std::vector<std::string>;

std::vector<Free> Inner::free() const {
  std::vector<Free> out;
  for (std::size_t i = 0; i < offload.values.size(); ++i) {
    for (const char reduce : grad_reduce.values) {
      for (const char gather : param_gather.values) {
        for (const char stages : pipeline_overlap.values) {
          out.push_back({i, reduce != 0, gather != 0, stages != 0});
        }
      }
    }
  }
  return out;
}

void Inner::take(const Free& free, bound::Candidate& c) const {
  c.offload = &offload.values[free.offload];
  c.grad_reduce = free.grad_reduce;
  c.param_gather = free.param_gather;
  c.pipeline_overlap = free.pipeline_overlap;
}

std::int64_t Inner::layouts() const {
  std::int64_t out = 1;
  const auto times = [&](const auto& choices) {
    out *= static_cast<std::int64_t>(choices.values.size());
  };
  times(tensor), times(context), times(expert_tensor), times(micro_batch), times(recompute);
  times(sequence_parallel), times(tensor_overlap), times(pipeline), times(data), times(chunks);
  times(sharding);
  return out;
}

bound::Candidate Inner::candidate(std::uint64_t layout, int ranks) const {
  bound::Candidate c;
  const auto take = [&](const auto& choices) -> const auto& {
    const auto n = static_cast<std::uint64_t>(choices.values.size());
    const auto& value = choices.values[layout % n];
    layout /= n;
    return value;
  };
  c.sharding = take(sharding);
  c.virtual_pipeline = take(chunks);
  const int stated = take(data);
  c.pipeline = take(pipeline);
  c.tensor_overlap = take(tensor_overlap);
  c.sequence_parallel = take(sequence_parallel) != 0;
  c.recompute = take(recompute);
  c.micro_batch = take(micro_batch);
  c.expert_tensor = take(expert_tensor);
  c.context = take(context);
  c.tensor = take(tensor);
  c.data = data_size(stated, ranks, c.tensor * c.context * c.pipeline);
  return c;
}

std::uint64_t Inner::first_layout(std::uint64_t layout, const bound::Candidate& c) const {
  if (c.tensor > 1) {
    return layout;
  }
  // The digits of what one tensor rank does not do, as candidate() reads them.
  std::uint64_t place =
      sharding.values.size() * chunks.values.size() * data.values.size() * pipeline.values.size();
  const auto clear = [&](const auto& choices) {
    const auto n = static_cast<std::uint64_t>(choices.values.size());
    layout -= layout / place % n * place;
    place *= n;
  };
  clear(tensor_overlap), clear(sequence_parallel);
  return layout;
}

std::size_t Inner::first_free(std::size_t n, const bound::Candidate& c) const {
  return c.pipeline == 1 ? n - n % pipeline_overlap.values.size() : n;
}

Texts Inner::texts(std::uint64_t index) const {
  Texts out;
  const auto take = [&](const auto& choices) {
    const auto n = static_cast<std::uint64_t>(choices.values.size());
    if (!choices.texts.empty()) {
      out.push_back(fmt::format("{}={}", choices.key, choices.texts[index % n]));
    }
    index /= n;
  };
  take(pipeline_overlap), take(param_gather), take(grad_reduce), take(offload);
  take(sharding), take(chunks), take(data), take(pipeline), take(tensor_overlap);
  take(sequence_parallel), take(recompute), take(micro_batch), take(expert_tensor), take(context);
  take(tensor);
  std::reverse(out.begin(), out.end());
  return out;
}

std::optional<std::uint64_t> Inner::index_of(const Texts& texts) const {
  std::uint64_t index = 0;
  bool found = true;
  const auto put = [&](const auto& choices) {
    std::size_t at = 0;
    if (!choices.texts.empty()) {
      const auto named = [&](const std::string& value) {
        return std::find(texts.begin(), texts.end(), choices.key + "=" + value) != texts.end();
      };
      const auto value = std::find_if(choices.texts.begin(), choices.texts.end(), named);
      found = found && value != choices.texts.end();
      at = static_cast<std::size_t>(value - choices.texts.begin());
    }
    index = index * choices.values.size() + at;
  };
  put(tensor), put(context), put(expert_tensor), put(micro_batch), put(recompute);
  put(sequence_parallel), put(tensor_overlap), put(pipeline), put(data), put(chunks);
  put(sharding), put(offload), put(grad_reduce), put(param_gather), put(pipeline_overlap);
  return found ? std::optional(index) : std::nullopt;
}

bool Inner::same_choices(const Inner& other) const {
  const auto same = [&]<class T>(const Choices<T> Inner::*choices) {
    const Choices<T>& a = this->*choices;
    const Choices<T>& b = other.*choices;
    if constexpr (requires(const T& value) { value == value; }) {
      return a.texts == b.texts && a.values == b.values;
    } else {  // values that follow from texts, or else from the job
      return a.texts == b.texts && a.values.size() == b.values.size();
    }
  };
  return same(&Inner::tensor) && same(&Inner::pipeline) && same(&Inner::chunks) &&
         same(&Inner::data) && same(&Inner::context) && same(&Inner::expert_tensor) &&
         same(&Inner::micro_batch) && same(&Inner::sequence_parallel) && same(&Inner::sharding) &&
         same(&Inner::recompute) && same(&Inner::tensor_overlap) && same(&Inner::offload) &&
         same(&Inner::grad_reduce) && same(&Inner::param_gather) && same(&Inner::pipeline_overlap);
}

Texts overrides_of(const Family& family, std::uint64_t index) {
  Texts out = family.overrides;
  const Texts inner = family.inner.texts(index);
  out.insert(out.end(), inner.begin(), inner.end());
  const auto place = [&](const std::string& text) {
    return std::find(family.keys.begin(), family.keys.end(), text.substr(0, text.find('=')));
  };
  std::sort(out.begin(), out.end(),
            [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  return out;
}

}  // namespace stepcast::search
