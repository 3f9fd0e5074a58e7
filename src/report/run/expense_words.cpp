#include "expense_words.h"

#include <fmt/format.h>

#include "../text/format.h"

namespace stepcast::report {
namespace {

struct Expense {
  const char* name;
  double result::Expenses::*amount;
};
constexpr Expense kExpenses[] = {{"rent", &result::Expenses::rent},
                                 {"depreciation", &result::Expenses::depreciation},
                                 {"interest", &result::Expenses::interest},
                                 {"electricity", &result::Expenses::electricity},
                                 {"colocation", &result::Expenses::colocation},
                                 {"staff", &result::Expenses::staff}};

}  // namespace

std::string expense_words(const result::Expenses& expenses) {
  if (expenses.rent > 0 && expenses.rent == expenses.sum()) {
    return "rent";
  }
  std::string out;
  for (const Expense& e : kExpenses) {
    if (expenses.*e.amount > 0) {
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", e.name, money(expenses.*e.amount));
    }
  }
  return out;
}

Record expense_fields(const result::Expenses& expenses) {
  Record out;
  for (const Expense& e : kExpenses) {
    out.push_back({e.name, expenses.*e.amount});
  }
  return out;
}

}  // namespace stepcast::report
