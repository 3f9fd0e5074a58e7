// simulate schedule NAME: play a pipeline schedule on given stage times, without a cluster.
#include "stepcast/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "command_line.h"
#include "commands.h"
#include "output.h"
#include "stepcast/report/report.h"

namespace stepcast::cli {
namespace {

struct Options {
  std::string name;
  std::string stages, micro_batches;
  std::string times = "1,1,1";
  std::string chunks, group, comm = "0", memory_limit, extra_warmup;
  std::string json, svg;
  bool list = false;
};

// The option that states the key an impossible schedule blames.
std::string option_of(const std::string& key) {
  static constexpr std::array<std::pair<const char*, const char*>, 7> options{{
      {"parallelism.pipeline", "--stages"},
      {"parallelism.virtual_pipeline", "--chunks"},
      {"parallelism.schedule.group", "--group"},
      {"parallelism.schedule.extra_warmup", "--extra-warmup"},
      {"parallelism.schedule.memory_limit", "--memory-limit"},
      {"workload.global_batch", "--micro-batches"},
      {"workload.micro_batch", "--micro-batches"},
  }};
  const auto* found = std::find_if(options.begin(), options.end(),
                                   [&](const auto& entry) { return key == entry.first; });
  return found == options.end() ? "schedule" : found->second;
}

template <class T>
T feasible(std::variant<T, Infeasible>&& outcome, const std::string& name) {
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    const std::string option = option_of(why->key);
    throw option_fault(option == "schedule" ? "schedule " + name : option, why->reason);
  }
  return std::get<T>(std::move(outcome));
}

std::string table(const schedule::Played& played) {
  std::string text =
      fmt::format("makespan {}\n\n{:>4} {:>12} {:>14} {:>12} {:>12}\n", played.makespan, "rank",
                  "idle", "idle inside", "peak to W", "peak to I");
  for (std::size_t rank = 0; rank < played.idle.size(); ++rank) {
    text +=
        fmt::format("{:>4} {:>12} {:>14} {:>12} {:>12}\n", rank, played.idle[rank],
                    played.idle_inside[rank], played.peak_until_w[rank], played.peak_until_i[rank]);
  }
  return text;
}

int run(const Options& given) {
  if (given.list) {
    std::string text;
    for (const schedule::Entry& entry : schedule::table()) {
      text += fmt::format("{:<18} {}\n", entry.name, entry.summary);
    }
    write_stdout("--list", text);
    return done;
  }
  if (given.name.empty()) {
    throw option_fault("schedule",
                       "its name is missing; expected one that simulate schedule --list prints");
  }
  for (const auto& [option, text] :
       {std::pair{"--stages", &given.stages}, std::pair{"--micro-batches", &given.micro_batches}}) {
    if (text->empty()) {
      throw option_fault(option, "missing; expected an integer of at least 1");
    }
  }
  if (!given.memory_limit.empty()) {
    throw option_fault(
        "--memory-limit",
        fmt::format("schedule '{}' takes no memory limit; expected one that is built to a limit",
                    given.name));
  }
  schedule::Request request;
  request.stages = integer_option("--stages", given.stages, 1);
  request.micro_batches = integer_option("--micro-batches", given.micro_batches, 1);
  request.chunks = given.chunks.empty() ? 1 : integer_option("--chunks", given.chunks, 1);
  request.group = given.group.empty() ? 0 : integer_option("--group", given.group, 1);
  request.extra_warmup =
      given.extra_warmup.empty() ? 0 : integer_option("--extra-warmup", given.extra_warmup, 0);
  // Every pass of every rank is listed: beyond this a schedule is no picture that anyone reads.
  constexpr double kMostPasses = 5e6;
  if (3.0 * request.stages * request.micro_batches * request.chunks > kMostPasses) {
    throw option_fault(
        "--micro-batches",
        fmt::format("{} stages x {} micro-batches x {} chunks are too many to play; "
                    "expected at most {:.0f} passes",
                    request.stages, request.micro_batches, request.chunks, kMostPasses));
  }
  const std::vector<double> times = number_list("--times", given.times, 3);
  const schedule::Times costs{times[0], times[1], times[2],
                              number_list("--comm", given.comm, 1)[0]};

  const auto order = feasible(schedule::make(given.name, request), given.name);
  const auto played = feasible(schedule::play(order, request, costs), given.name);

  std::optional<OutputFile> svg;
  if (given.svg == "-") {
    write_stdout("--svg -", report::svg(played));
  } else if (!given.svg.empty()) {
    svg.emplace("--svg", given.svg);
    svg->write(report::svg(played));
  }
  std::optional<OutputFile> json;
  if (given.json == "-") {
    write_stdout("--json -", report::json(played));
  } else if (!given.json.empty()) {
    json.emplace("--json", given.json);
    json->write(report::json(played));
  }
  if (given.json != "-" && given.svg != "-") {
    write_stdout("schedule", table(played));
  }
  for (auto* file : {&svg, &json}) {
    if (*file) {
      (*file)->commit();
    }
  }
  return done;
}

}  // namespace

Run add_schedule(CLI::App& app) {
  auto given = std::make_shared<Options>();
  app.add_option("name", given->name, "schedule, as --list prints")->type_name("NAME");
  app.add_option("--stages", given->stages, "pipeline ranks")->type_name("P");
  app.add_option("--micro-batches", given->micro_batches, "micro-batches of one step")
      ->type_name("M");
  app.add_option("--times", given->times,
                 "forward, input-gradient and weight-gradient time of a whole rank")
      ->type_name("F,I,W")
      ->capture_default_str();
  app.add_option("--chunks", given->chunks, "model chunks per rank (1)")->type_name("V");
  app.add_option("--group", given->group, "micro-batches per virtual-pipeline group (the stages)")
      ->type_name("N");
  app.add_option("--comm", given->comm, "time between neighbouring stages")
      ->type_name("T")
      ->capture_default_str();
  app.add_option("--memory-limit", given->memory_limit, "for schedules built to a limit")
      ->type_name("PEAKS");
  app.add_option("--extra-warmup", given->extra_warmup,
                 "more forwards before the first backward (0)")
      ->type_name("N");
  app.add_option("--json", given->json, "write the result as JSON (- is standard output)")
      ->type_name("FILE");
  app.add_option("--svg", given->svg, "draw it (- is standard output)")->type_name("FILE");
  app.add_flag("--list", given->list, "print the schedules");
  app.footer(
      "Examples:\n"
      "  simulate schedule 1f1b --stages 4 --micro-batches 8 --times 1,1,1\n"
      "  simulate schedule interleaved_1f1b --stages 4 --micro-batches 8 --chunks 2 --json -");
  return [given] { return run(*given); };
}

}  // namespace stepcast::cli
