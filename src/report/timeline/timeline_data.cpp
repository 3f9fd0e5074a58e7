#include "timeline_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "../page/page_plot.h"
#include "../text/format.h"

namespace stepcast::report {
namespace {

using program::Category;
using program::Slice;
using program::Task;
using program::TaskKind;

constexpr std::int64_t kMaxTasks = 400'000;  // about 4 MB of a page
constexpr Time kNano{1000};

void put(std::string& out, std::uint64_t value) {
  while (value > 127) {
    out += static_cast<char>(128 | (value & 127));
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_signed(std::string& out, std::int64_t value) {
  put(out, value < 0 ? 2 * static_cast<std::uint64_t>(-(value + 1)) + 1
                     : 2 * static_cast<std::uint64_t>(value));
}

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

Time busy(const program::RankResult& r) {
  const auto of = [&](Category c) { return r.breakdown[static_cast<std::size_t>(c)]; };
  return of(Category::compute) + of(Category::recompute) + of(Category::optimizer);
}

const program::Program& program_of(const result::Report::Trace& t, std::uint32_t rank) {
  return t.world.programs[t.world.ranks[rank].program];
}

// A kind of task, as timeline.js shows it.
struct KindKey {
  std::uint32_t name;
  std::string colour, what;
  int pass, chunk;
  std::int64_t bytes, ranks;
  auto tie() const { return std::tie(name, colour, what, pass, chunk, bytes, ranks); }
  bool operator<(const KindKey& o) const { return tie() < o.tie(); }
};

std::string what_of(const Task& task, PassKind pass) {
  const std::string category = program::to_string(task.category);
  switch (pass) {
    case PassKind::forward:
      return "forward";
    case PassKind::backward:
      return "backward";
    case PassKind::recompute:
      return "recomputed";
    default:
      break;
  }
  return task.kind == TaskKind::kernel ? category : category + " communication";
}

void fill_sizes(const result::Report::Trace& t, std::uint32_t rank, const Task& task,
                KindKey& key) {
  const program::Rank& r = t.world.ranks[rank];
  if (task.kind == TaskKind::collective) {
    const auto& c =
        t.world.communicators[t.world.communicator_table[r.first_communicator + task.communicator]];
    key.bytes = t.world.shapes[c.shape].prices[task.price].bytes.count();
    key.ranks = c.size;
  } else if (task.kind == TaskKind::exchange) {
    const program::Program& p = program_of(t, rank);
    for (std::uint32_t i = 0; i < task.transfers; ++i) {
      const auto& transfer = p.transfers[task.first_transfer + i];
      const auto& channel =
          t.world.channels[t.world.channel_table[r.first_channel + transfer.channel]];
      key.bytes += t.world.shapes[channel.shape].prices[transfer.price].bytes.count();
    }
  }
}

}  // namespace

PassKind pass_of(const Task& task, const std::string& label) {
  if (task.category == Category::recompute) {
    return PassKind::recompute;
  }
  if (task.category != Category::compute || task.micro_batch == kNoMicroBatch) {
    return PassKind::none;
  }
  const bool back =
      label.find("backward") != std::string::npos || label.find("grad") != std::string::npos;
  return back ? PassKind::backward : PassKind::forward;
}

const char* colour_of(const Task& task, PassKind pass) {
  return pass == PassKind::forward    ? "forward"
         : pass == PassKind::backward ? "backward"
                                      : program::to_string(task.category);
}

TimelineRows timeline_rows(const result::Report::Trace& trace) {
  std::map<int, std::uint32_t> rank_of;  // by stage
  for (std::uint32_t r = 0; r < trace.world.ranks.size(); ++r) {
    const auto [it, fresh] = rank_of.try_emplace(program_of(trace, r).stage, r);
    if (!fresh && busy(trace.timeline.ranks[r]) > busy(trace.timeline.ranks[it->second])) {
      it->second = r;
    }
  }
  std::map<std::uint32_t, std::int64_t> tasks;
  for (const auto& [stage, rank] : rank_of) {
    tasks[rank] = 0;
  }
  for (const Slice& s : trace.timeline.slices) {
    if (const auto it = tasks.find(s.rank); it != tasks.end()) {
      ++it->second;
    }
  }
  TimelineRows out;
  std::int64_t all = 0;
  for (const auto& [rank, count] : tasks) {
    all += count;
  }
  const auto every = static_cast<std::size_t>((all + kMaxTasks - 1) / kMaxTasks);
  std::set<std::uint32_t> kept;
  std::size_t n = 0;
  for (const auto& [stage, rank] : rank_of) {
    if (every <= 1 || n % every == 0) {
      kept.insert(rank);
    } else {
      ++out.left_out;
    }
    ++n;
  }
  std::map<std::tuple<int, program::RankId, program::StreamIndex>, std::vector<std::uint32_t>> rows;
  for (std::uint32_t i = 0; i < trace.timeline.slices.size(); ++i) {
    const Slice& s = trace.timeline.slices[i];
    if (kept.count(s.rank) > 0) {
      const program::Program& p = program_of(trace, s.rank);
      rows[{p.stage, s.rank, p.tasks[s.task].stream}].push_back(i);
      ++out.tasks;
    }
  }
  for (auto& [key, slices] : rows) {
    std::sort(slices.begin(), slices.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Slice &x = trace.timeline.slices[a], &y = trace.timeline.slices[b];
      return std::tie(x.arrive, x.task) < std::tie(y.arrive, y.task);
    });
    out.rows.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::move(slices)});
  }
  out.stages = static_cast<int>(kept.size());
  if (out.tasks > kMaxTasks) {
    std::vector<Time> arrivals;
    for (const TimelineRow& row : out.rows) {
      for (const std::uint32_t i : row.slices) {
        arrivals.push_back(trace.timeline.slices[i].arrive);
      }
    }
    const auto last = arrivals.begin() + kMaxTasks;
    std::nth_element(arrivals.begin(), last, arrivals.end());
    out.until = std::max(Time{1}, *last);
    out.tasks =
        std::count_if(arrivals.begin(), arrivals.end(), [&](Time t) { return t < out.until; });
  }
  return out;
}

std::string timeline_json(const result::Report::Trace& trace, const TimelineRows& rows) {
  std::map<std::string, std::uint32_t> names;
  std::map<KindKey, std::uint32_t> kinds;
  std::vector<KindKey> listed;
  std::string bytes;
  nlohmann::json out;
  std::int64_t from = 0, to = rows.until == Time{0} ? trace.timeline.period / kNano : 0;
  out["step"] = trace.timeline.period / kNano;
  for (const TimelineRow& row : rows.rows) {
    const program::Program& p = program_of(trace, row.rank);
    const auto alike = trace.world.multiplicity.empty() ? 1 : trace.world.multiplicity[row.rank];
    const auto end_of =
        std::partition_point(row.slices.begin(), row.slices.end(), [&](std::uint32_t i) {
          return rows.until == Time{0} || trace.timeline.slices[i].arrive < rows.until;
        });
    const auto count = static_cast<std::size_t>(end_of - row.slices.begin());
    if (count == 0) {
      continue;
    }
    out["rows"].push_back({{"stage", row.stage},
                           {"stream", row.stream == 0 ? "compute" : p.streams[row.stream].name},
                           {"alike", alike},
                           {"tasks", count}});
    // Kinds of one program are few; its tasks are many.
    std::map<std::tuple<std::uint32_t, Category, std::uint8_t, std::uint32_t, bool>, std::uint32_t>
        known;
    std::int64_t time = 0, batch = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const std::uint32_t i = row.slices[n];
      const Slice& s = trace.timeline.slices[i];
      const Task& task = p.tasks[s.task];
      const std::uint32_t price = task.kind == TaskKind::exchange ? s.task : task.price;
      const auto [it, fresh] = known.try_emplace(
          {task.label, task.category, task.chunk, price, task.micro_batch == kNoMicroBatch}, 0);
      if (fresh) {
        const std::string& label = p.labels[task.label];
        const PassKind pass = pass_of(task, label);
        KindKey key{names.try_emplace(label, names.size()).first->second,
                    colour_of(task, pass),
                    what_of(task, pass),
                    static_cast<int>(pass),
                    task.micro_batch == kNoMicroBatch ? -1 : task.chunk,
                    0,
                    0};
        fill_sizes(trace, row.rank, task, key);
        const auto [kind, added] = kinds.try_emplace(key, kinds.size());
        if (added) {
          listed.push_back(key);
        }
        it->second = kind->second;
      }
      const std::int64_t arrive =
          std::max(s.arrive / kNano, row.slices.front() == i ? s.arrive / kNano : time);
      const std::int64_t begin = std::max(s.begin / kNano, arrive);
      const std::int64_t end = std::max(s.end / kNano, begin);
      put_signed(bytes, arrive - time);
      put(bytes, static_cast<std::uint64_t>(begin - arrive));
      put(bytes, static_cast<std::uint64_t>(end - begin));
      put(bytes, it->second);
      const std::int64_t now = task.micro_batch == kNoMicroBatch ? -1 : task.micro_batch;
      put_signed(bytes, now - batch);
      batch = now;
      time = end;
      from = std::min(from, arrive);
      to = std::max(to, end);
    }
  }
  out["from"] = from;
  out["to"] = to;
  out["names"] = std::vector<std::string>(names.size());
  for (const auto& [name, index] : names) {
    out["names"][index] = name;
  }
  for (const KindKey& k : listed) {
    out["kinds"].push_back({{"name", k.name},
                            {"colour", k.colour},
                            {"what", k.what},
                            {"pass", k.pass},
                            {"chunk", k.chunk},
                            {"bytes", k.bytes},
                            {"ranks", k.ranks}});
  }
  out["data"] = base64(bytes);
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string timeline_still(const result::Report::Trace& trace, const TimelineRows& rows,
                           const std::string& description) {
  constexpr int kRow = 16;          // pixels
  constexpr double kColumns = 800;  // runs shorter than one of these are joined
  std::vector<const TimelineRow*> compute;
  for (const TimelineRow& row : rows.rows) {
    if (row.stream == 0) {
      compute.push_back(&row);
    }
  }
  const double step = to_seconds(trace.timeline.period);
  const auto count = static_cast<double>(compute.size());
  if (compute.empty() || step <= 0) {
    return "";
  }
  PlotAxis y{0, count, false, {}, ""};
  for (std::size_t i = 0; i < compute.size(); ++i) {
    y.labels.emplace_back(count - static_cast<double>(i) - 0.5,
                          fmt::format("stage {}", compute[i]->stage));
  }
  const TimeUnit unit = unit_for(step);
  PlotAxis x{0, step * unit.per_second, false, {}, std::string(unit.name)};
  Plot plot(x, y, kRow * static_cast<int>(compute.size()));
  for (std::size_t i = 0; i < compute.size(); ++i) {
    const double top = count - static_cast<double>(i) - 0.06, bottom = top - 0.88;
    plot.box(0, bottom, x.to, top, "k-bubble");
    std::map<std::string, Plot::Runs> runs;
    const program::Program& p = program_of(trace, compute[i]->rank);
    double cell = -1;
    std::map<std::string, double> inside;  // time of each colour in the cell
    const auto flush = [&] {
      const auto most =
          std::max_element(inside.begin(), inside.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      double sum = 0;
      for (const auto& [kind, time] : inside) {
        sum += time;
      }
      const double wide = x.to / kColumns;
      if (most != inside.end() && sum > wide / 4) {
        auto& of = runs[most->first];
        const double from = cell * wide;
        if (!of.empty() && of.back().second >= from - wide / 100) {
          of.back().second = from + wide;
        } else {
          of.emplace_back(from, from + wide);
        }
      }
      inside.clear();
    };
    for (const std::uint32_t s : compute[i]->slices) {
      const Slice& slice = trace.timeline.slices[s];
      const Task& task = p.tasks[slice.task];
      const std::string kind = colour_of(task, pass_of(task, p.labels[task.label]));
      const double per = unit.per_second * 1e-12, wide = x.to / kColumns;
      double from = std::max(0.0, static_cast<double>(slice.begin.count()) * per);
      const double to = std::min(x.to, static_cast<double>(slice.end.count()) * per);
      while (from < to) {
        const double at = std::floor(from / wide + 1e-9);
        if (at != cell) {
          flush();
          cell = at;
        }
        const double until = std::min(to, (at + 1) * wide);
        inside[kind] += until - from;
        from = until > from ? until : to;
      }
    }
    flush();
    for (const auto& [kind, list] : runs) {
      plot.runs(list, bottom, top, "k-" + kind);
    }
  }
  return plot.finish(description);
}

}  // namespace stepcast::report
