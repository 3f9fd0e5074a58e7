// NVLink by generation, for readers that count links.
#pragma once

#include "stepcast/base/quantity.h"

namespace stepcast::interop {

// Rate of one link per direction, by compute capability x 10: 20 GB/s on Pascal, 25 from Volta to
// Hopper, 50 from Blackwell on (NVIDIA's data sheets: 160, 300, 600, 900, 1800 GB/s both ways over
// 4, 6, 12, 18, 18 links).
inline Bandwidth per_nvlink(int sm) { return Bandwidth(sm < 70 ? 20e9 : sm < 100 ? 25e9 : 50e9); }

}  // namespace stepcast::interop
