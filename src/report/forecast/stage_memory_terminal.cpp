#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../memory/memory_kinds.h"
#include "../text/bar.h"
#include "../text/text_table.h"
#include "stage_rows.h"
#include "terminal_sections.h"
#include "time_kinds.h"

namespace stepcast::report {
namespace {

using result::Report;
using result::StageMemory;
using Align = TextTable::Align;

constexpr BarKind kFree{"free", "·", "2"};

using Parts = std::array<double, kMemoryKinds.size()>;  // bytes

Parts parts_of(const StageMemory& m) {
  Parts out{};
  for (std::size_t i = 0; i < result::kMemoryParts.size(); ++i) {
    out[i] = bytes_of(m.*result::kMemoryParts[i]);
  }
  out[result::kMemoryParts.size()] = bytes_of(std::max(Bytes(0), m.reserved - m.allocated));
  out.back() = bytes_of(std::max(Bytes(0), m.process - std::max(m.reserved, m.allocated)));
  return out;
}

}  // namespace

std::string stage_memory_text(const Report& report, const Paint& paint, int width) {
  if (report.memory.empty()) {
    return "";
  }
  std::size_t worst = 0;
  std::vector<Parts> all;
  for (std::size_t i = 0; i < report.memory.size(); ++i) {
    all.push_back(parts_of(report.memory[i]));
    worst = report.memory[i].process > report.memory[worst].process ? i : worst;
  }
  const auto capacity = bytes_of(report.capacity);
  const double whole = std::max(capacity, bytes_of(report.memory[worst].process));
  std::vector<std::pair<std::string, Parts>> rows;
  for (const std::size_t i : rows_of_stages(all.size(), worst)) {
    const bool marked = all.size() > kMaxStages && i == worst;
    rows.emplace_back(fmt::format("{}{}", report.memory[i].stage, marked ? " (most)" : ""), all[i]);
  }
  if (all.size() > kMaxStages) {
    rows.emplace_back(fmt::format("mean of {}", all.size()), mean_of(all));
  }
  const auto fill = [&](TextTable& table, int bar) {
    for (const auto& [name, parts] : rows) {
      const double process = std::accumulate(parts.begin(), parts.end(), 0.0);
      table.row({name,
                 stacked_bar({kMemoryKinds.begin(), kMemoryKinds.end()},
                             {parts.begin(), parts.end()}, whole, bar, kFree, paint, capacity),
                 gibibytes(parts[0]), gibibytes(parts[1]), gibibytes(parts[2]), gibibytes(parts[3]),
                 gibibytes(process - parts[0] - parts[1] - parts[2] - parts[3]), gibibytes(process),
                 capacity > 0 ? percent(process / capacity) : "-"});
    }
  };
  TextTable table({{"stage", Align::left},
                   {"", Align::left, true},
                   {"param."},
                   {"grad."},
                   {"optim."},
                   {"activ."},
                   {"rest"},
                   {"peak"},
                   {"used"}});
  TextTable measure = table;
  fill(measure, 0);
  const int bar = std::clamp(width - measure.width_without_bar(), kMinBar, kMaxBar);
  fill(table, bar);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < kMemoryKinds.size(); ++i) {
    const double most = all[worst][i];
    values.push_back(most >= kMinShare * whole ? gibibytes(most) : "");
  }
  return heading(paint, "Memory per GPU at its peak",
                 fmt::format("GiB; bar: {}; list: stage {}",
                             whole > capacity
                                 ? fmt::format("{}, !: beyond the capacity", gibibytes(whole))
                                 : fmt::format("capacity, {}", gibibytes(capacity)),
                             report.memory[worst].stage),
                 width) +
         table.text(paint, width, bar) +
         legend({kMemoryKinds.begin(), kMemoryKinds.end()}, values, width, paint);
}

}  // namespace stepcast::report
