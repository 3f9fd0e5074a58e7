// This host by NVML, CUDA and Linux.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string out;
  std::getline(in, out);
  return out;
}

// The number that a text begins with; -1: none.
long leading_number(const std::string& text) {
  const auto from = text.find_first_not_of(" \t");
  long out = -1;
  if (from != std::string::npos) {
    std::from_chars(text.data() + from, text.data() + text.size(), out);
  }
  return out;
}

// The value after "key   :" in a file of such lines; "": there is none.
std::string value_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) {
      const auto at = line.find_first_not_of(" \t", colon + 1);
      return at == std::string::npos ? "" : line.substr(at);
    }
  }
  return "";
}

// Entries of a directory that need not exist, sorted.
std::set<fs::path> entries(const fs::path& directory) {
  std::set<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    out.insert(at->path());
  }
  return out;
}

// Counts ports that are up as adapters; of several rates, the one with the most bandwidth in all
// (as for NCCL's dumps).
void read_adapters(const fs::path& root, NodeFacts& out) {
  std::map<long, int> ports;  // by Gbit/s
  for (const fs::path& adapter : entries(root / "sys/class/infiniband")) {
    for (const fs::path& port : entries(adapter / "ports")) {
      const long rate = leading_number(first_line(port / "rate"));
      if (rate > 0 && first_line(port / "state").find("ACTIVE") != std::string::npos) {
        ++ports[rate];
      }
    }
  }
  const auto most = std::max_element(ports.begin(), ports.end(), [](const auto& a, const auto& b) {
    return a.first * a.second < b.first * b.second;
  });
  if (most != ports.end()) {
    out.nics = most->second;
    out.nic = Bandwidth(static_cast<double>(most->first) * 1e9 / 8);
  }
}

void read_processors(const fs::path& root, NodeFacts& out) {
  std::set<long> sockets;
  std::set<std::pair<long, long>> cores;
  for (const fs::path& cpu : entries(root / "sys/devices/system/cpu")) {
    const long socket = leading_number(first_line(cpu / "topology/physical_package_id"));
    const long core = leading_number(first_line(cpu / "topology/core_id"));
    if (socket >= 0 && core >= 0) {
      sockets.insert(socket);
      cores.insert({socket, core});
    }
  }
  out.sockets = static_cast<int>(sockets.size());
  out.cores = static_cast<int>(cores.size());
  if (const std::string vendor = value_of(root / "proc/cpuinfo", "vendor_id"); !vendor.empty()) {
    out.amd_cpu = vendor == "AuthenticAMD";
  }
}

}  // namespace

NodeFacts ask_linux(const fs::path& root) {
  NodeFacts out;
  read_adapters(root, out);
  read_processors(root, out);
  const long memory = leading_number(value_of(root / "proc/meminfo", "MemTotal"));
  if (memory > 0) {
    out.host_memory = Bytes(static_cast<std::int64_t>(memory) * 1024);  // "kB" are KiB
  }
  return out;
}

NodeList ask_host() {
  NodeList out = ask_nvml();
  if (out.nodes.empty()) {
    NodeList other = ask_cuda();
    other.notes.insert(other.notes.begin(), out.notes.begin(), out.notes.end());
    out = std::move(other);
  }
  if (!out.nodes.empty()) {
    NodeFacts& node = out.nodes.front();
    const NodeFacts more = ask_linux("/");
    node.nics = more.nics;
    node.nic = more.nic;
    node.sockets = more.sockets;
    node.cores = more.cores;
    node.host_memory = more.host_memory;
    node.amd_cpu = more.amd_cpu;
  }
  return out;
}

}  // namespace stepcast::interop
