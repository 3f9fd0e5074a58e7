#include "timeline_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace stepcast::report {
namespace {

using program::Category;
using program::Slice;
using program::Task;
using program::TaskKind;

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

// Writes rows of tasks; kinds of tasks get their numbers as they occur.
class Packer {
 public:
  explicit Packer(const result::Report::Trace& trace) : trace_(trace) {}

  // The first `count` tasks of a row.
  void add(const TimelineRow& row, std::size_t count) {
    const program::Program& p = program_of(trace_, row.rank);
    known_.clear();
    std::int64_t time = 0, batch = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const Slice& s = trace_.timeline.slices[row.slices[n]];
      const Task& task = p.tasks[s.task];
      const std::int64_t arrive = std::max(s.arrive / kNano, n == 0 ? s.arrive / kNano : time);
      const std::int64_t begin = std::max(s.begin / kNano, arrive);
      const std::int64_t end = std::max(s.end / kNano, begin);
      put_signed(bytes_, arrive - time);
      put(bytes_, static_cast<std::uint64_t>(begin - arrive));
      put(bytes_, static_cast<std::uint64_t>(end - begin));
      put(bytes_, kind_of(p, row.rank, s, task));
      const std::int64_t now = task.micro_batch == kNoMicroBatch ? -1 : task.micro_batch;
      put_signed(bytes_, now - batch);
      batch = now;
      time = end;
      from_ = std::min(from_, arrive);
      to_ = std::max(to_, end);
    }
  }

  // Adds what was packed to the page's data. `to`: where the page ends at the earliest.
  void finish(nlohmann::json& out, std::int64_t to) const {
    out["from"] = from_;
    out["to"] = std::max(to_, to);
    out["names"] = std::vector<std::string>(names_.size());
    for (const auto& [name, index] : names_) {
      out["names"][index] = name;
    }
    for (const KindKey& k : listed_) {
      out["kinds"].push_back({{"name", k.name},
                              {"colour", k.colour},
                              {"what", k.what},
                              {"pass", k.pass},
                              {"chunk", k.chunk},
                              {"bytes", k.bytes},
                              {"ranks", k.ranks}});
    }
    out["data"] = base64(bytes_);
  }

 private:
  std::uint32_t kind_of(const program::Program& p, std::uint32_t rank, const Slice& s,
                        const Task& task) {
    const std::uint32_t price = task.kind == TaskKind::exchange ? s.task : task.price;
    const bool outside = task.micro_batch == kNoMicroBatch;
    const auto [it, fresh] =
        known_.try_emplace({task.label, task.category, task.chunk, price, outside}, 0);
    if (!fresh) {
      return it->second;
    }
    const std::string& label = p.labels[task.label];
    const PassKind pass = pass_of(task, label);
    KindKey key{names_.try_emplace(label, names_.size()).first->second,
                colour_of(task, pass),
                what_of(task, pass),
                static_cast<int>(pass),
                outside ? -1 : task.chunk,
                0,
                0};
    fill_sizes(trace_, rank, task, key);
    const auto [kind, added] = kinds_.try_emplace(key, kinds_.size());
    if (added) {
      listed_.push_back(key);
    }
    return it->second = kind->second;
  }

  const result::Report::Trace& trace_;
  std::string bytes_;
  std::int64_t from_ = 0, to_ = 0;
  std::map<std::string, std::uint32_t> names_;
  std::map<KindKey, std::uint32_t> kinds_;
  std::vector<KindKey> listed_;
  // Of one row's program, whose kinds are few and whose tasks are many.
  std::map<std::tuple<std::uint32_t, Category, std::uint8_t, std::uint32_t, bool>, std::uint32_t>
      known_;
};

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

std::string timeline_json(const result::Report::Trace& trace, const TimelineRows& rows) {
  Packer packer(trace);
  nlohmann::json out;
  out["step"] = trace.timeline.period / kNano;
  for (const TimelineRow& row : rows.rows) {
    const auto end_of =
        std::partition_point(row.slices.begin(), row.slices.end(), [&](std::uint32_t i) {
          return rows.until == Time{0} || trace.timeline.slices[i].arrive < rows.until;
        });
    const auto count = static_cast<std::size_t>(end_of - row.slices.begin());
    if (count == 0) {
      continue;
    }
    const program::Program& p = program_of(trace, row.rank);
    out["rows"].push_back(
        {{"stage", row.stage},
         {"stream", row.stream == 0 ? "compute" : p.streams[row.stream].name},
         {"alike", trace.world.multiplicity.empty() ? 1 : trace.world.multiplicity[row.rank]},
         {"tasks", count}});
    packer.add(row, count);
  }
  packer.finish(out, rows.until == Time{0} ? trace.timeline.period / kNano : 0);
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace stepcast::report
