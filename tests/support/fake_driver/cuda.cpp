// A fake CUDA driver of one host: FAKE_GPUS GPUs of type FAKE_PRODUCT, all pairs connected by
// NVLink (unset: no GPUs). LD_LIBRARY_PATH loads it instead of the real driver.
#include <cstdlib>
#include <cstring>

extern "C" {
int cuInit(unsigned) { return std::getenv("FAKE_GPUS") == nullptr ? 100 : 0; }  // 100: no device
int cuDeviceGetCount(int* count) {
  *count = std::atoi(std::getenv("FAKE_GPUS"));
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* text, int size, int) {
  std::strncpy(text, std::getenv("FAKE_PRODUCT"), static_cast<std::size_t>(size) - 1);
  return 0;
}
int cuDeviceGetP2PAttribute(int* value, int attribute, int, int) {
  *value = attribute == 3 ? 1 : 0;
  return 0;
}
}
