// Every kind of task of a program, some of them several times: of a million tasks, some thousands.
#pragma once

#include "stepcast/program/program.h"

namespace stepcast::lower {

template <class F>
void for_each_distinct_task(const program::Program& p, const F& f) {
  if (p.distinct.empty()) {
    for (const program::Task& t : p.tasks) {
      f(t);
    }
    return;
  }
  for (const auto& [from, to] : p.distinct) {
    for (std::uint32_t i = from; i < to; ++i) {
      f(p.tasks[i]);
    }
  }
}

}  // namespace stepcast::lower
