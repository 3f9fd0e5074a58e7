// The folder of logs that nccl-tests wrote.
#pragma once

#include <filesystem>

namespace stepcast::test {

inline const std::filesystem::path kNcclLogs =
    std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests/unit/interop/nccl_logs";

}  // namespace stepcast::test
