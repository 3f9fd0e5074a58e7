// Commands about measurements: comparing with them, calibrating by them, recording and reading
// them.
#pragma once

#include "../command_line/arguments.h"

namespace stepcast::cli {

Run add_validate(Command& app);
Run add_calibrate(Command& app);
Run add_calibrate_nccl(Command& app);
Run add_calibrate_gpu(Command& app);
Run add_calibrate_runs(Command& app);
Run add_calibrate_trace(Command& app);
Run add_capture(Command& app);
Run add_trace(Command& app);

}  // namespace stepcast::cli
