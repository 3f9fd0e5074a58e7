// The answer of a strategy search: text, and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::Search;
using result::Strategy;

// "parallelism.tensor=8": its key, its value, and how a table heads it.
std::string key_of(const std::string& text) { return text.substr(0, text.find('=')); }

std::string value_of(const Strategy& s, const std::string& key) {
  for (const std::string& text : s.overrides) {
    if (text.size() > key.size() && text[key.size()] == '=' && text.starts_with(key)) {
      return text.substr(key.size() + 1);
    }
  }
  return "";
}

std::string short_name(const std::string& key) {
  constexpr std::pair<const char*, const char*> kKnown[] = {
      {"parallelism.tensor", "tp"},
      {"parallelism.pipeline", "pp"},
      {"parallelism.virtual_pipeline", "vpp"},
      {"parallelism.data", "dp"},
      {"parallelism.context", "cp"},
      {"parallelism.expert", "ep"},
      {"parallelism.expert_tensor", "etp"},
      {"workload.micro_batch", "mbs"},
      {"parallelism.sequence_parallel", "sp"}};
  for (const auto& [whole, brief] : kKnown) {
    if (key == whole) {
      return brief;
    }
  }
  return key.substr(key.rfind('.') + 1);
}

// The keys of which the strategies of a table differ: a column each. What all have alike stands
// above it, once.
class Keys {
 public:
  explicit Keys(const std::vector<Strategy>& all) {
    if (all.empty()) {
      return;
    }
    for (const std::string& text : all.front().overrides) {
      const std::string key = key_of(text);
      const std::string value = value_of(all.front(), key);
      const bool alike = std::all_of(all.begin(), all.end(),
                                     [&](const Strategy& s) { return value_of(s, key) == value; });
      if (alike) {
        common_ += (common_.empty() ? "" : " ") + text;
      } else {
        columns_.push_back(key);
      }
    }
  }
  std::vector<TextTable::Column> headed(std::vector<TextTable::Column> first) const {
    for (const std::string& key : columns_) {
      first.push_back({short_name(key), TextTable::Align::left});
    }
    return first;
  }
  std::vector<std::string> row(std::vector<std::string> first, const Strategy& s) const {
    for (const std::string& key : columns_) {
      first.push_back(value_of(s, key));
    }
    return first;
  }
  const std::string& common() const { return common_; }

 private:
  std::string common_;
  std::vector<std::string> columns_;
};

std::string objective_text(const Search& s, double objective) {
  return s.objective == "cost"     ? fmt::format("{} GPU-s", significant(objective, 4))
         : s.objective == "energy" ? fmt::format("{} MJ", significant(objective * 1e-6, 4))
                                   : duration(objective);
}

std::string slower(const Search& s, const Strategy& one) {
  return fmt::format("{:+.1f} %", 100 * (one.objective / s.best.objective - 1));
}

std::string counts_line(const result::SearchCounts& c, bool bounds_only = false) {
  if (bounds_only) {
    return fmt::format(
        "{} combinations: {} impossible, {} bounded, of which {} too large by their least memory, "
        "{} not looked at: others of their layout are slower already",
        thousands(c.candidates), thousands(c.impossible), thousands(c.bounded),
        thousands(c.memory_pruned), thousands(c.time_pruned));
  }
  return fmt::format(
      "{} combinations: {} impossible, {} too large by their least memory, {} slower by their "
      "bound, {} simulated, of which {} do not fit",
      thousands(c.candidates), thousands(c.impossible), thousands(c.memory_pruned),
      thousands(c.time_pruned), thousands(c.simulated), thousands(c.misfit));
}

void write(JsonWriter& json, const Strategy& s) {
  const auto estimate = [&](const char* key, const result::Estimate& e) {
    json.key(key).object(true);
    json.key("value").number(e.value).key("low").number(e.low).key("high").number(e.high);
    json.close();
  };
  json.object();
  json.key("overrides").array(true);
  for (const std::string& text : s.overrides) {
    json.text(text);
  }
  json.close();
  json.key("objective").number(s.objective);
  estimate("step_time", s.step_time);
  estimate("peak", s.peak);
  json.key("capacity").bytes(s.capacity).key("fits").boolean(s.fits);
  json.key("mfu").number(s.mfu).key("gpus").number(s.gpus);
  json.key("bubble_fraction").number(s.bubble_fraction);
  json.key("breakdown").object(true);
  json.key("compute").time(s.compute).key("recompute").time(s.recompute);
  json.key("exposed").time(s.exposed).key("bubble").time(s.bubble).key("other").time(s.other);
  json.close();
  json.close();
}

}  // namespace

std::string terminal(const Search& search, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", search.title) + "\n";
  const auto line = [&](const std::string& text) { out += "  " + wrap(text, width, 2) + "\n"; };
  if (search.stopped) {
    line("stopped by the time limit: another run may answer differently");
  }
  const auto head = [&](const char* title, const Keys& keys) {
    out += "\n" + paint("1", title) + "\n";
    if (!keys.common().empty()) {
      line("all: " + keys.common());
    }
  };
  if (!search.found) {
    if (!search.stopped) {
      line("no strategy of this space runs within memory");
    }
    line(search.nearest);
    line(counts_line(search.counts, search.bounds_only));
    return out;
  }
  line(search.best.overrides.empty()
           ? std::string("best: the job as given, which lies outside this space")
           : fmt::format("best: {}", fmt::join(search.best.overrides, " ")));
  if (search.bounds_only) {
    line(fmt::format("at least {} a step and {} GiB of {} GiB: nothing was simulated",
                     duration(search.best.step_time.value), gibibytes(search.best.peak.value),
                     gibibytes(static_cast<double>(search.best.capacity.count()))));
    line(counts_line(search.counts, true));
    const Keys keys(search.ranking);
    TextTable ranking(keys.headed({{"at least"}, {"to best"}, {"least GiB"}}));
    for (const Strategy& s : search.ranking) {
      ranking.row(keys.row(
          {objective_text(search, s.objective), slower(search, s), gibibytes(s.peak.value)}, s));
    }
    head("Ranking", keys);
    return out + ranking.text(paint, width);
  }
  line(fmt::format("{} a step ({} to {}), MFU {}, {} GiB of {} GiB",
                   duration(search.best.step_time.value), duration(search.best.step_time.low),
                   duration(search.best.step_time.high), percent(search.best.mfu),
                   gibibytes(search.best.peak.value),
                   gibibytes(static_cast<double>(search.best.capacity.count()))));
  line(search.gap > 0
           ? fmt::format("not proven: what was not looked at may be up to {:.2f} % better",
                         100 * search.gap)
           : std::string("optimal within the space"));
  line(counts_line(search.counts));

  const Keys keys(search.ranking);
  TextTable ranking(
      keys.headed({{"objective"}, {"to best"}, {"MFU"}, {"peak GiB"}, {"exposed"}, {"bubble"}}));
  for (const Strategy& s : search.ranking) {
    const auto share = [&](Time t) { return percent(to_seconds(t) / s.step_time.value); };
    ranking.row(keys.row({objective_text(search, s.objective), slower(search, s), percent(s.mfu),
                          gibibytes(s.peak.value), share(s.exposed), share(s.bubble)},
                         s));
  }
  head("Ranking", keys);
  out += ranking.text(paint, width);
  std::vector<Strategy> fronts;
  for (const result::FrontPoint& p : search.front) {
    fronts.push_back(p.best);
  }
  const Keys front_keys(fronts);
  TextTable front(front_keys.headed({{"memory GiB"}, {"objective"}, {"to best"}}));
  for (const Strategy& s : fronts) {
    front.row(front_keys.row(
        {gibibytes(s.peak.value), objective_text(search, s.objective), slower(search, s)}, s));
  }
  head("Time against memory", front_keys);
  out += front.text(paint, width);
  if (!search.why.empty()) {
    out += "\n";
    line(search.why);
  }
  if (!search.against.empty()) {
    line(search.against);
  }
  for (const result::WhatIf& w : search.what_if) {
    line(fmt::format("{}: {} ({:+.1f} %)", w.change, objective_text(search, w.objective),
                     100 * (w.objective / search.best.objective - 1)));
  }
  return out;
}

std::string json(const Search& search) {
  JsonWriter json;
  json.object();
  json.key("schema").integer(1).key("title").text(search.title);
  json.key("objective").text(search.objective).key("found").boolean(search.found);
  json.key("stopped").boolean(search.stopped);
  json.key("bounds_only").boolean(search.bounds_only);
  if (search.found) {
    json.key("gap").number(search.gap).key("best");
    write(json, search.best);
  } else {
    json.key("nearest").text(search.nearest);
  }
  json.key("ranking").array();
  for (const Strategy& s : search.ranking) {
    write(json, s);
  }
  json.close().key("front").array();
  for (const result::FrontPoint& p : search.front) {
    json.object().key("memory").number(p.memory).key("best");
    write(json, p.best);
    json.close();
  }
  json.close().key("why").text(search.why);
  json.key("stated").number(search.stated).key("against").text(search.against);
  json.key("what_if").array();
  for (const result::WhatIf& w : search.what_if) {
    json.object(true).key("change").text(w.change).key("objective").number(w.objective).close();
  }
  const result::SearchCounts& c = search.counts;
  json.close().key("counts").object(true);
  json.key("candidates").integer(c.candidates).key("impossible").integer(c.impossible);
  json.key("memory_pruned").integer(c.memory_pruned).key("time_pruned").integer(c.time_pruned);
  json.key("simulated").integer(c.simulated).key("misfit").integer(c.misfit);
  json.key("bounded").integer(c.bounded);
  json.close().key("refusals").array();
  for (const auto& [reason, count] : search.refusals) {
    json.object(true).key("reason").text(reason).key("count").integer(count).close();
  }
  json.close().close();
  return std::move(json).finish();
}

}  // namespace stepcast::report
