// Headers of the library that most files include and that take longest to read. A file includes
// what it uses all the same: builds without STEPCAST_BATCHES do not have this.
#pragma once

// fmt 9 switches on -Og by pragma and takes it back; g++ 12 loses the second in a precompiled
// header, and the compiler's own intrinsics then fail to compile at -O0.
#define FMT_GCC_PRAGMA(pragma)

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
