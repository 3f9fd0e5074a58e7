// A fake NVML of one host: GPUs of type FAKE_PRODUCT, connected as FAKE_WIRES says ("switch",
// "pairs"; unset: no GPUs). LD_LIBRARY_PATH loads it instead of the real library.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

struct PciInfo {  // nvmlPciInfo_t of nvml.h
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};
using Device = void*;

const char* product() { return std::getenv("FAKE_PRODUCT"); }
bool switched() { return std::strcmp(std::getenv("FAKE_WIRES"), "switch") == 0; }
unsigned gpus() { return switched() ? 8 : 4; }
unsigned links() { return switched() ? 18 : 12; }
unsigned index(Device device) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}
PciInfo place(unsigned gpu) {
  PciInfo out{};
  out.bus = 0x10 + gpu;
  return out;
}

}  // namespace

extern "C" {
int nvmlInit_v2() { return std::getenv("FAKE_WIRES") == nullptr ? 9 : 0; }  // 9: no driver
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = gpus();
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned gpu, Device* out) {
  *out = reinterpret_cast<Device>(static_cast<std::uintptr_t>(gpu + 1));
  return 0;
}
int nvmlDeviceGetName(Device, char* text, unsigned size) {
  std::strncpy(text, product(), size - 1);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* out) {
  *out = place(index(device));
  return 0;
}
int nvmlDeviceGetNvLinkState(Device, unsigned link, unsigned* active) {
  *active = link < links() ? 1 : 0;
  return link < 18 ? 0 : 2;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, unsigned* kind) {
  *kind = switched() ? 2 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned, PciInfo* out) {
  *out = switched() ? PciInfo{} : place(index(device) ^ 1U);
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(Device, int* major, int* minor) {
  *major = switched() ? 9 : 8;
  *minor = 0;
  return 0;
}
}
