// Words of measurement records, as they are written there and as messages list what is expected.
#pragma once

#include <array>
#include <string_view>

#include "stepcast/terms/kernels.h"

namespace stepcast::interop {

inline constexpr std::array kRecordNames{
    std::string_view{"session"}, std::string_view{"gemm"},       std::string_view{"attention"},
    std::string_view{"memory"},  std::string_view{"copy"},       std::string_view{"launch"},
    std::string_view{"overlap"}, std::string_view{"collective"}, std::string_view{"layer"}};

inline constexpr std::array kLayoutNames{
    std::string_view{"forward"}, std::string_view{"input_grad"}, std::string_view{"weight_grad"}};

// The operators of cost::MemoryOp, where `add` is its elementwise.
inline constexpr std::array kMemoryNames{
    std::string_view{"copy"},      std::string_view{"add"},           std::string_view{"norm"},
    std::string_view{"softmax"},   std::string_view{"activation"},    std::string_view{"dropout"},
    std::string_view{"embedding"}, std::string_view{"cross_entropy"}, std::string_view{"optimizer"},
    std::string_view{"permute"}};

inline constexpr std::array kDirectionNames{std::string_view{"h2d"}, std::string_view{"d2h"},
                                            std::string_view{"both"}, std::string_view{"d2d"}};

inline constexpr std::array kLaunchNames{
    std::string_view{"launch"},       std::string_view{"gap"},
    std::string_view{"graph_launch"}, std::string_view{"graph_kernel"},
    std::string_view{"event_record"}, std::string_view{"stream_wait"},
    std::string_view{"synchronize"}};

inline constexpr auto kAttentionNames = words_of<AttentionKernel>();

}  // namespace stepcast::interop
