#include "stated.h"

#include <fmt/format.h>

#include <algorithm>

#include "alike.h"
#include "stepcast/config/config.h"
#include "stepcast/text/document.h"

namespace stepcast::search {
namespace {

// Returns the scalar under a dotted key, or nullptr if there is none.
const text::Value* scalar_at(const text::Value& document, const std::string& key) {
  const text::Value* at = &document;
  for (std::size_t from = 0; at != nullptr && from <= key.size();) {
    const std::size_t to = std::min(key.find('.', from), key.size());
    at = at->find(key.substr(from, to - from));
    from = to + 1;
  }
  return at != nullptr && at->kind == text::Value::Kind::scalar ? at : nullptr;
}

}  // namespace

std::optional<std::vector<std::string>> stated_combination(const Space& space,
                                                           const JobLoader& loader) {
  const auto json_with = [&](const std::vector<std::string>& overrides) -> std::string {
    const auto loaded = loader(overrides);
    const auto* job = std::get_if<job::Job>(&loaded);
    return job != nullptr ? config::to_json(*job) : "";
  };
  const std::string stated = json_with({});
  if (stated.empty()) {
    return std::nullopt;
  }
  const text::Value document = text::parse_json(stated, "the job as given");
  std::vector<std::string> out;
  for (const Dimension& d : space.dimensions) {
    const text::Value* now = scalar_at(document, d.key);
    const auto is_it = [&](const std::string& value) {
      const bool plain = now != nullptr && !value.starts_with('{') && !value.starts_with('[');
      return plain ? value == now->scalar
                   : json_with({fmt::format("{}={}", d.key, value)}) == stated;
    };
    const auto value = std::find_if(d.values.begin(), d.values.end(), is_it);
    if (value == d.values.end()) {
      return std::nullopt;
    }
    out.push_back(fmt::format("{}={}", d.key, *value));
  }
  return json_with(out) == stated ? std::optional(out) : std::nullopt;
}

std::optional<std::size_t> place_of(Enumerated& all, const std::vector<std::string>& combination) {
  for (std::size_t f = 0; f < all.families.size(); ++f) {
    const Family& family = all.families[f];
    const bool ours =
        std::all_of(family.overrides.begin(), family.overrides.end(), [&](const std::string& text) {
          return std::find(combination.begin(), combination.end(), text) != combination.end();
        });
    const auto index = ours ? family.inner.index_of(combination) : std::nullopt;
    if (!index) {
      continue;
    }
    const std::uint64_t frees = family.inner.free().size();
    const bound::Candidate c =
        family.inner.candidate(*index / frees, static_cast<int>(family.gpus));
    const std::uint64_t first = family.inner.first_layout(*index / frees, c) * frees +
                                family.inner.first_free(*index % frees, c);
    const std::uint32_t alike = first_alike(family, all.bounds[f].of, c, all.bounds)
                                    .value_or(static_cast<std::uint32_t>(f));
    const auto at = std::find_if(all.items.begin(), all.items.end(), [&](const Item& item) {
      return item.family == alike && item.index == first;
    });
    return at == all.items.end() ? std::nullopt
                                 : std::optional(static_cast<std::size_t>(at - all.items.begin()));
  }
  return std::nullopt;
}

}  // namespace stepcast::search
