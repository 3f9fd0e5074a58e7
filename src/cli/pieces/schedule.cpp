// simulate schedule NAME: play a pipeline schedule on given stage times, without a cluster.
#include "stepcast/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "../command_line/command_line.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/report/report.h"

namespace stepcast::cli {
namespace {

struct ScheduleOptions {
  std::string name;
  std::string stages, micro_batches;
  std::string times = "1,1,1";
  std::string chunks, group, comm = "0", vocabulary = "0,0", memory_limit, weight_memory,
                             extra_warmup;
  std::string json, svg, csv;
  bool oldest_first = false, round_forwards_first = false;
  bool list = false;
};

// The option for the job key that an impossible schedule blames.
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
  std::string text = fmt::format(
      "total time {}; activations: the most held at once until their weight (W) or "
      "input (I) gradient\n\n{:>4} {:>12} {:>18} {:>16} {:>16}\n",
      played.makespan, "rank", "idle", "idle mid-schedule", "activations, W", "activations, I");
  for (std::size_t rank = 0; rank < played.idle.size(); ++rank) {
    text +=
        fmt::format("{:>4} {:>12} {:>18} {:>16} {:>16}\n", rank, played.idle[rank],
                    played.idle_inside[rank], played.peak_until_w[rank], played.peak_until_i[rank]);
  }
  return text;
}

bool is_csv(const std::string& name) { return name.ends_with(".csv"); }

// Every pass of every rank is listed, which nobody can read beyond this number.
constexpr double kMaxPasses = 5e6;

schedule::Order order_from(const std::string& file) {
  constexpr std::size_t kMaxTable = 256 << 20;  // bytes; 5e6 passes take a tenth of it
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw option_fault(file, "cannot be opened; expected a schedule's table");
  }
  std::string text;
  std::string piece(1 << 16, '\0');
  while (text.size() <= kMaxTable &&
         (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)) {
    text.append(piece, 0, static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad() || text.size() > kMaxTable) {
    throw option_fault(file, "cannot be read; expected a schedule's table");
  }
  schedule::TablePlace place;
  auto order = schedule::from_csv(text, &place);
  if (const auto* why = std::get_if<Infeasible>(&order)) {
    throw InputError(Fault{{file, place.line, place.column}, why->reason});
  }
  return std::get<schedule::Order>(std::move(order));
}

// The request that the options state.
schedule::Request schedule_request(const ScheduleOptions& given) {
  for (const auto& [option, text] :
       {std::pair{"--stages", &given.stages}, std::pair{"--micro-batches", &given.micro_batches}}) {
    if (text->empty()) {
      throw option_fault(option, "missing; expected an integer of at least 1");
    }
  }
  const schedule::Entry* entry = schedule::find(given.name);
  for (const auto& [option, text] : {std::pair{"--memory-limit", &given.memory_limit},
                                     std::pair{"--weight-memory", &given.weight_memory}}) {
    if (!text->empty() && entry != nullptr && !entry->takes_memory_limit) {
      throw option_fault(
          option,
          fmt::format("schedule '{}' takes no memory limit; expected one that is built to a limit",
                      given.name));
    }
  }
  schedule::Request request;
  request.stages = integer_option("--stages", given.stages, 1);
  request.micro_batches = integer_option("--micro-batches", given.micro_batches, 1);
  request.chunks = integer_option("--chunks", given.chunks, 1, 1);
  request.group = integer_option("--group", given.group, 1, 0);
  request.oldest_first = given.oldest_first;
  request.round_forwards_first = given.round_forwards_first;
  request.extra_warmup = integer_option("--extra-warmup", given.extra_warmup, 0, 0);
  if (!given.memory_limit.empty()) {
    request.memory_limit = number_list("--memory-limit", given.memory_limit, 1)[0];
  }
  if (!given.weight_memory.empty()) {
    request.weight_memory = number_list("--weight-memory", given.weight_memory, 1)[0];
  }
  const int chunks = entry == nullptr ? request.chunks : std::max(entry->chunks, request.chunks);
  if (3.0 * request.stages * request.micro_batches * chunks > kMaxPasses) {
    throw option_fault("--micro-batches",
                       fmt::format("{} stages x {} micro-batches x {} chunks are too many to play; "
                                   "expected at most {:.0f} passes",
                                   request.stages, request.micro_batches, chunks, kMaxPasses));
  }
  return request;
}

void refuse_beside_a_table(const ScheduleOptions& given) {
  for (const auto& [option, text] :
       {std::pair{"--stages", &given.stages}, std::pair{"--micro-batches", &given.micro_batches},
        std::pair{"--chunks", &given.chunks}, std::pair{"--group", &given.group},
        std::pair{"--memory-limit", &given.memory_limit},
        std::pair{"--weight-memory", &given.weight_memory},
        std::pair{"--extra-warmup", &given.extra_warmup}}) {
    if (!text->empty()) {
      throw option_fault(
          option,
          fmt::format("'{}' already states this; expected no such option together with a table",
                      given.name));
    }
  }
}

int run_schedule(const ScheduleOptions& given) {
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
  const std::vector<double> times = number_list("--times", given.times, 3);
  const std::vector<double> vocabulary = number_list("--vocabulary", given.vocabulary, 2);
  const schedule::Times costs{times[0],      times[1],
                              times[2],      number_list("--comm", given.comm, 1)[0],
                              vocabulary[0], vocabulary[1]};
  schedule::Order order;
  schedule::Request request;
  if (is_csv(given.name)) {
    refuse_beside_a_table(given);
    order = order_from(given.name);
    request = schedule::request_of(order);
  } else {
    request = schedule_request(given);
    request.forward = costs.forward;
    request.input_grad = costs.input_grad;
    request.weight_grad = costs.weight_grad;
    request.comm = costs.comm;
    order = feasible(schedule::make(given.name, request), given.name);
  }
  const auto played = feasible(schedule::play(order, request, costs), given.name);

  Outputs outputs;
  outputs.add("--csv", given.csv);
  outputs.add("--svg", given.svg);
  outputs.add("--json", given.json);
  outputs.give("--csv", [&] { return schedule::to_csv(order, request.stages); });
  outputs.give("--svg", [&] {
    return report::svg(played, fmt::format("{}, {} stages, {} micro-batches", given.name,
                                           request.stages, request.micro_batches));
  });
  outputs.give("--json", [&] { return report::json(played); });
  outputs.finish("schedule", [&] { return table(played); });
  return done;
}

}  // namespace

Run add_schedule(Command& app) {
  auto given = std::make_shared<ScheduleOptions>();
  app.add_option("name", given->name, "a schedule that --list prints, or a table of passes (.csv)")
      .type_name("NAME");
  app.add_option("--stages", given->stages, "number of pipeline ranks").type_name("P");
  app.add_option("--micro-batches", given->micro_batches, "number of micro-batches of one step")
      .type_name("M");
  app.add_option("--times", given->times,
                 "times of the forward, input-gradient and weight-gradient passes of a whole rank")
      .type_name("F,I,W")
      .show_default();
  app.add_option("--chunks", given->chunks, "model chunks per rank (by default 1)").type_name("V");
  app.add_option("--group", given->group,
                 "micro-batches per virtual-pipeline group (by default the number of stages)")
      .type_name("N");
  app.add_option("--comm", given->comm, "time between neighbouring stages")
      .type_name("T")
      .show_default();
  app.add_option("--vocabulary", given->vocabulary,
                 "times of a rank's two passes over the vocabulary")
      .type_name("S,T")
      .show_default();
  app.add_option("--memory-limit", given->memory_limit,
                 "limit on live activations of schedules built to one, in multiples of 1f1b's peak "
                 "(by default 1)")
      .type_name("PEAKS");
  app.add_option("--weight-memory", given->weight_memory,
                 "share of a micro-batch's activations that is held until its weight gradient (by "
                 "default 1)")
      .type_name("SHARE");
  app.add_flag("--oldest-first", given->oldest_first,
               "gpipe's backward passes begin with the oldest micro-batch, as torch's do");
  app.add_flag("--round-forwards-first", given->round_forwards_first,
               "interleaved_1f1b with as many micro-batches as stages runs all forward passes "
               "first, as Megatron-LM's up to core 0.9");
  app.add_option("--extra-warmup", given->extra_warmup,
                 "further forward passes before the first backward pass (by default 0)")
      .type_name("N");
  add_output(app, "--json", given->json, "write the result as JSON");
  add_output(app, "--svg", given->svg, "draw the schedule");
  add_output(app, "--csv", given->csv, "write the order as PyTorch's pipelining reads it");
  app.add_flag("--list", given->list, "print the schedules");
  app.footer =
      "Examples:\n"
      "  simulate schedule 1f1b --stages 4 --micro-batches 8 --times 1,1,1\n"
      "  simulate schedule interleaved_1f1b --stages 4 --micro-batches 8 --chunks 2 --json -\n"
      "  simulate schedule zb_auto --stages 8 --micro-batches 24 --times 29.7,29.4,19.9 --comm "
      "0.53 --memory-limit 2 --svg zb.svg\n"
      "  simulate schedule my-order.csv --times 1,1,1";
  return [given] { return run_schedule(*given); };
}

}  // namespace stepcast::cli
