#include "stepcast/text/cells.h"

#include <fmt/format.h>

#include <cctype>

namespace stepcast::text {

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c == '-' || c == '_' || c == ' ') {
      out += '-';
    }
  }
  return out;
}

const std::string& Cells::text(const char* column) const {
  return table_->rows[row_][static_cast<std::size_t>(table_->column(column))];
}

std::int64_t Cells::size(const char* column, std::int64_t most) {
  const auto value = number<std::int64_t>(text(column));
  if (!value || *value < 1 || *value > most) {
    fault(fmt::format("{} is '{}'; expected a whole number from 1", column, text(column)));
    return 1;
  }
  return *value;
}

double Cells::positive(const char* column, double most) {
  const auto value = number<double>(text(column));
  if (!value || !(*value > 0) || *value > most) {
    fault(fmt::format("{} is '{}'; expected a positive number", column, text(column)));
    return 1;
  }
  return *value;
}

void Cells::fault(std::string message) {
  good_ = false;
  if (faults_->size() < kMaxFaults) {
    faults_->push_back({{table_->file, line(), 1}, std::move(message)});
  }
}

}  // namespace stepcast::text
