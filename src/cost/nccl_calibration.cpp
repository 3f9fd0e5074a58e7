#include "nccl_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"
#include "stepcast/text/shipped.h"

namespace stepcast::cost {
namespace {

using text::need;
using text::Value;

[[noreturn]] void fail(const Value& at, const std::string& message) {
  text::fault(at.origin, message);
}

std::vector<std::string> names_in(const Value& map, const char* key) {
  std::vector<std::string> all;
  if (const Value* v = map.find(key)) {
    for (const Value& item : v->items) {
      all.push_back(text::to_string(item));
    }
  }
  return all;
}

SizedFit read_fit(const Value& v) {
  SizedFit f;
  f.size = static_cast<int>(text::to_integer(need(v, "size")));
  f.points = static_cast<int>(text::to_integer(need(v, "points")));
  if (f.size < 1) {
    fail(need(v, "size"), "expected 1 or more");
  }
  f.fit.latency = text::to_number(need(v, "latency_factor"));
  if (!(f.fit.latency > 0)) {
    fail(need(v, "latency_factor"), "expected a number above 0");
  }
  const Value& share = need(v, "log2_share");
  if (share.items.size() != kKnots) {
    fail(share, "expected " + std::to_string(kKnots) + " knots");
  }
  for (std::size_t k = 0; k < kKnots; ++k) {
    f.fit.log2_share[k] = text::to_number(share.items[k]);
    if (k > 0 && f.fit.log2_share[k] - f.fit.log2_share[k - 1] > kSteepest * kStep + 2e-3) {
      fail(share, "log2_share rises too steeply: times would fall with size");
    }
  }
  return f;
}

// What the file holds for.
NcclFile head_of(const Value& root, const std::string& name) {
  NcclFile file;
  file.file = name;
  file.system = text::to_string(need(root, "system"));
  const std::string& scope = text::to_string(need(root, "scope"));
  if (scope != "domain" && scope != "network") {
    fail(need(root, "scope"), "expected domain or network");
  }
  file.scope = scope == "domain" ? Scope::domain : Scope::network;
  file.devices = names_in(root, "devices");
  file.nodes = names_in(root, "nodes");
  file.fabrics = names_in(root, "fabrics");
  file.compute_capability = text::to_number(need(root, "compute_capability"));
  file.nvlink = text::to_bool(need(root, "nvlink"));
  if (const Value* nic = root.find("nic")) {
    file.nic = text::to_bandwidth(*nic).count();
  }
  if (const Value* sockets = root.find("sockets")) {
    file.sockets = text::to_bandwidth(*sockets).count();
  }
  if (const Value* pooled = root.find("pooled")) {
    file.pooled = text::to_bool(*pooled);
  }
  if (const Value* pairs = root.find("nvlink_pairs")) {
    file.pairs = text::to_bool(*pairs);
  }
  file.provenance = text::to_string(need(root, "provenance"));
  return file;
}

constexpr const char* kOperations = "ops";

void read_fits(const Value& root, NcclFile& file) {
  for (const auto& entry : need(root, kOperations).entries) {
    const int op = op_of(entry.key);
    if (op < 0) {
      text::fault(entry.origin, "no collective is named '" + entry.key + "'");
    }
    const Value& residual = need(entry.value, "residual");
    file.residuals[op] = {text::to_number(need(residual, "below_1MiB")),
                          text::to_number(need(residual, "from_1MiB"))};
    for (const Value& item : need(entry.value, "fits").items) {
      file.fits[op].push_back(read_fit(item));
    }
    std::sort(file.fits[op].begin(), file.fits[op].end(),
              [](const SizedFit& a, const SizedFit& b) { return a.size < b.size; });
    for (std::size_t i = 1; i < file.fits[op].size(); ++i) {
      if (file.fits[op][i].size == file.fits[op][i - 1].size) {
        fail(need(entry.value, "fits"), "two fits of one size");
      }
    }
  }
}

NcclFile to_head(const std::filesystem::path& path, const std::string& name) {
  const std::optional<Value> root = text::read_shipped(path, kOperations);
  if (!root) {
    return to_nccl(path, name);
  }
  NcclFile head = head_of(*root, name);
  head.fits_in = path;
  return head;
}

using NcclFiles = std::shared_ptr<const std::vector<NcclFile>>;

// The files of a folder, as `read` reads them, which are kept.
template <class Read>
NcclFiles files_in(const std::filesystem::path& calibration_dir,
                   std::map<std::string, NcclFiles>& kept, const Read& read) {
  auto& slot = kept[calibration_dir.string()];
  if (slot) {
    return slot;
  }
  auto files = std::make_shared<std::vector<NcclFile>>();
  const auto folder = calibration_dir / "nccl";
  std::vector<std::filesystem::path> paths;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.is_regular_file() && entry.path().extension() == ".yaml") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    files->push_back(read(path, "nccl/" + path.filename().string()));
  }
  slot = files;
  return slot;
}

}  // namespace

NcclFile to_nccl(const std::filesystem::path& path, const std::string& name) {
  const Value root = text::read_yaml(path);
  NcclFile file = head_of(root, name);
  read_fits(root, file);
  return file;
}

const char* op_name(int op) {
  return op == kSend ? "send" : to_string(static_cast<Collective>(op));
}

int op_of(const std::string& name) {
  for (int op = 0; op < kOps; ++op) {
    if (name == op_name(op)) {
      return op;
    }
  }
  return name == "alltoall"   ? static_cast<int>(Collective::all_to_all)
         : name == "sendrecv" ? kSend
                              : -1;
}

std::string to_yaml(const NcclFile& file) {
  const auto list = [](const std::vector<std::string>& all) {
    std::string s;
    for (const auto& n : all) {
      s += (s.empty() ? "" : ", ") + n;
    }
    return s;
  };
  std::string out = fmt::format(
      "# Written from nccl-tests logs; do not edit. The law: src/cost/collective/predict.h.\n"
      "kind: nccl\nsystem: {}\nscope: {}\n",
      file.system, file.scope == Scope::network ? "network" : "domain");
  if (file.pooled) {
    out += "pooled: true\n";
  }
  out += fmt::format(
      "devices: [{}]\nnodes: [{}]\nfabrics: [{}]\ncompute_capability: {:g}\nnvlink: {}\n",
      list(file.devices), list(file.nodes), list(file.fabrics), file.compute_capability,
      file.nvlink);
  if (file.pairs) {
    out += "nvlink_pairs: true\n";
  }
  out += fmt::format("nic: {:g} GB/s\n", file.nic / 1e9);
  if (file.sockets > 0) {
    out += fmt::format("sockets: {:g} GB/s\n", file.sockets / 1e9);
  }
  out += fmt::format("provenance: \"{}\"\n", file.provenance);
  if (!file.logs.empty()) {
    out += "logs:\n";
    for (const auto& [name, source] : file.logs) {
      out += fmt::format("  {}: \"{}\"\n", name, source);
    }
  }
  out += fmt::format(
      "knots: {{first: {}, step: {}}}  # x = log2(bytes / (best bandwidth * least "
      "latency))\nops:\n",
      kFirst, kStep);
  for (int op = 0; op < kOps; ++op) {
    if (file.fits[op].empty()) {
      continue;
    }
    out +=
        fmt::format("  {}:\n    residual: {{below_1MiB: {:.3f}, from_1MiB: {:.3f}}}\n    fits:\n",
                    op_name(op), file.residuals[op].small, file.residuals[op].large);
    for (const SizedFit& f : file.fits[op]) {
      std::string knots;
      for (const double k : f.fit.log2_share) {
        knots += fmt::format("{}{:.3f}", knots.empty() ? "" : ", ", k);
      }
      out += fmt::format(
          "      - {{size: {}, points: {}, latency_factor: {:.4f},\n"
          "         log2_share: [{}]}}\n",
          f.size, f.points, f.fit.latency, knots);
    }
  }
  return out;
}

NcclFiles read_nccl_files(const std::filesystem::path& calibration_dir) {
  static std::mutex mutex;
  static std::map<std::string, NcclFiles> kept;
  const std::lock_guard lock(mutex);
  return files_in(calibration_dir, kept, to_nccl);
}

NcclFiles read_nccl_heads(const std::filesystem::path& calibration_dir) {
  static std::mutex mutex;
  static std::map<std::string, NcclFiles> kept;
  const std::lock_guard lock(mutex);
  return files_in(calibration_dir, kept, to_head);
}

const NcclFile& with_fits(const NcclFile& file) {
  if (file.fits_in.empty()) {
    return file;
  }
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const NcclFile>> kept;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const NcclFile>& slot = kept[file.fits_in.string()];
  if (!slot) {
    slot = std::make_unique<const NcclFile>(to_nccl(file.fits_in, file.file));
  }
  return *slot;
}

const NcclFile* read_nccl_file(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const NcclFile>> cache;
  const std::lock_guard lock(mutex);
  const auto [slot, fresh] = cache.try_emplace(file.string());
  if (fresh) {
    try {
      const Value root = text::read_yaml(file);
      const Value* kind = root.find("kind");
      if (kind == nullptr) {
        fail(root, "is not a calibration file; expected a mapping with a kind");
      }
      if (kind->scalar == "nccl") {
        slot->second = std::make_unique<const NcclFile>(to_nccl(file, file.string()));
      }
    } catch (...) {
      cache.erase(slot);
      throw;
    }
  }
  return slot->second.get();
}

}  // namespace stepcast::cost
