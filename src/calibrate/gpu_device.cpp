#include "gpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "device_names.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"

namespace stepcast::calibrate {
namespace {

// Tolerance of memory sizes: drivers state a few per cent more or less than the data sheet's round
// figure.
constexpr double kSameMemory = 0.12;

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      if (word != "nvidia" && word != "tesla" && word != "geforce" && word != "amd") {
        out.push_back(word);
      }
      word.clear();
    }
  }
  return out;
}

// The board (such as SXM or PCIe) among those of a model.
std::string form_of(const std::vector<std::string>& words) {
  for (const std::string& w : words) {
    if (w.starts_with("sxm") || w == "hbm3" || w == "hbm3e") {
      return "sxm";
    }
    if (w == "pcie" || w == "nvl") {
      return w;
    }
  }
  return "";
}

// "80gb", "80g": gigabytes; 0: not stated.
int gigabytes_of(const std::vector<std::string>& words) {
  for (const std::string& w : words) {
    const auto digits = static_cast<std::size_t>(
        std::find_if(w.begin(), w.end(), [](unsigned char c) { return std::isdigit(c) == 0; }) -
        w.begin());
    const std::string unit = w.substr(digits);
    if (digits > 0 && digits < 5 && (unit == "gb" || unit == "g")) {
      return std::stoi(w.substr(0, digits));
    }
  }
  return 0;
}

struct Named {
  std::string printed;
  std::int64_t memory = 0;
  Origin where;
};

std::vector<Named> names_in(const std::vector<KernelFile>& files) {
  std::vector<Named> out;
  for (const KernelFile& file : files) {
    if (const auto* harness = std::get_if<interop::GpuMeasurements>(&file)) {
      if (!harness->sessions.empty()) {  // all sessions are of one GPU
        const auto& s = harness->sessions.front();
        out.push_back({s.gpu, s.memory, {harness->file, 1, 1}});
      }
    } else {
      const auto& table = std::get<interop::KernelTable>(file);
      for (const auto& [gpu, line] : table.gpus) {
        out.push_back({gpu, 0, {table.file, line, 1}});
      }
    }
  }
  return out;
}

std::string first_file(const std::vector<KernelFile>& files) {
  return std::visit([](const auto& f) { return f.file; }, files.front());
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string> devices_named(const std::string& printed, std::int64_t memory) {
  const auto words = words_of(printed);
  const auto known = config::list("devices");
  const auto is_known = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  // The name in the spelling of configs: for "NVIDIA H200", "h100_sxm", "a100-sxm-80g".
  std::string spelled = fmt::format("{}", fmt::join(words, "-"));
  const auto matches_memory = [&](const std::string& name) {
    // The driver's figure is preferred to that of the name: "NVIDIA GH200 480GB" counts its
    // processor's memory.
    const double stated = memory > 0 ? static_cast<double>(memory) : gigabytes_of(words) * 1e9;
    const auto has = static_cast<double>(config::device(name).memory.count());
    return stated <= 0 || std::abs(stated / has - 1) < kSameMemory;
  };
  for (const std::string_view unit : {"", "gb", "g"}) {
    if (spelled.ends_with(unit)) {
      const std::string name = spelled.substr(0, spelled.size() - unit.size());
      if (is_known(name) && matches_memory(name)) {
        return {config::device(name).name};
      }
    }
  }
  const std::string form = form_of(words);
  std::vector<std::string> fitting;
  std::string usual;  // the device that the model's bare name means
  for (const std::string& name : known) {
    const auto parts = words_of(name);
    const bool model = same_model(printed, name);
    const job::Device device = model ? config::device(name) : job::Device{};
    const std::string board = form_of(words_of(device.name));
    if (!model || (!form.empty() && !board.empty() && form != board) || !matches_memory(name)) {
      continue;
    }
    if (parts.size() == 1) {
      usual = device.name;
    }
    if (std::find(fitting.begin(), fitting.end(), device.name) == fitting.end()) {
      fitting.push_back(device.name);
    }
  }
  // A name that fits several boards of a model means the usual one, if that fits all that is
  // stated.
  if (!usual.empty()) {
    return {usual};
  }
  std::sort(fitting.begin(), fitting.end());
  return fitting;
}

job::Device device_of(const std::vector<KernelFile>& files, const std::string& option) {
  const std::vector<Named> names = names_in(files);
  std::string chosen;
  const Named* by = nullptr;
  if (!option.empty()) {
    chosen = config::device(option).name;
    for (const Named& n : names) {
      const auto meant = devices_named(n.printed, n.memory);
      if (!may_be(n.printed, chosen) ||
          (meant.size() == 1 && meant.front() != chosen && !may_be(meant.front(), chosen))) {
        throw InputError(Fault{
            n.where, fmt::format("measured on {}; expected {} (--device)", n.printed, chosen)});
      }
    }
  }
  std::vector<Fault> faults;
  for (const Named& n : names) {
    const auto meant = devices_named(n.printed, n.memory);
    if (meant.size() != 1) {
      if (option.empty()) {
        faults.push_back(
            {n.where, meant.empty()
                          ? fmt::format("configs/devices has no {}; expected --device", n.printed)
                          : fmt::format("{} may be {}; expected --device with one of them",
                                        n.printed, listed(meant))});
      }
      continue;
    }
    if (by == nullptr) {
      by = &n;
      chosen = option.empty() ? meant.front() : chosen;
      continue;
    }
    const auto first = devices_named(by->printed, by->memory);
    if (meant != first) {
      faults.push_back(
          {n.where,
           fmt::format("measured on {} ({}), but {} on {} ({}); expected one device", n.printed,
                       meant.front(), to_string(by->where), by->printed, first.front())});
    }
  }
  if (!faults.empty()) {
    throw InputError(std::move(faults));
  }
  if (chosen.empty()) {
    throw InputError(Fault{{first_file(files), 1, 1},
                           "does not name the GPU; expected --device, as configs/devices has it"});
  }
  return config::device(option.empty() ? chosen : option);
}

}  // namespace stepcast::calibrate
