// A played schedule as JSON.
#include "../record/value.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

Record task_fields(const schedule::Played::Task& t) {
  return {{"rank", t.rank},
          {"stage", t.stage},
          {"micro_batch", t.micro_batch},
          {"kind", std::string(1, static_cast<char>(t.pass))},
          {"start", t.start},
          {"end", t.end}};
}

}  // namespace

std::string json(const schedule::Played& played) {
  const auto same = [](auto x) { return x; };
  return json_of({{"makespan", played.makespan},
                  {"idle", list(played.idle, same)},
                  {"idle_inside", list(played.idle_inside, same)},
                  {"peak_until_w", list(played.peak_until_w, same)},
                  {"peak_until_i", list(played.peak_until_i, same)},
                  {"tasks", rows(played.tasks, task_fields)}});
}

}  // namespace stepcast::report
