#include "gpu_compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "gpu_figures.h"
#include "stepcast/base/statistics.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/measured/kernels.h"

namespace stepcast::calibrate {
namespace {

namespace fs = std::filesystem;
using interop::AttentionCase;
using interop::CopyCase;
using interop::GemmCase;
using interop::LayerCase;
using interop::MemoryCase;

// Writes the new files to a temporary folder, since kernels are priced from paths. The destructor
// removes it.
class Folder {
 public:
  explicit Folder(const std::vector<result::KernelFile>& files) {
    static std::atomic<int> next{0};
    path_ = fs::temp_directory_path() / fmt::format("stepcast-fit-{}-{}", ::getpid(), next++);
    fs::create_directories(path_);
    for (const auto& file : files) {
      std::ofstream out(path_ / file.name, std::ios::binary);
      out << file.yaml;
      out.close();
      if (!out) {
        throw std::runtime_error("cannot write " + (path_ / file.name).string());
      }
    }
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }
  // The file name of a curve without the temporary folder.
  std::string without(const std::string& file) const {
    const std::string front = path_.filename().string() + "/";
    return file.starts_with(front) ? file.substr(front.size()) : file;
  }

 private:
  fs::path path_;
};

// The curves of one library, with the file that each price comes from.
struct Curves {
  cost::CurveTable table;
  std::unique_ptr<cost::Kernels> kernels;
  std::string file_of(const cost::Priced& priced) const {
    return table.curves()[priced.curve].file;
  }
};

std::unique_ptr<Curves> curves_of(const job::Device& device, const std::string& library,
                                  const fs::path& directory, const std::vector<std::string>& only) {
  auto out = std::make_unique<Curves>();
  out->kernels = std::make_unique<cost::Kernels>(device, library, directory, only, out->table);
  return out;
}

// The predicted time of a case; empty if the case is not a single kernel or is not modelled.
std::vector<cost::Priced> price(const Curves& curves, const Measured& m,
                                const job::Device& device) {
  std::string why;
  return measured::prices(*curves.kernels, device, m.what, m.engine, why);
}

double total_seconds(const std::vector<cost::Priced>& priced) {
  double sum = 0;
  for (const cost::Priced& p : priced) {
    sum += to_seconds(p.time);
  }
  return sum;
}

// Predicts a whole layer by the curves; layers are never fitted. Where that is not possible, the
// result's `why` has the reason.
result::KernelLayer layer_of(const Measured& m, const Curves& before, const Curves& after,
                             const job::Device& device) {
  result::KernelLayer out;
  out.name = interop::to_string(m.what).substr(std::string("layer ").size());
  out.measured = m.seconds;
  try {
    out.predicted = total_seconds(measured::prices(*after.kernels, device, m.what, false, out.why));
    out.before = total_seconds(measured::prices(*before.kernels, device, m.what, false, out.why));
  } catch (const InputError& error) {
    out.why = error.faults().front().message;
  }
  return out;
}

// The row of the comparison to which a case belongs.
std::string group_of(const interop::GpuCase& what, const std::string& library) {
  if (const auto* g = std::get_if<GemmCase>(&what)) {
    constexpr const char* kLayouts[] = {"forward", "input grad", "weight grad"};
    return fmt::format("gemm {} {} {}", job::to_string(g->dtype), library,
                       g->groups > 1  ? "grouped"
                       : g->sustained ? "sustained"
                                      : kLayouts[static_cast<int>(g->layout)]);
  }
  if (const auto* a = std::get_if<AttentionCase>(&what)) {
    return fmt::format("attention {} {}", a->kernel, a->backward ? "backward" : "forward");
  }
  if (const auto* m = std::get_if<MemoryCase>(&what)) {
    return "memory " + m->op + (m->backward ? " backward" : "");
  }
  const auto& c = std::get<CopyCase>(what);
  return fmt::format("copy {} {}", c.direction, c.pinned ? "pinned" : "pageable");
}

struct Deviations {
  std::vector<double> before, after;
  std::set<std::string> before_from, after_from;
};

double quantile95(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return nearest_quantile(x, 0.95);
}

std::string comma_separated(const std::set<std::string>& all) {
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

void compare(const std::vector<Measured>& cases, const job::Device& device,
             const std::vector<std::string>& libraries, const fs::path& calibration_dir,
             result::KernelCalibration& out) {
  const Folder folder(out.files);
  std::map<std::string, std::unique_ptr<Curves>> before, after;
  for (const std::string& library : libraries) {
    before[library] = curves_of(device, library, calibration_dir, {});
    std::vector<std::string> only;
    if (!out.files.empty()) {
      only = {"auto", folder.path().string()};
    }
    after[library] = curves_of(device, library, calibration_dir, only);
  }
  const std::string& main = libraries.front();
  std::vector<std::pair<std::string, Deviations>> groups;  // in the order of first use
  for (const Measured& m : cases) {
    const std::string& library = m.library.empty() ? main : m.library;
    if (std::holds_alternative<LayerCase>(m.what)) {
      out.layers.push_back(layer_of(m, *before.at(main), *after.at(main), device));
      continue;
    }
    const auto old = price(*before.at(library), m, device);
    const auto fresh = price(*after.at(library), m, device);
    if (old.empty() || fresh.empty()) {
      continue;
    }
    const std::string name = group_of(m.what, library);
    auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
    if (at == groups.end()) {
      groups.emplace_back(name, Deviations{});
      at = groups.end() - 1;
    }
    at->second.before.push_back(std::abs(total_seconds(old) / m.seconds - 1));
    at->second.after.push_back(std::abs(total_seconds(fresh) / m.seconds - 1));
    at->second.before_from.insert(before.at(library)->file_of(old.front()));
    at->second.after_from.insert(folder.without(after.at(library)->file_of(fresh.front())));
  }
  for (const auto& [name, g] : groups) {
    out.comparisons.push_back({name, static_cast<int>(g.before.size()), median(g.before),
                               quantile95(g.before), median(g.after), quantile95(g.after),
                               comma_separated(g.before_from), comma_separated(g.after_from)});
  }
  out.figures = figures(cases);
}

}  // namespace stepcast::calibrate
