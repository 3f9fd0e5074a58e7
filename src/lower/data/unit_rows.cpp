// megatron-core 0.16.1, distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py:1417
// (chunk_size_factor) and :265 (build_data_parallel_buffer_index); 0.19.2 :1872, :257.
#include "unit_rows.h"

#include <algorithm>
#include <numeric>

namespace stepcast::lower {
namespace {

struct RowItem {
  std::int64_t elements = 0;
  std::int64_t row = 1;
};

// A parameter each, those of the longest rows first.
std::vector<RowItem> row_items(const std::vector<Array>& arrays, bool expert) {
  std::vector<RowItem> out;
  for (const Array& a : arrays) {
    if (a.expert != expert || a.elements == 0) {
      continue;
    }
    const bool matrix = a.rows > 0 && a.columns > 0;
    const std::int64_t one = matrix ? a.rows * a.columns : a.elements;
    for (std::int64_t n = 0; n < std::max<std::int64_t>(1, a.elements / one); ++n) {
      out.push_back({one, matrix ? a.columns : 1});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const RowItem& a, const RowItem& b) { return a.row > b.row; });
  return out;
}

std::int64_t row_chunk(const std::vector<RowItem>& items) {
  std::int64_t chunk = items.front().row;
  for (const RowItem& i : items) {
    const bool fits = chunk % i.row == 0 && (i.row == chunk || i.elements % chunk == 0);
    if (!fits && i.elements >= chunk) {
      chunk = std::lcm(chunk, i.row);
    }
  }
  return chunk;
}

}  // namespace

std::int64_t row_bucket(const std::vector<Array>& arrays, bool expert, std::int64_t ranks) {
  const std::vector<RowItem> items = row_items(arrays, expert);
  if (items.empty()) {
    return 0;
  }
  const std::int64_t chunk = row_chunk(items);
  std::vector<std::int64_t> small, large;
  for (const RowItem& i : items) {
    (i.elements < chunk ? small : large).push_back(i.elements);
  }
  std::int64_t end = 0;
  for (std::size_t n = 0; n < large.size(); ++n) {
    const std::int64_t remnant = large[n] % chunk;
    end += large[n] - remnant;
    if (remnant == 0) {
      continue;
    }
    end += chunk;
    std::int64_t space = chunk - remnant;
    const auto fits = [&](std::int64_t other) {
      return other % chunk != 0 && other % chunk <= space;
    };
    const auto other =
        std::find_if(large.begin() + static_cast<std::ptrdiff_t>(n) + 1, large.end(), fits);
    if (other != large.end()) {
      space -= *other % chunk;
      end += *other - *other % chunk;
      large.erase(other);
    }
    std::erase_if(small, [&](std::int64_t elements) {
      const bool goes = elements <= space;
      space -= goes ? elements : 0;
      return goes;
    });
  }
  end = std::accumulate(small.begin(), small.end(), end);
  const std::int64_t multiple = ranks * chunk;
  return (end + multiple - 1) / multiple * multiple;
}

}  // namespace stepcast::lower
