// RCCL has NCCL's interface and names.
#pragma once

#include <rccl/rccl.h>
