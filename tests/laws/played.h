// Schedules by name, and the steps that they make; a test fails where there is none.
#pragma once

#include <string_view>
#include <utility>
#include <variant>

#include "catch.hpp"
#include "stepcast/schedule/schedule.h"

namespace stepcast::schedule {

inline Order order_of(std::string_view name, const Request& request) {
  auto made = make(name, request);
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    FAIL(name << ": " << no->reason);
  }
  return std::get<Order>(std::move(made));
}

inline Played played_of(const Order& order, const Request& request, const Times& times) {
  auto played = play(order, request, times);
  if (const auto* no = std::get_if<Infeasible>(&played)) {
    FAIL(no->reason);
  }
  return std::get<Played>(std::move(played));
}

inline Played played_of(std::string_view name, const Request& request, const Times& times) {
  return played_of(order_of(name, request), request, times);
}

}  // namespace stepcast::schedule
