#include "draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sizes.h"
#include "stepcast/input/input.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Value* entry_of(Value& map, std::string_view key) {
  for (auto& entry : map.entries) {
    if (entry.key == key) {
      return &entry.value;
    }
  }
  return nullptr;
}

// Sets "a.b.c" in nested maps, which are created where they are missing.
void put(Value& root, std::string_view path, Value value) {
  Value* at = &root;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    Value* next = entry_of(*at, key);
    if (next == nullptr) {
      Value map;
      map.kind = Value::Kind::map;
      map.origin = value.origin;
      at->entries.push_back({key, value.origin, std::move(map)});
      next = &at->entries.back().value;
    }
    if (dot == std::string_view::npos) {
      *next = std::move(value);
      return;
    }
    if (next->kind != Value::Kind::map) {
      // A plain name or size becomes {name: ...} when another option adds a key.
      Value named;
      named.kind = Value::Kind::map;
      named.origin = next->origin;
      if (next->kind == Value::Kind::scalar) {
        const char* first = key == "context" ? "size" : key == "schedule" ? "name" : "use";
        named.entries.push_back({first, next->origin, *next});
      }
      *next = std::move(named);
    }
    at = next;
    path.remove_prefix(dot + 1);
  }
}

const Value* get(const Value& root, std::string_view path) {
  const Value* at = &root;
  while (true) {
    const std::size_t dot = path.find('.');
    at = at->find(path.substr(0, dot));
    if (at == nullptr || dot == std::string_view::npos) {
      return at;
    }
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

Value scalar(std::string_view text, const Origin& where, bool quoted) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.scalar = text;
  v.quoted = quoted;
  v.origin = where;
  return v;
}

Value word_list(const std::vector<std::string>& words, const Origin& where) {
  Value list;
  list.kind = Value::Kind::sequence;
  list.origin = where;
  for (const std::string& word : words) {
    list.items.push_back(scalar(word, where));
  }
  return list;
}

Draft::Draft(const LaunchRequest& request, std::vector<Setting> settings)
    : request_(request), settings_(std::move(settings)) {
  job_.kind = Value::Kind::map;
  for (const std::string& option : request.overrides) {
    const std::size_t equals = option.find('=');
    if (equals != std::string::npos) {
      const Origin where{"--set " + option, 0, 0};
      overrides_[option.substr(0, equals)] = scalar(option.substr(equals + 1), where);
    }
  }
}

const Setting* Draft::present(std::string_view name) const {
  const auto found = std::find_if(settings_.rbegin(), settings_.rend(),
                                  [&](const Setting& s) { return s.name == name; });
  return found == settings_.rend() ? nullptr : &*found;
}

const Setting* Draft::find(std::string_view name) const {
  const Setting* s = present(name);
  const bool valueless = s != nullptr && (!s->open.empty() || says_nothing(*s));
  return valueless ? nullptr : s;
}

const Setting* Draft::first(const std::vector<std::string_view>& names) const {
  for (const auto name : names) {
    if (const Setting* s = find(name)) {
      return s;
    }
  }
  return nullptr;
}

bool is_true(const Setting& setting) {
  const std::string word = lower(plain_text(setting.value));
  return (word.empty() ? setting.value.kind == Value::Kind::null || !setting.open.empty() : true) &&
         word != "null" && word != "false" && word != "0" && word != "no" && word != "off" &&
         word != "none";
}

bool Draft::on(std::string_view name) const {
  const Setting* s = present(name);
  return s != nullptr && is_true(*s);
}

std::string Draft::word(std::string_view name) const {
  const Setting* s = find(name);
  return s == nullptr ? "" : lower(plain_text(s->value));
}

std::optional<double> Draft::number(std::string_view name) {
  const Setting* s = find(name);
  if (s == nullptr || s->value.kind == Value::Kind::null || plain_text(s->value) == "auto") {
    return std::nullopt;
  }
  const std::string written = plain_text(s->value);
  Value value = scalar(written, s->origin);
  if (!s->open.empty() || s->value.kind != Value::Kind::scalar) {
    fault(s->origin, fmt::format("{} is '{}'; expected a number", s->shown, written));
    return std::nullopt;
  }
  try {
    return text::to_number(value);
  } catch (const InputError&) {
    fault(s->origin, fmt::format("{} is '{}'; expected a number", s->shown, written));
    return std::nullopt;
  }
}

std::optional<std::int64_t> Draft::integer(std::string_view name) {
  const auto x = number(name);
  if (!x) {
    return std::nullopt;
  }
  const std::int64_t whole = whole_part(*x);
  if (static_cast<double>(whole) != *x) {
    const Setting* s = find(name);
    fault(s->origin,
          fmt::format("{} is '{}'; expected an integer", s->shown, plain_text(s->value)));
    return std::nullopt;
  }
  return whole;
}

void Draft::note(const Setting& from, std::string_view key) {
  std::string& keys = keys_[&from];
  if (!key.empty() && (", " + keys + ",").find(fmt::format(", {},", key)) == std::string::npos) {
    keys += (keys.empty() ? "" : ", ") + std::string(key);
  }
}

void Draft::set(const Setting& from, std::string_view key, Value value) {
  value.origin = from.origin;
  for (Value& item : value.items) {
    item.origin = from.origin;
  }
  put(job_, key, std::move(value));
  note(from, key);
}

void Draft::set(const Setting& from, std::string_view key, std::string_view word) {
  set(from, key, scalar(word, from.origin));
}
void Draft::set(const Setting& from, std::string_view key, std::int64_t number) {
  set(from, key, std::string_view(fmt::format("{}", number)));
}
void Draft::set(const Setting& from, std::string_view key, double number) {
  set(from, key, std::string_view(fmt::format("{}", number)));
}
void Draft::set(const Setting& from, std::string_view key, bool truth) {
  set(from, key, std::string_view(truth ? "true" : "false"));
}
void Draft::set(const Setting& from, std::string_view key,
                const std::vector<std::int64_t>& numbers) {
  Value list;
  list.kind = Value::Kind::sequence;
  for (const std::int64_t n : numbers) {
    list.items.push_back(scalar(fmt::format("{}", n), from.origin));
  }
  set(from, key, std::move(list));
}

void Draft::assume(const Origin& from, std::string_view key, Value value) {
  if (get(job_, key) == nullptr) {
    value.origin = from;
    put(job_, key, std::move(value));
  }
}

void Draft::drop(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  Value* map = &job_;
  if (dot != std::string_view::npos) {
    map = const_cast<Value*>(get(job_, key.substr(0, dot)));
  }
  if (map != nullptr) {
    const std::string_view last = dot == std::string_view::npos ? key : key.substr(dot + 1);
    std::erase_if(map->entries, [&](const auto& entry) { return entry.key == last; });
  }
}

bool Draft::overridden(std::string_view key) const {
  if ((key == "cluster.nodes" && request_.nodes > 0) ||
      (key.starts_with("model") && !request_.model.empty())) {
    return true;
  }
  return std::any_of(overrides_.begin(), overrides_.end(), [&](const auto& entry) {
    const std::string& set = entry.first;
    return set == key || (set.starts_with(key) && set[key.size()] == '.') ||
           (key.starts_with(set) && key[set.size()] == '.');
  });
}

const Value* Draft::value(std::string_view key) const {
  if (const auto found = overrides_.find(key); found != overrides_.end()) {
    return &found->second;
  }
  return get(job_, key);
}

std::int64_t Draft::size(std::string_view key, std::int64_t otherwise) const {
  const Value* v = value(key);
  if (v != nullptr && v->kind == Value::Kind::map) {
    v = v->find("size");
  }
  if (v == nullptr || v->kind != Value::Kind::scalar) {
    return otherwise;
  }
  const auto x = text::number<std::int64_t>(v->scalar);
  return x && *x > 0 ? std::min(*x, kMany) : otherwise;
}

std::string Draft::text(std::string_view key) const {
  const Value* v = value(key);
  return v == nullptr ? "" : plain_text(*v);
}

std::int64_t Draft::ranks() {
  if (request_.ranks > 0) {
    return request_.ranks;
  }
  if (ranks_) {
    return *ranks_;
  }
  std::string cluster = request_.cluster;
  for (const char* key : {"cluster", "cluster.use"}) {
    if (const Value* v = value(key); v != nullptr && v->kind == Value::Kind::scalar) {
      cluster = v->scalar;
    }
  }
  if (cluster.empty()) {
    return 0;
  }
  std::vector<std::string> overrides;
  for (const std::string& option : request_.overrides) {
    if (option.starts_with("cluster.")) {
      overrides.push_back(option);
    }
  }
  const auto nodes = request_.nodes > 0 ? std::int64_t{request_.nodes} : size("cluster.nodes", 0);
  constexpr std::int64_t kMostNodes = 10'000'000;
  auto network = input::network(
      cluster, static_cast<int>(std::min(nodes > 0 ? nodes : 1, kMostNodes)), overrides);
  // The number of processes gives the number of nodes.
  if (nodes == 0 && !overridden("cluster.nodes")) {
    if (const Value* given = get(job_, "processes")) {
      const Value copy = *given;  // setting a key may move the job's entries
      const Value* processes = &copy;
      const auto n = text::number<std::int64_t>(processes->scalar).value_or(0);
      const std::int64_t gpus = network.cluster.node.gpus;
      if (n > 0) {
        if (n < gpus) {
          put(job_, "cluster.nodes", scalar("1", processes->origin));
          put(job_, "cluster.gpus_per_node", scalar(fmt::format("{}", n), processes->origin));
        } else if (n % gpus != 0) {
          fault(processes->origin,
                fmt::format("{} processes do not fill nodes of {} GPUs; expected a multiple, or "
                            "--nodes N",
                            n, gpus));
        } else {
          put(job_, "cluster.nodes", scalar(fmt::format("{}", n / gpus), processes->origin));
        }
        ranks_ = n;
        return n;
      }
    }
    return 0;
  }
  ranks_ = network.cluster.ranks();
  return *ranks_;
}

std::int64_t Draft::data_ranks() {
  if (const std::int64_t data = size("parallelism.data", 0); data > 0) {
    return data;
  }
  const std::int64_t all = ranks();
  const std::int64_t model =
      product(product(size("parallelism.tensor", 1), size("parallelism.pipeline", 1)),
              size("parallelism.context", 1));
  return all % model == 0 ? all / model : 0;
}

void Draft::unmodelled(const Setting& setting, std::string_view why) {
  other_[&setting] = {Unused::unmodelled, std::string(why)};
}
void Draft::meaningless(const Setting& setting, std::string_view why) {
  other_[&setting] = {Unused::meaningless, std::string(why)};
}
void Draft::unknown(const Setting& setting) { other_[&setting] = {Unused::unknown, ""}; }
void Draft::refuse(const Setting& setting, std::string message) {
  fault(setting.origin, std::move(message));
}
void Draft::fault(const Origin& where, std::string message) {
  const auto same = [&](const Fault& f) {
    return f.message == message && to_string(f.where) == to_string(where);
  };
  if (std::none_of(faults_.begin(), faults_.end(), same)) {
    faults_.push_back({where, std::move(message)});
  }
}

Launch Draft::finish() {
  drop("processes");
  for (const Setting& s : settings_) {
    LaunchOption option{s.shown, plain_text(s.value), s.origin, ""};
    for (const std::string& name : s.open) {
      option.value += (option.value.empty() ? "$" : " $") + name;
    }
    const auto other = other_.find(&s);
    const auto keys = keys_.find(&s);
    if (other != other_.end() && (keys == keys_.end() || keys->second.empty())) {
      option.note = other->second.second;
      auto& list = other->second.first == Unused::meaningless  ? launch_.meaningless
                   : other->second.first == Unused::unmodelled ? launch_.unmodelled
                                                               : launch_.unknown;
      list.push_back(std::move(option));
    } else {
      option.note =
          keys == keys_.end() ? "read with other options, or as by default" : keys->second;
      launch_.translated.push_back(std::move(option));
    }
  }
  launch_.job = job_;
  return std::move(launch_);
}

}  // namespace stepcast::interop::launch
