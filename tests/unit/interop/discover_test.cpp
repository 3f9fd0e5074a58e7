// Clusters from the files of other tools: what is read, what is written, and what is refused with
// which position.
#include "stepcast/interop/discover.h"

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/text/xml.h"
#include "support/folder.h"

namespace stepcast::interop {
namespace {

const std::string kFiles = STEPCAST_DISCOVER_FILES "/";

// Reads back the cluster of a written file.
job::Cluster read_back(const ClusterFile& file) {
  const auto path = std::filesystem::temp_directory_path() / "stepcast_discover_test.yaml";
  std::ofstream(path) << file.yaml;
  job::Cluster out = input::network(path.string(), 0).cluster;
  std::filesystem::remove(path);
  return out;
}

job::Cluster found(NodeList shape, NodeList nodes = {}, int count = 0, std::string device = "") {
  DiscoverRequest request;
  request.shape = std::move(shape);
  request.nodes = std::move(nodes);
  request.count = count;
  request.device = std::move(device);
  request.sources = "a test";
  return read_back(cluster_file(request));
}

template <class Do>
std::string fault_of(const Do& act) {
  try {
    act();
  } catch (const InputError& error) {
    return to_string(error.faults().front());
  }
  return "";
}

std::string fault_in(const std::string& text, NodeList (*read)(const std::filesystem::path&)) {
  const auto path = std::filesystem::temp_directory_path() / "stepcast_discover_fault";
  std::ofstream(path) << text;
  std::string out = fault_of([&] { read(path); });
  std::filesystem::remove(path);
  const auto at = out.find(path.string());
  return at == 0 ? out.substr(path.string().size()) : out;
}

NodeList slurm(const std::filesystem::path& file) { return read_slurm(file, ""); }

TEST_CASE(
    "a dump of NCCL's gives GPUs, links, adapters and sockets, and the cluster that has them") {
  if (!text::have_xml()) {
    return;
  }
  const NodeList list = read_nccl_topology(kFiles + "dgx-h100.xml");
  REQUIRE(list.nodes.size() == 1);
  const NodeFacts& node = list.nodes.front();
  CHECK(node.gpus == 8);
  CHECK(node.device == "h100-sxm");
  CHECK(node.nvlinks == 18);
  CHECK(node.nvlink == Bandwidth(450e9));
  CHECK(node.switched);
  CHECK(node.nics == 8);
  CHECK(node.nic == Bandwidth(50e9));
  CHECK(node.sockets == 2);
  const job::Cluster c = found(list, {}, 16);
  CHECK(c.name == "dgx-h100");
  CHECK(c.nodes == 16);
  CHECK(c.ranks() == 128);
  CHECK(c.device.nvlink == Bandwidth(450e9));
}

TEST_CASE("what a dump counts otherwise stands beside the cluster's name") {
  if (!text::have_xml()) {
    return;
  }
  const job::Cluster half = found(read_nccl_topology(kFiles + "h100-half.xml"));
  CHECK(half.device.nvlink == Bandwidth(8 * 25e9));  // 8 links of 25 GB/s
  CHECK(half.device.name == "h100-sxm");
  CHECK(half.node.nic == Bandwidth(25e9));
  CHECK(half.node.amd_cpu);
  const job::Cluster pairs = found(read_nccl_topology(kFiles + "a100-pairs.xml"));
  CHECK(pairs.device.name == "a100-pcie-80");
  CHECK(pairs.node.gpus == 4);
  CHECK(pairs.node.intra == job::Node::Intra::nvlink_mesh);
  REQUIRE(pairs.node.nvlink_links.size() == 2);
  CHECK(pairs.node.nvlink_links.front().links == 12);
}

TEST_CASE("nvidia-smi's matrix tells a switch from a mesh") {
  const NodeList list = read_nvidia_smi_topology(kFiles + "dgx-h100-topo.txt");
  CHECK(list.nodes.front().switched);
  CHECK(list.nodes.front().nvlinks == 18);
  CHECK(list.nodes.front().nics == 8);
  CHECK(list.nodes.front().sockets == 2);
  CHECK(found(list, {}, 4, "h100-sxm").name == "dgx-h100");
  const NodeList mesh = read_nvidia_smi_topology(kFiles + "dgx-1-topo.txt");
  CHECK(!mesh.nodes.front().switched);
  CHECK(mesh.nodes.front().nvlinks == 6);
  const job::Cluster c = found(mesh, {}, 1, "v100-sxm2-32");
  CHECK(c.node.intra == job::Node::Intra::nvlink_mesh);
  CHECK(c.node.nvlink_links.size() == 16);
  const std::string unknown = fault_of([&] { found(mesh); });
  CHECK(unknown.find("--device NAME") != std::string::npos);
}

TEST_CASE("Slurm's nodes that can run make groups of unlike devices") {
  const NodeList list = read_slurm(kFiles + "nodes.txt", "");
  REQUIRE(list.nodes.size() == 6);  // one is down, one has no GPUs
  CHECK(list.notes.size() == 2);
  CHECK(list.nodes.front().cores == 112);
  const job::Cluster c = found({}, list);
  CHECK(c.nodes == 6);
  CHECK(c.device.name == "h100-sxm");
  REQUIRE(c.overrides.size() == 1);
  CHECK(c.overrides.front().first == 4);
  CHECK(c.overrides.front().count == 2);
  CHECK(c.overrides.front().device.name == "a100-sxm-80");
  CHECK(read_slurm(kFiles + "sinfo.txt", "").nodes.size() == 7);
  CHECK(read_slurm(kFiles + "sinfo.txt", "dgx-[001-002],dgx-010").nodes.size() == 3);
  CHECK(fault_of([] { read_slurm(kFiles + "sinfo.txt", "dgx-[007]"); }).find("dgx-007") !=
        std::string::npos);
}

TEST_CASE("lists of hosts expand as Slurm's do") {
  const Origin where = {"list", 3, 5};
  CHECK(expand_hostlist("dgx-[001-003,010],login", where) ==
        std::vector<std::string>{"dgx-001", "dgx-002", "dgx-003", "dgx-010", "login"});
  CHECK(expand_hostlist("r[1-2]n[8-9]", where) ==
        std::vector<std::string>{"r1n8", "r1n9", "r2n8", "r2n9"});
  CHECK(expand_hostlist("n[9-11]", where) == std::vector<std::string>{"n9", "n10", "n11"});
  for (const char* wrong : {"", "a,,b", "n[3-1]", "n[1-", "n[]", "n]1", "n[x]", "n[1-99999999]"}) {
    CAPTURE(wrong);
    CHECK(fault_of([&] { expand_hostlist(wrong, where); }).find("list:3:") == 0);
  }
}

TEST_CASE("Kubernetes' nodes that are ready make the cluster of their instance") {
  const NodeList list = read_kubernetes(kFiles + "nodes.json");
  REQUIRE(list.nodes.size() == 4);
  CHECK(list.nodes.front().device == "h100-sxm");
  CHECK(list.nodes.front().gpus == 8);
  const job::Cluster c = found({}, list);
  CHECK(c.name == "aws-p5");
  CHECK(c.nodes == 4);
}

TEST_CASE("names of GPUs as tools print them are those of configs/devices") {
  const auto known = config::list("devices");
  for (const auto& [name, device] : std::vector<std::pair<std::string, std::string>>{
           {"NVIDIA A100-SXM4-80GB", "a100-sxm-80"},
           {"NVIDIA-A100-SXM4-40GB", "a100-sxm-40"},
           {"NVIDIA A100 80GB PCIe", "a100-pcie-80"},
           {"A100-PCIE-40GB", "a100-pcie-40"},
           {"NVIDIA H100 80GB HBM3", "h100-sxm"},
           {"NVIDIA H100 PCIe", "h100-pcie"},
           {"NVIDIA H100 NVL", "h100-nvl"},
           {"NVIDIA H200", "h200-sxm"},
           {"NVIDIA GB200", "gb200"},
           {"NVIDIA GH200 480GB", "gh200"},
           {"Tesla V100-SXM2-16GB", "v100-sxm2-16"},
           {"NVIDIA GeForce RTX 4090", "rtx4090"},
           {"NVIDIA GeForce RTX 3090", "rtx3090"},
           {"NVIDIA RTX A6000", "rtx-a6000"},
           {"NVIDIA A10", "a10"},
           {"NVIDIA A10-24Q", "a10"},
           {"NVIDIA A10G", "a10g"},
           {"NVIDIA A40", "a40"},
           {"NVIDIA-L4", "l4"},
           {"NVIDIA L40S", "l40s"},
           {"NVIDIA RTX PRO 6000 Blackwell Server "
            "Edition",
            "rtx-pro-6000"},
           {"AMD Instinct MI308X", "mi308x"},
           {"AMD Instinct MI325X", "mi325x"},
           {"AMD_Instinct_MI350X_OAM", "mi350x"},
           {"AMD Instinct MI355X", "mi355x"},
           {"AMD Instinct MI250X / MI250", "mi250x-gcd"},
           {"0x2237", "a10g"},
           {"0x2335", "h200-sxm"}}) {
    CAPTURE(name);
    CHECK(device_of_product(name) == device);
    CHECK(std::find(known.begin(), known.end(), device) != known.end());
  }
  for (const char* other : {"GeForce GTX 1080", "NVIDIA RTX A1000 Laptop GPU", "NVIDIA RTX A4000",
                            "NVIDIA L40", "NVIDIA H2000"}) {
    CAPTURE(other);
    CHECK(device_of_product(other).empty());
  }
  CHECK(device_of_product("0x0000").empty());
}

TEST_CASE("Linux's files give adapters that are up, sockets, cores and memory") {
  const test::Folder root;
  const auto put = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    root.write(name, text + "\n");
  };
  for (int i = 0; i < 10; ++i) {  // eight of 400 Gbit/s, one for storage, one that is down
    const std::string port = "sys/class/infiniband/mlx5_" + std::to_string(i) + "/ports/1/";
    put(port + "rate", i == 8 ? "200 Gb/sec (4X HDR)" : "400 Gb/sec (4X NDR)");
    put(port + "state", i == 9 ? "1: DOWN" : "4: ACTIVE");
  }
  for (int cpu = 0; cpu < 8; ++cpu) {  // two sockets with two cores of two threads each
    const std::string at = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    put(at + "physical_package_id", std::to_string(cpu / 2 % 2));
    put(at + "core_id", std::to_string(cpu % 2));
  }
  put("sys/devices/system/cpu/online", "0-7");
  put("proc/meminfo", "MemFree: 1 kB\nMemTotal:       2113461234 kB");
  put("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD");
  const NodeFacts node = ask_linux(root.path());
  CHECK(node.nics == 8);
  CHECK(node.nic == Bandwidth(50e9));
  CHECK(node.sockets == 2);
  CHECK(node.cores == 4);
  CHECK(node.host_memory == Bytes(std::int64_t{2113461234} * 1024));
  CHECK(node.amd_cpu == true);
  const NodeFacts none = ask_linux(root / "nowhere");
  CHECK(none.nics == 0);
  CHECK(none.sockets == 0);
  CHECK(!none.amd_cpu);
}

TEST_CASE("a fault names its file, line and column") {
  if (text::have_xml()) {
    CHECK(fault_in("<system version=\"1\">\n  <cpu>\n", read_nccl_topology)
              .find(":3:1: error: malformed XML") == 0);
    CHECK(fault_in("<topology/>", read_nccl_topology).find(":1:1: error: <topology>") == 0);
    CHECK(fault_in("<system>\n <cpu numaid=\"0\">\n  <pci busid=\"1\"><gpu "
                   "dev=\"0\"/></pci></cpu></system>",
                   read_nccl_topology)
              .find(":3:18: error: <gpu> has no sm") == 0);
    CHECK(fault_in("<system/>", read_nccl_topology).find(":1:1: error: no <gpu>") == 0);
  }
  CHECK(fault_in("\tGPU0\tGPU1\nGPU0\t X \tNV?\nGPU1\tNV4\t X \n", read_nvidia_smi_topology)
            .find(":2:10: error: 'NV?'") == 0);
  CHECK(fault_in("\tGPU0\tGPU1\nGPU1\tX\tNV4\n", read_nvidia_smi_topology)
            .find(":2:1: error: row GPU1") == 0);
  CHECK(fault_in("hello\n", read_nvidia_smi_topology).find("error: no line of GPU0") !=
        std::string::npos);
  CHECK(fault_in("NodeName=a Gres=gpu:h100:8x State=IDLE\n", slurm)
            .find(":1:17: error: the GPUs of Gres") == 0);
  CHECK(fault_in("PARTITION AVAIL\nbatch up\n", slurm).find(":1:1: error: no NodeName=") == 0);
  CHECK(fault_in("NODELIST GRES\nn[1-2 gpu:8\n", slurm).find(":2:6: error: expected ']'") == 0);
  CHECK(fault_in("{\"kind\": \"List\"}", read_kubernetes).find(":1:1: error: no list of items") ==
        0);
  CHECK(fault_in("{\"items\": [{\"metadata\": {\"name\": \"a\"},\n \"status\": {\"allocatable\": "
                 "{\"nvidia.com/gpu\": \"x\"}}}]}",
                 read_kubernetes)
            .find(":2:47: error: 'x'") == 0);
}

}  // namespace
}  // namespace stepcast::interop
