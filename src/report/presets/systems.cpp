// The features of training systems compared with the survey's Table 3; and one system with all its
// details.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../record/tables.h"
#include "stepcast/report/report.h"
#include "system_kind.h"

namespace stepcast::report {
namespace {

using result::SurveyMark;
using result::SystemDetails;
using result::SystemSummary;

std::string yes(bool b) { return b ? "yes" : "no"; }

// "yes", or "no, survey yes" where they differ.
std::string cell(const SurveyMark& mark) {
  const bool differs = mark.survey && *mark.survey != mark.simulated;
  return yes(mark.simulated) + (differs ? ", survey " + yes(*mark.survey) : "");
}

bool in_survey(const SystemSummary& s) {
  return std::any_of(s.marks.begin(), s.marks.end(),
                     [](const SurveyMark& m) { return m.survey.has_value(); });
}

std::string table_of(const std::vector<SystemSummary>& systems, bool surveyed, const Paint& paint,
                     int width) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns = {{"system", Align::left}, {"kind", Align::left}};
  for (const SystemSummary& s : systems) {
    if (columns.size() == 2) {
      for (const SurveyMark& mark : s.marks) {
        columns.push_back({mark.strategy, Align::left});
      }
    }
  }
  columns.push_back({"", Align::left});
  TextTable table(columns);
  for (const SystemSummary& s : systems) {
    if (in_survey(s) != surveyed || !s.alias_of.empty()) {
      continue;
    }
    std::vector<std::string> cells = {s.name, std::string(name_of(s.kind))};
    for (const SurveyMark& mark : s.marks) {
      cells.push_back(cell(mark));
    }
    cells.push_back(s.generation);
    table.row(std::move(cells));
  }
  return table.text(paint, width);
}

Record mark_fields(const SurveyMark& mark) {
  Record out = {{"strategy", mark.strategy},
                {"simulated", mark.simulated},
                {"survey", mark.survey},
                {"differs", mark.survey && *mark.survey != mark.simulated}};
  if (!mark.reason.empty()) {
    out.push_back({"reason", mark.reason});
  }
  return out;
}

Record summary_fields(const SystemSummary& s) {
  return {{"name", s.name},
          {"generation", s.generation},
          {"kind", name_of(s.kind)},
          {"alias_of", text_or_null(s.alias_of)},
          {"strategies", rows(s.marks, mark_fields)}};
}

Record default_fields(const SystemDetails::Default& d) {
  return {{"key", d.key}, {"value", d.value}, {"source", d.source}, {"where", d.where}};
}

Record limit_fields(const std::pair<std::string, std::string>& limit) {
  return {{"feature", limit.first}, {"reason", limit.second}};
}

}  // namespace

std::string terminal(const std::vector<SystemSummary>& systems, bool colour, int width) {
  const Paint paint{colour};
  std::string out =
      paint("1", "What each system supports") +
      "  (\"survey yes\" or \"survey no\": the mark of the survey's Table 3, where it differs)\n" +
      table_of(systems, true, paint, width) + "\n" +
      paint("1", "Systems that the survey does not list") + "\n" +
      table_of(systems, false, paint, width) + "\n";
  for (const SystemSummary& s : systems) {
    if (!s.alias_of.empty()) {
      out += fmt::format("{} is another name of {}.\n", s.name, s.alias_of);
    }
  }
  return out +
         wrap(
             "sharded: parameters too (ZeRO-3, FSDP). sequence: Megatron-LM's, a ring of keys and "
             "values, or Ulysses. automatic: the system searches for a plan; a forecast uses the "
             "job's plan instead. "
             "simulate systems NAME says why a system does not run something.",
             width, 0) +
         "\n";
}

std::string json(const std::vector<SystemSummary>& systems) {
  return json_of({{"systems", blocks(systems, summary_fields)}});
}

std::string terminal(const SystemDetails& details, bool colour, int width) {
  const Paint paint{colour};
  const SystemSummary& s = details.summary;
  std::string out = paint("1", s.name) + "  " + s.generation;
  out += s.alias_of.empty() ? "\n" : fmt::format(", another name of {}\n", s.alias_of);
  if (const auto kind = name_of(s.kind); !kind.empty()) {
    out += fmt::format("kind: {}\n", kind);
  }
  out += "\n" + paint("1", "Strategies") + "\n";
  for (const SurveyMark& mark : s.marks) {
    const std::string reason = brief_reason(s.name, mark.reason);
    out += "  " + pad_right(mark.strategy, 12) + " " +
           wrap(cell(mark) + (reason.empty() ? "" : ": " + reason), width, 15) + "\n";
  }
  out += "\n" + paint("1", "Defaults") + "\n";
  int longest = 0;
  for (const auto& d : details.defaults) {
    longest = std::max(longest, columns(d.key) + columns(d.value) + 2);
  }
  constexpr int kMaxColumns = 48;
  longest = std::min(longest, kMaxColumns);
  for (const auto& d : details.defaults) {
    const std::string setting = "  " + pad_right(d.key + ": " + d.value, longest);
    const int indent = columns(setting) + 2;
    out += d.source.empty()
               ? "  " + d.key + ": " + d.value + "\n"
               : setting + "  " + wrap(d.source, std::max(width, indent + 40), indent) + "\n";
  }
  out += "\n" + paint("1", "Pipeline schedules") + "  " +
         (details.schedules.empty() ? std::string("all that the number of stages allows")
                                    : fmt::format("{}", fmt::join(details.schedules, ", "))) +
         "\n";
  out += "\n" + paint("1", "Refused") + "\n";
  for (const auto& [rule, reason] : details.limits) {
    out += "  " + pad_right(rule, 18) + " " + wrap(reason, width, 21) + "\n";
  }
  return out;
}

std::string json(const SystemDetails& details) {
  Record out = summary_fields(details.summary);
  append(out, {{"defaults", rows(details.defaults, default_fields)},
               {"schedules", details.schedules},
               {"refused", rows(details.limits, limit_fields)}});
  return json_of(std::move(out));
}

}  // namespace stepcast::report
