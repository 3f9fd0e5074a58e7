// simulate kernels: predicted kernel times compared with measured points.
#include "stepcast/validate/kernels.h"

#include <fmt/format.h>

#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/preset_file.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/config/config.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct KernelsOptions {
  std::string device, library, compare, json;
  std::vector<std::string> calibration;
};

job::Device device_option(const std::string& name) {
  try {
    return config::device(name);
  } catch (const InputError& error) {
    std::vector<Fault> faults = error.faults();
    for (Fault& fault : faults) {
      if (fault.where.line == 0) {
        fault.where.file = "--device";
      }
    }
    throw InputError(std::move(faults));
  }
}

int run_kernels(const KernelsOptions& given) {
  if (given.device.empty()) {
    throw option_fault("--device", "missing; expected a device such as h100-sxm");
  }
  if (given.compare.empty()) {
    throw option_fault("--compare",
                       "missing; expected measured points: a CSV, or JSON lines of calibrate-gpu");
  }
  const job::Device device = device_option(given.device);
  require_calibration(given.calibration);
  Outputs outputs;
  outputs.add("--json", given.json);
  const auto validation = validate::compare_kernels(device, given.library, text::data_directory(),
                                                    given.compare, given.calibration);
  outputs.give("--json", [&] { return report::json(validation); });
  outputs.finish("kernels", [&] {
    // Tables of points run to thousands of rows: summaries and the worst are for people.
    constexpr std::size_t kReadable = 40;
    const std::string all = validation.rows.size() <= kReadable
                                ? report::points(validation, terminal_colour()) + "\n"
                                : std::string();
    return all + report::terminal(validation, terminal_colour());
  });
  return done;
}

}  // namespace

Run add_kernels(Command& app) {
  auto given = std::make_shared<KernelsOptions>();
  app.add_option("--device", given->device, "the device, a name in configs/devices")
      .type_name("NAME");
  app.add_option("--library", given->library,
                 "library whose GEMM curves are used: cublas, trtllm, vllm; left out: the one that "
                 "the table's kernel column names, else cublas")
      .type_name("NAME");
  app.add_option(
         "--compare", given->compare,
         "measured points: a CSV with gpu, dtype, m, n, k, batch, time_us; a table of attention, "
         "fused experts or memory-bound operators; or JSON lines of calibrate-gpu")
      .type_name("FILE");
  app.add_option("--calibration", given->calibration,
                 "a file or folder of simulate calibrate gpu, which takes precedence over the "
                 "committed ones; may come several times")
      .type_name("PATH")
      .one_value();
  add_output(app, "--json", given->json, "write the result as JSON");
  app.footer =
      "Examples:\n"
      "  simulate kernels --device h100-sxm --compare points.csv\n"
      "  simulate kernels --device h200-sxm --compare new.jsonl --calibration my-h200\n"
      "  simulate kernels --device a100-sxm-80 --library trtllm --compare points.csv --json -";
  return [given] { return run_kernels(*given); };
}

}  // namespace stepcast::cli
