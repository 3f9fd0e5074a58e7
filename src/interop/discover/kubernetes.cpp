// `kubectl get nodes -o json`, with the labels of NVIDIA's GPU feature discovery.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "stepcast/interop/discover.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {
namespace {

using text::Value;

const Value* at(const Value* value, std::initializer_list<const char*> path) {
  for (const char* key : path) {
    value = value == nullptr || value->kind != Value::Kind::map ? nullptr : value->find(key);
  }
  return value;
}

std::string word(const Value* value) {
  return value != nullptr && value->kind == Value::Kind::scalar ? value->scalar : "";
}

// A quantity of Kubernetes ("2113384164Ki", "128", "7910m") in whole units.
std::int64_t quantity(const Value& v) {
  std::int64_t out = 0;
  const std::string& text = v.scalar;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  const std::string unit(stop, end);
  constexpr std::pair<const char*, int> kShifts[] = {
      {"", 0}, {"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}};
  const auto* known = std::find_if(std::begin(kShifts), std::end(kShifts),
                                   [&](const auto& s) { return unit == s.first; });
  if (v.kind == Value::Kind::scalar && error == std::errc() && out >= 0 && unit == "m") {
    return out / 1000;
  }
  if (v.kind != Value::Kind::scalar || error != std::errc() || out < 0 ||
      known == std::end(kShifts) || out > (std::int64_t{1} << 62 >> known->second)) {
    throw InputError(
        {v.origin, fmt::format("'{}'; expected a quantity such as 8 or 2113384164Ki", text)});
  }
  return out << known->second;
}

bool ready(const Value& item) {
  const Value* conditions = at(&item, {"status", "conditions"});
  if (conditions == nullptr) {
    return true;
  }
  return std::none_of(conditions->items.begin(), conditions->items.end(), [](const Value& c) {
    return word(c.find("type")) == "Ready" && word(c.find("status")) != "True";
  });
}

}  // namespace

NodeList read_kubernetes(const std::filesystem::path& file) {
  const Value document = text::read_json(file);
  const Value* items = at(&document, {"items"});
  if (items == nullptr || items->kind != Value::Kind::sequence) {
    throw InputError(
        {document.origin, "no list of items; expected what kubectl get nodes -o json prints"});
  }
  NodeList out;
  int unready = 0, without = 0;
  for (const Value& item : items->items) {
    if (item.kind != Value::Kind::map || at(&item, {"metadata"}) == nullptr) {
      throw InputError({item.origin, "no node; expected one with metadata and status"});
    }
    NodeFacts node;
    node.where = item.origin;
    node.name = word(at(&item, {"metadata", "name"}));
    const Value* labels = at(&item, {"metadata", "labels"});
    node.product = word(at(labels, {"nvidia.com/gpu.product"}));
    node.device = device_of_product(node.product);
    node.instance = word(at(labels, {"node.kubernetes.io/instance-type"}));
    const Value* gpus = at(&item, {"status", "allocatable", "nvidia.com/gpu"});
    gpus = gpus != nullptr ? gpus : at(labels, {"nvidia.com/gpu.count"});
    node.gpus = gpus == nullptr ? 0 : static_cast<int>(quantity(*gpus));
    if (const Value* memory = at(&item, {"status", "capacity", "memory"})) {
      node.host_memory = Bytes(quantity(*memory));
    }
    if (node.gpus == 0) {
      ++without;
    } else if (!ready(item) || word(at(&item, {"spec", "unschedulable"})) == "true") {
      ++unready;
    } else {
      out.nodes.push_back(std::move(node));
    }
  }
  if (unready > 0) {
    out.notes.push_back(
        fmt::format("{} nodes are left out: not ready, or not schedulable", unready));
  }
  if (without > 0) {
    out.notes.push_back(fmt::format("{} nodes without GPUs are left out", without));
  }
  return out;
}

}  // namespace stepcast::interop
