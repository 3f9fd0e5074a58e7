// What a run's money is for: for sentences and for JSON.
#pragma once

#include <string>

#include "../record/value.h"
#include "stepcast/result/expenses.h"

namespace stepcast::report {

// "depreciation 250 k, interest 31 k, electricity 38.6 k"; "rent".
std::string expense_words(const result::Expenses& expenses);
Record expense_fields(const result::Expenses& expenses);

}  // namespace stepcast::report
