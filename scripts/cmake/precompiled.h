// Library headers that most files include and that take longest to compile. Every file must still
// include what it uses, since builds without STEPCAST_PRECOMPILED do not use this header.
#pragma once

// fmt 9 sets -Og by a pragma and then restores the options. In a precompiled header g++ 12 loses
// the second pragma, and the compiler's own intrinsics then fail to compile at -O0.
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
