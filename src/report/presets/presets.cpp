// The lists of models, devices, clusters and jobs in configs/.
#include "stepcast/report/presets.h"

#include <algorithm>
#include <cctype>

#include "../record/tables.h"

namespace stepcast::report {
namespace {

Value given(double value) { return value > 0 ? Value(value) : Value(); }

Record fields(const result::ModelPreset& m) {
  return {{"name", m.name, "model"},
          {"parameters", m.parameters},
          {"", m.parameters / 1e9, "parameters, B", Show::three},
          {"active_parameters", m.active},
          {"", m.active / 1e9, "active, B", Show::three},
          {"layers", m.layers, "layers", Show::count},
          {"hidden", m.hidden, "hidden", Show::count},
          {"heads", m.heads, "heads", Show::count},
          {"kv_heads", m.kv_heads, "KV heads", Show::count},
          {"experts", m.experts, "experts", Show::count},
          {"top_k", m.top_k, "top-k", Show::count},
          {"vocab", m.vocab, "vocabulary", Show::count}};
}

Record fields(const result::DevicePreset& d) {
  return {{"name", d.name, "device"},
          {"memory", d.memory},
          {"", static_cast<double>(d.memory.count()) / 1e9, "memory, GB", Show::three},
          {"memory_bandwidth", d.memory_bandwidth.count()},
          {"", d.memory_bandwidth.count() / 1e12, "TB/s", Show::three},
          {"bf16", given(d.bf16.count())},
          {"", given(d.bf16.count() / 1e12), "bf16, TFLOP/s", Show::four},
          {"fp8", given(d.fp8.count())},
          {"", given(d.fp8.count() / 1e12), "fp8, TFLOP/s", Show::four},
          {"nvlink", given(d.nvlink.count())},
          {"", given(d.nvlink.count() / 1e9), "links, GB/s a way", Show::four},
          {"power", given(d.power.count())},
          {"", given(d.power.count()), "W", Show::four},
          {"kernels", d.kernels, "kernels' times"}};
}

Record fields(const result::ClusterPreset& c) {
  return {{"name", c.name, "cluster"},
          {"device", c.device, "device"},
          {"gpus_per_node", c.gpus, "GPUs a node", Show::count},
          {"nvlink_domain", c.domain, "NVLink domain", Show::count},
          {"fabric", c.fabric, "fabric"},
          {"nics", c.nics, "NICs", Show::count},
          {"nic", given(c.nic.count())},
          {"", given(8 * c.nic.count() / 1e9), "Gb/s each", Show::four}};
}

Record fields(const result::JobPreset& j) {
  return {{"name", j.name, "job"},           {"model", j.model, "model"},
          {"cluster", j.cluster, "cluster"}, {"gpus", j.gpus, "GPUs", Show::count},
          {"system", j.system, "system"},    {"tokens", j.tokens, "tokens a step", Show::count}};
}

Record fields(const result::SchedulePreset& s) {
  return {{"name", s.name, "schedule"}, {"summary", s.summary, "what it does"}};
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

template <class T>
PresetTable table_of(std::vector<T> all, const std::vector<std::string>& words, int width) {
  std::erase_if(all, [&](const T& one) {
    std::string line;
    for (const Field& field : fields(one)) {
      if (const auto* text = std::get_if<std::string>(&field.value.kind())) {
        line += " " + lower_case(*text);
      }
    }
    return !std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return line.find(lower_case(word)) != std::string::npos;
    });
  });
  const auto row = [](const T& one) { return fields(one); };
  PresetTable out;
  out.rows = all.size();
  out.text = text_table(all, row).text(Paint{}, width);
  out.json = json_of({{"presets", rows(all, row)}});
  return out;
}

}  // namespace

PresetTable presets(std::vector<result::ModelPreset> all, const std::vector<std::string>& words,
                    int width) {
  return table_of(std::move(all), words, width);
}
PresetTable presets(std::vector<result::DevicePreset> all, const std::vector<std::string>& words,
                    int width) {
  return table_of(std::move(all), words, width);
}
PresetTable presets(std::vector<result::ClusterPreset> all, const std::vector<std::string>& words,
                    int width) {
  return table_of(std::move(all), words, width);
}
PresetTable presets(std::vector<result::JobPreset> all, const std::vector<std::string>& words,
                    int width) {
  return table_of(std::move(all), words, width);
}
PresetTable presets(std::vector<result::SchedulePreset> all, const std::vector<std::string>& words,
                    int width) {
  return table_of(std::move(all), words, width);
}

}  // namespace stepcast::report
