// Fields of a validation, for JSON, CSV, Markdown, the terminal and the page.
#pragma once

#include "../record/value.h"
#include "stepcast/result/validation.h"

namespace stepcast::report {

Record validation_summary_fields(const result::ValidationSummary& summary);
Record skip_fields(const result::SkipCount& skip);

// "; not stated: sequence length, recomputation", or nothing.
std::string not_stated(const result::ValidationRow& row);
// Rows by the size of their error, the largest first.
void sort_by_error(std::vector<const result::ValidationRow*>& rows);

}  // namespace stepcast::report
