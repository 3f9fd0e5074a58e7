// Layers at both ends whose products stay in 16 bits beside 8 or 4: options of Megatron-LM
// (megatron-core 0.19.2, transformer/transformer_config.py:628), and fields of the recipes'
// precision (megatron-bridge 0.6.2, training/mixed_precision.py:53, :73; nemo-toolkit 2.4.0,
// lightning/pytorch/plugins/mixed_precision.py:72, :87).
#include <array>
#include <string>

#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

constexpr const char* kStart = "model.bf16_start_layers";
constexpr const char* kEnd = "model.bf16_end_layers";

// Options of one place, and the layers at each end where their number is left out.
struct Options {
  std::string_view on, start, end;
  int layers = 0;
};
constexpr std::array<Options, 3> kOptions = {
    {{"first-last-layers-bf16", "num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16", 1},
     {"mixed-precision.first-last-layers-bf16", "mixed-precision.num-layers-at-start-in-bf16",
      "mixed-precision.num-layers-at-end-in-bf16"},
     {"trainer.plugins.first-last-layers-bf16", "trainer.plugins.num-layers-at-start-in-bf16",
      "trainer.plugins.num-layers-at-end-in-bf16"}}};

bool few_bits(const Draft& d) {
  const std::string precision = d.text("workload.precision");
  return precision.find("fp8") != std::string::npos || precision.find("fp4") != std::string::npos;
}

void count(Draft& d, const Setting& from, std::string_view option, const char* key, int otherwise) {
  if (const Setting* s = d.find(option)) {
    d.set(*s, key, s->value);
  } else if (!d.stated(key)) {
    d.set(from, key, otherwise);
  }
}

void read(Draft& d, const Options& o) {
  const Setting* on = d.find(o.on);
  const bool by_recipe = on == nullptr && d.stated(kEnd);
  if (few_bits(d) && ((on != nullptr && is_true(*on)) || by_recipe)) {
    const Setting* start = d.find(o.start);
    const Setting* end = d.find(o.end);
    const Setting* from = on != nullptr ? on : start != nullptr ? start : end;
    if (from != nullptr) {
      count(d, *from, o.start, kStart, o.layers);
      count(d, *from, o.end, kEnd, o.layers);
    }
    return;
  }
  if (on != nullptr) {
    d.drop(kStart);
    d.drop(kEnd);
  }
  for (const std::string_view option : {o.on, o.start, o.end}) {
    if (const Setting* s = d.present(option)) {
      d.meaningless(*s, few_bits(d) ? "no layer stays in 16 bits" : "all products are in 16 bits");
    }
  }
}

}  // namespace

const std::vector<Rule>& megatron_bf16_layer_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> out;
    for (const Options& o : kOptions) {
      out.push_back({o.on, kStart, later, o.layers == 1});
      out.push_back({o.start, kStart, later});
      out.push_back({o.end, kEnd, later});
    }
    return out;
  }();
  return rules;
}

void recipe_bf16_layers(Draft& d, const Setting& recipe, int start, int end) {
  d.set(recipe, kStart, start);
  d.set(recipe, kEnd, end);
}

void finish_bf16_layers(Draft& d) {
  for (const Options& o : kOptions) {
    read(d, o);
  }
}

}  // namespace stepcast::interop::launch
