#include "stage_rows.h"

namespace stepcast::report {

std::vector<std::size_t> rows_of_stages(std::size_t stages, std::size_t worst) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < stages; ++i) {
    if (stages <= kMaxStages || i == 0 || i == worst || i + 1 == stages) {
      rows.push_back(i);
    }
  }
  return rows;
}

}  // namespace stepcast::report
