// The subcommands, one file each. `add_*` declares options on `app` and returns what runs once they
// are parsed: the exit status. Nothing here computes: files are read, rooms are called, text is
// written.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace stepcast::cli {

enum Status { done = 0, cannot_run = 1, bad_input = 2 };

using Run = std::function<int()>;

Run add_job(CLI::App& app);  // no subcommand: the main job
Run add_validate(CLI::App& app);
Run add_explain(CLI::App& app);
Run add_export(CLI::App& app);
Run add_collective(CLI::App& app);
Run add_calibrate(CLI::App& app);
Run add_calibrate_nccl(CLI::App& app);
Run add_calibrate_gpu(CLI::App& app);
Run add_calibrate_runs(CLI::App& app);
Run add_goodput(CLI::App& app);
Run add_kernels(CLI::App& app);
Run add_memory(CLI::App& app);
Run add_plan(CLI::App& app);
Run add_schedule(CLI::App& app);
Run add_schema(CLI::App& app);
Run add_search(CLI::App& app);
Run add_serve(CLI::App& app);
Run add_sweep(CLI::App& app);
Run add_systems(CLI::App& app);
Run add_compare(CLI::App& app);

}  // namespace stepcast::cli
