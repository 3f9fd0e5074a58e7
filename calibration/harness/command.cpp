#include "harness/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "harness/nccl_table.h"
#include "harness/options.h"
#include "harness/output.h"
#include "harness/plan.h"
#include "harness/progress.h"
#include "harness/run.h"
#include "stepcast/config/config.h"

namespace stepcast::harness {
namespace {

constexpr const char* kAssumed = "h100-sxm";  // by a dry run without a GPU and without --device

struct Machine {
  std::unique_ptr<Device> device;
  interop::GpuSession session;
  Abilities abilities;
};

Machine open(const Options& o, const Hooks& hooks) {
  Machine m;
  m.device = hooks.open(o.gpu);
  m.session = m.device->session();
  m.session.harness = STEPCAST_HARNESS_VERSION;
  const std::vector<int> nodes = hooks.gpus_per_node();
  int gpus = nodes.empty() ? m.session.gpus : *std::min_element(nodes.begin(), nodes.end());
  if (o.gpus > gpus) {
    throw UsageError(fmt::format("--gpus {}: there are {}", o.gpus, gpus));
  }
  gpus = o.gpus > 0 ? o.gpus : gpus;
  m.abilities = abilities_of(m.session, gpus, std::max<int>(1, static_cast<int>(nodes.size())));
  return m;
}

PlanOptions plan_options(const Options& o) {
  PlanOptions p;
  p.only = o.only;
  p.models = o.models;
  p.seed = o.seed;
  p.policy.seed = o.seed;
  return p;
}

int list(std::ostream& out) {
  out << "kinds:";
  for (const std::string_view kind : kKinds) {
    out << ' ' << kind;
  }
  out << "\ndevices:";
  for (const std::string& name : config::list("devices")) {
    out << ' ' << name;
  }
  out << "\nmodels:";
  for (const std::string& name : config::list("models")) {
    out << ' ' << name;
  }
  out << '\n';
  return 0;
}

int dry_run(const Options& o, const Hooks& hooks, std::ostream& out) {
  Abilities on;
  std::string of;
  if (o.device.empty()) {
    try {
      const Machine m = open(o, hooks);
      on = m.abilities;
      of = m.session.gpu;
    } catch (const NoDevice&) {
      on = abilities_of(config::device(kAssumed), std::max(o.gpus, 1), 1);
      of = fmt::format("{} (no GPU here: --device names another)", kAssumed);
    }
  } else {
    on = abilities_of(config::device(o.device), std::max(o.gpus, 1), 1);
    of = o.device;
  }
  const std::vector<Planned> plan = make_plan(on, plan_options(o));
  const double budget = 60 * o.minutes;
  double used = 0;
  double all = 0;
  std::size_t fit = 0;
  out << fmt::format("# on {}, {} GPU{}; case, estimated seconds\n", of, on.gpus * on.nodes,
                     on.gpus * on.nodes == 1 ? "" : "s");
  for (const Planned& planned : plan) {
    all += planned.seconds;
    if (used + planned.seconds > budget) {
      continue;  // as run() passes it over for shorter ones
    }
    used += planned.seconds;
    ++fit;
    out << fmt::format("{:<76} {:8.2f}\n", planned.key, planned.seconds);
  }
  out << fmt::format("# {} measurements in {} min; all {} would take {} min (--minutes {})\n", fit,
                     minutes(used), plan.size(), minutes(all), o.minutes);
  return 0;
}

void summary(const RunResult& r, const Output& output, const Options& o, std::ostream& err) {
  err << fmt::format("calibrate-gpu: {} measured in {} min", r.measured, minutes(r.elapsed));
  if (r.before > 0) {
    err << fmt::format(", {} stood there before", r.before);
  }
  if (r.skipped > 0) {
    err << fmt::format(", {} not possible here", r.skipped);
  }
  err << fmt::format(": {}\n", output.file().string());
  if (r.not_built_in > 0) {
    err << fmt::format("calibrate-gpu: {} need a library that this build was made without\n",
                       r.not_built_in);
  }
  if (r.wide > 0) {
    err << fmt::format(
        "calibrate-gpu: warning: {} with repetitions more than 25 % apart: is the GPU in other "
        "use?\n",
        r.wide);
  }
  if (r.left_over > 0 && !r.interrupted && r.failure.empty()) {
    err << fmt::format(
        "calibrate-gpu: {} more did not fit into {} min (about {} min): the same command goes on\n",
        r.left_over, o.minutes, minutes(r.left_over_seconds));
  }
}

int measure(const Options& o, const Hooks& hooks, std::ostream& out, std::ostream& err,
            bool terminal) {
  const Machine m = open(o, hooks);
  const PlanOptions options = plan_options(o);
  const std::vector<Planned> plan = make_plan(m.abilities, options);
  RunResult result;
  std::filesystem::path file;
  {
    Output output(o.output.empty() ? default_output(m.session.gpu) : o.output, m.session);
    file = output.file();
    const Progress::Style style = o.quiet    ? Progress::Style::none
                                  : terminal ? Progress::Style::bar
                                             : Progress::Style::lines;
    Progress progress(err, style, plan.size(), 60 * o.minutes);
    result = run(*m.device, plan, options.policy, 60 * o.minutes, output, progress, hooks.stop,
                 hooks.clock);
    if (!o.quiet) {
      summary(result, output, o, err);
    }
  }
  if (!result.failure.empty()) {
    err << fmt::format("calibrate-gpu: the device failed at {}\n", result.failure);
    err << "calibrate-gpu: what was measured is kept; the same command goes on behind this case\n";
    return 1;
  }
  if (result.interrupted) {
    err << fmt::format(
        "calibrate-gpu: interrupted; what was measured is in {}, the same command goes on\n",
        file.string());
    return 130;
  }
  if (o.nccl_table) {
    write_nccl_tables(out, m.session, interop::read_gpu_measurements(file).measurements);
  }
  return 0;
}

}  // namespace

int command(int argc, const char* const* argv, const Hooks& hooks, std::ostream& out,
            std::ostream& err, bool terminal) {
  try {
    const Options o = parse_options(argc, argv);
    if (!o.help.empty()) {
      out << o.help;
      return 0;
    }
    if (o.list) {
      return list(out);
    }
    return o.dry_run ? dry_run(o, hooks, out) : measure(o, hooks, out, err, terminal);
  } catch (const InputError& e) {
    for (const Fault& fault : e.faults()) {
      err << (fault.where.line > 0
                  ? to_string(fault)
                  : fmt::format("calibrate-gpu: {}: {}", fault.where.file, fault.message))
          << '\n';
    }
    return 2;
  } catch (const UsageError& e) {
    err << "calibrate-gpu: " << e.what() << '\n';
    return 2;
  } catch (const NoDevice& e) {
    err << "calibrate-gpu: " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    err << "calibrate-gpu: " << e.what() << '\n';
    return 1;
  }
}

}  // namespace stepcast::harness
