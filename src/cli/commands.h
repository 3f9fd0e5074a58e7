// The subcommands, one file each. `add_*` declares options on `app` and returns the function that
// runs once they are parsed and gives the exit status. Nothing is computed here: files are read,
// rooms are called, text is written.
#pragma once

#include "command_line/arguments.h"

namespace stepcast::cli {

enum Status { done = 0, cannot_run = 1, bad_input = 2 };

Run add_job(Command& app);  // no subcommand: the main job
Run add_validate(Command& app);
Run add_explain(Command& app);
Run add_export(Command& app);
Run add_collective(Command& app);
Run add_calibrate(Command& app);
Run add_calibrate_nccl(Command& app);
Run add_calibrate_gpu(Command& app);
Run add_calibrate_runs(Command& app);
Run add_calibrate_trace(Command& app);
Run add_capture(Command& app);
Run add_goodput(Command& app);
Run add_kernels(Command& app);
Run add_memory(Command& app);
Run add_completion(Command& app, const Command& program);
Run add_man(Command& app, const Command& program);
Run add_diff(Command& app);
Run add_models(Command& app);
Run add_devices(Command& app);
Run add_clusters(Command& app);
Run add_jobs(Command& app);
Run add_schedules(Command& app);
Run add_plan(Command& app);
Run add_schedule(Command& app);
Run add_schema(Command& app);
Run add_search(Command& app);
Run add_serve(Command& app);
Run add_sweep(Command& app);
Run add_systems(Command& app);
Run add_compare(Command& app);
Run add_trace(Command& app);

}  // namespace stepcast::cli
