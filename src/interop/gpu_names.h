// Words of measurement records: what stands in them, and what messages list as expected.
#pragma once

#include <array>
#include <string_view>

#include "stepcast/job/job.h"

namespace stepcast::interop {

inline constexpr std::array kRecordNames{
    std::string_view{"session"}, std::string_view{"gemm"},       std::string_view{"attention"},
    std::string_view{"memory"},  std::string_view{"copy"},       std::string_view{"launch"},
    std::string_view{"overlap"}, std::string_view{"collective"}, std::string_view{"layer"}};

inline constexpr std::array kLayoutNames{
    std::string_view{"forward"}, std::string_view{"input_grad"}, std::string_view{"weight_grad"}};

// What cost::MemoryOp names, its elementwise as add.
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

inline constexpr std::array kAttentionNames{std::string_view{"unfused"}, std::string_view{"flash1"},
                                            std::string_view{"flash2"}, std::string_view{"flash3"},
                                            std::string_view{"cudnn"}};

inline constexpr std::array kDTypes{job::DType::fp32,  job::DType::tf32,  job::DType::bf16,
                                    job::DType::fp16,  job::DType::fp8,   job::DType::fp8_block,
                                    job::DType::mxfp8, job::DType::nvfp4, job::DType::int8};

}  // namespace stepcast::interop
