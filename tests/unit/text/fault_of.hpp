// The message that a user sees for a faulty input: "LINE:COLUMN message", or "" if there is no
// fault.
#pragma once

#include <string>

#include "stepcast/base/diagnostics.h"

template <class Action>
std::string fault_of(Action action) {
  try {
    action();
  } catch (const stepcast::InputError& e) {
    const stepcast::Fault& fault = e.faults().front();
    return std::to_string(fault.where.line) + ":" + std::to_string(fault.where.column) + " " +
           fault.message;
  }
  return "";
}
