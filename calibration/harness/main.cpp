#include <cstdio>

#include "device.h"

int main() {
  try {
    stepcast::harness::open_device(0);
  } catch (const stepcast::harness::NoDevice& e) {
    std::fprintf(stderr, "calibrate-gpu: %s\n", e.what());
    return 2;
  }
  return 0;
}
