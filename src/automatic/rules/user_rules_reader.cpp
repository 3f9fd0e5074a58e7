// Reads a file of rules strictly.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "rule_match.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/model/operators.h"
#include "stepcast/text/map.h"

namespace stepcast::automatic {
namespace {

using text::Value;

std::vector<std::string> known_splits() {
  std::vector<std::string> out;
  for (const SplitWord& known : split_words()) {
    out.push_back(known.word);
  }
  return out;
}

class RuleReader {
 public:
  RuleReader(const job::Job& job, const std::vector<Analysed>& operators)
      : layers_(model::layer_count(job.model)), operators_(operators) {}

  UserRules read(const Value& document) {
    each_key(document, {"op_trans", "op_assign", "op_order"}, [&](const Value::Entry& e) {
      if (e.key == "op_order") {
        read_order(e.value);
        return;
      }
      if (e.value.kind != Value::Kind::sequence) {
        fault(e.value.origin, fmt::format("{} is not a list; expected a list of rules", e.key));
        return;
      }
      for (const Value& item : e.value.items) {
        e.key == "op_trans" ? read_cut(item) : read_assign(item);
      }
    });
    contradictions();
    faults_.done();
    return std::move(rules_);
  }

 private:
  void fault(const Origin& at, const std::string& message) { faults_.add(at, message); }

  void each_key(const Value& map, const std::vector<std::string>& known,
                const text::Faults::VisitEntry& visit) {
    const std::string keys = fmt::format("{}", fmt::join(known, ", "));
    faults_.each_key(map, {known, "; expected " + keys}, "expected a map with " + keys, visit);
  }

  bool needs(const Value& map, std::initializer_list<const char*> keys) {
    bool all = map.kind == Value::Kind::map;
    for (const char* key : keys) {
      if (map.kind == Value::Kind::map && map.find(key) == nullptr) {
        fault(map.origin, fmt::format("missing {}", key));
        all = false;
      }
    }
    return all;
  }

  void read_cut(const Value& v) {
    UserRules::Cut out;
    out.origin = v.origin;
    const std::size_t before = faults_.count();
    each_key(v, {"op", "split", "axis"}, [&](const Value::Entry& e) {
      if (e.key == "op") {
        out.op = text::to_string(e.value);
      } else if (e.key == "axis") {
        const std::string& axis = text::to_string(e.value);
        const std::vector<std::string> known = {"data", "tensor"};
        const auto at = std::find(known.begin(), known.end(), axis);
        if (at == known.end()) {
          fault(e.value.origin, fmt::format("unknown axis '{}'; expected data (the outer ranks) or "
                                            "tensor (the nearest), or none for both{}",
                                            axis, suggestion(axis, known)));
          return;
        }
        out.axis = static_cast<int>(at - known.begin());
      } else {
        const auto take = [&](const Value& one) {
          const std::string& name = text::to_string(one);
          const auto& words = split_words();
          const auto at = std::find_if(words.begin(), words.end(),
                                       [&](const SplitWord& w) { return w.word == name; });
          if (at == words.end()) {
            const auto known = known_splits();
            fault(one.origin, fmt::format("unknown split '{}'; expected {}{}", name,
                                          fmt::join(known, ", "), suggestion(name, known)));
            return;
          }
          out.words.push_back(name);
          out.splits |= at->splits;
        };
        if (e.value.kind == Value::Kind::sequence) {
          std::for_each(e.value.items.begin(), e.value.items.end(), take);
        } else {
          take(e.value);
        }
      }
    });
    if (!needs(v, {"op", "split"}) || faults_.count() != before) {
      return;
    }
    check_operator(v, out);
    rules_.cuts.push_back(std::move(out));
  }

  void check_operator(const Value& v, const UserRules::Cut& cut) {
    bool found = false, possible = false;
    std::vector<std::string> names, ways;
    for (const Analysed& a : operators_) {
      names.push_back(module_of(a.op) + "." + a.op.name);
      if (!matches(cut.op, a.op)) {
        continue;
      }
      found = true;
      for (const Split s : splits_of(a.op)) {
        ways.emplace_back(to_string(s));
        possible = possible || contains(cut.splits, s);
      }
    }
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::sort(ways.begin(), ways.end());
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
    if (!found) {
      fault(v.find("op")->origin,
            fmt::format("the model has no operator '{}'; expected one of {}{}", cut.op,
                        fmt::join(names, ", "), suggestion(cut.op, names)));
    } else if (!possible) {
      fault(v.find("split")->origin,
            fmt::format("{} is never split so; expected {}", cut.op, fmt::join(ways, ", ")));
    }
  }

  // Reads "0..11" or a single layer.
  bool read_layers(const Value& v, LayersAt& out) {
    const std::string& text = text::to_string(v);
    const std::size_t dots = text.find("..");
    const auto number = [](std::string_view s, int& to) {
      const auto end = s.data() + s.size();
      const auto [at, error] = std::from_chars(s.data(), end, to);
      return error == std::errc() && at == end && to >= 0;
    };
    const std::string_view all = text;
    const bool read = dots == std::string::npos ? number(all, out.first) && number(all, out.last)
                                                : number(all.substr(0, dots), out.first) &&
                                                      number(all.substr(dots + 2), out.last);
    if (!read || out.last < out.first) {
      fault(v.origin, fmt::format("is '{}'; expected layers as FIRST..LAST, from 0", text));
      return false;
    }
    if (out.last >= layers_) {
      fault(v.origin, fmt::format("layer {} is beyond the model's {} layers, which count from 0",
                                  out.last, layers_));
      return false;
    }
    return true;
  }

  void read_assign(const Value& v) {
    UserRules::Assign out{v.origin, {}};
    const std::size_t before = faults_.count();
    each_key(v, {"layers", "stage"}, [&](const Value::Entry& e) {
      if (e.key == "layers") {
        read_layers(e.value, out.layers);
        return;
      }
      const std::int64_t stage = text::to_integer(e.value);
      if (stage < 0 || stage >= layers_) {
        fault(e.value.origin, fmt::format("stage {} cannot be; expected 0 to {}: a stage holds a "
                                          "layer at least",
                                          stage, layers_ - 1));
        return;
      }
      out.layers.stage = static_cast<int>(stage);
    });
    if (needs(v, {"layers", "stage"}) && faults_.count() == before) {
      rules_.assigns.push_back(out);
    }
  }

  int positive(const Value& v) {
    const std::int64_t n = text::to_integer(v);
    if (n < 1 || n > 1'000'000) {
      fault(v.origin, fmt::format("is {}; expected at least 1", n));
      return 1;
    }
    return static_cast<int>(n);
  }

  void read_order(const Value& v) {
    UserRules::Order out;
    out.origin = v.origin;
    std::string schedule = to_string(out.schedule);  // as the user wrote it, for messages
    each_key(v, {"schedule", "virtual_pipeline", "micro_batches"}, [&](const Value::Entry& e) {
      if (e.key == "virtual_pipeline") {
        out.virtual_stages = positive(e.value);
      } else if (e.key == "micro_batches") {
        out.micro_batches = positive(e.value);
      } else {
        schedule = text::to_string(e.value);
        if (const auto parsed = parse<RuleSchedule>(schedule)) {
          out.schedule = *parsed;
        } else {
          constexpr auto words = words_of<RuleSchedule>();
          const std::vector<std::string> known(words.begin(), words.end());
          fault(e.value.origin, fmt::format("unknown schedule '{}'; expected {}{}", schedule,
                                            fmt::join(known, ", "), suggestion(schedule, known)));
        }
      }
    });
    if ((out.schedule == RuleSchedule::interleaved) != (out.virtual_stages > 1)) {
      fault(v.origin, out.virtual_stages > 1
                          ? fmt::format("virtual_pipeline {} contradicts schedule {}; expected "
                                        "interleaved_1f1b, or no virtual stages",
                                        out.virtual_stages, schedule)
                          : "interleaved_1f1b needs virtual stages; expected virtual_pipeline of 2 "
                            "or more");
    }
    rules_.order = out;
  }

  void contradictions() {
    const auto& cuts = rules_.cuts;
    for (std::size_t b = 0; b < cuts.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        if (cuts[a].axis >= 0 && cuts[b].axis >= 0 && cuts[a].axis != cuts[b].axis) {
          continue;
        }
        if (const Analysed* op = torn_between(cuts[a], cuts[b])) {
          fault(cuts[b].origin,
                fmt::format("contradicts line {}: no split of {} is both {} and {}",
                            cuts[a].origin.line, op->op.name, fmt::join(cuts[a].words, " or "),
                            fmt::join(cuts[b].words, " or ")));
        }
      }
    }
    const auto& all = rules_.assigns;
    for (std::size_t b = 0; b < all.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        const LayersAt& x = all[a].layers;
        const LayersAt& y = all[b].layers;
        const bool overlap = x.first <= y.last && y.first <= x.last;
        const bool before = x.last < y.first;
        if (x.stage != y.stage && (overlap || before != (x.stage < y.stage))) {
          fault(all[b].origin,
                fmt::format("contradicts line {}: {}", all[a].origin.line,
                            overlap ? fmt::format("layer {} is of stage {} and of stage {}",
                                                  std::max(x.first, y.first), x.stage, y.stage)
                                    : "stages hold layers in the model's order"));
        }
      }
    }
  }

  // Returns an operator to which both rules apply and that cannot be split so as to satisfy both.
  const Analysed* torn_between(const UserRules::Cut& a, const UserRules::Cut& b) const {
    for (const Analysed& one : operators_) {
      if (!concerns(a, one.op) || !concerns(b, one.op)) {
        continue;
      }
      const auto ways = splits_of(one.op);
      const bool together = std::any_of(ways.begin(), ways.end(),
                                        [&](Split s) { return contains(a.splits & b.splits, s); });
      if (!together) {
        return &one;
      }
    }
    return nullptr;
  }

  int layers_;
  const std::vector<Analysed>& operators_;
  text::Faults faults_;
  UserRules rules_;
};

}  // namespace

UserRules read_rules(const Value& document, const job::Job& job,
                     const std::vector<Analysed>& operators) {
  return RuleReader(job, operators).read(document);
}

}  // namespace stepcast::automatic
