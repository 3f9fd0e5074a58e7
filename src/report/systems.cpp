// What training systems run, beside the survey's Table 3; and one of them in full.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "system_kind.h"
#include "text_table.h"

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

void marks(JsonWriter& json, const SystemSummary& s) {
  json.key("strategies").array();
  for (const SurveyMark& mark : s.marks) {
    json.object(true).key("strategy").text(mark.strategy);
    json.key("simulated").boolean(mark.simulated).key("survey");
    mark.survey ? json.boolean(*mark.survey) : json.null();
    json.key("differs").boolean(mark.survey && *mark.survey != mark.simulated);
    if (!mark.reason.empty()) {
      json.key("reason").text(mark.reason);
    }
    json.close();
  }
  json.close();
}

void head(JsonWriter& json, const SystemSummary& s) {
  json.key("name").text(s.name).key("generation").text(s.generation);
  json.key("kind").text(name_of(s.kind)).key("alias_of");
  s.alias_of.empty() ? json.null() : json.text(s.alias_of);
  marks(json, s);
}

}  // namespace

std::string terminal(const std::vector<SystemSummary>& systems, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", "The survey's Table 3 as simulated") +
                    "  (\"survey yes\" or \"survey no\": its own mark, where that differs)\n" +
                    table_of(systems, true, paint, width) + "\n" +
                    paint("1", "Not in its Table 3") + "\n" +
                    table_of(systems, false, paint, width) + "\n";
  for (const SystemSummary& s : systems) {
    if (!s.alias_of.empty()) {
      out += fmt::format("{} is another name of {}.\n", s.name, s.alias_of);
    }
  }
  return out +
         wrap(
             "sharded: parameters too (ZeRO-3, FSDP). sequence: Megatron-LM's, a ring of keys and "
             "values, or Ulysses. automatic: a forecast takes the job's plan, it searches none. "
             "simulate systems NAME says why a system does not run something.",
             width, 0) +
         "\n";
}

std::string json(const std::vector<SystemSummary>& systems) {
  JsonWriter json;
  json.object().key("systems").array();
  for (const SystemSummary& s : systems) {
    json.object();
    head(json, s);
    json.close();
  }
  json.close().close();
  return std::move(json).finish();
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
  constexpr int kMostColumns = 48;
  longest = std::min(longest, kMostColumns);
  for (const auto& d : details.defaults) {
    const std::string setting = "  " + pad_right(d.key + ": " + d.value, longest);
    const int indent = columns(setting) + 2;
    out += d.source.empty()
               ? "  " + d.key + ": " + d.value + "\n"
               : setting + "  " + wrap(d.source, std::max(width, indent + 40), indent) + "\n";
  }
  out += "\n" + paint("1", "Pipeline schedules") + "  " +
         (details.schedules.empty() ? std::string("all that stages allow")
                                    : fmt::format("{}", fmt::join(details.schedules, ", "))) +
         "\n";
  out += "\n" + paint("1", "Refused") + "\n";
  for (const auto& [rule, reason] : details.limits) {
    out += "  " + pad_right(rule, 18) + " " + wrap(reason, width, 21) + "\n";
  }
  return out;
}

std::string json(const SystemDetails& details) {
  JsonWriter json;
  json.object();
  head(json, details.summary);
  json.key("defaults").array();
  for (const auto& d : details.defaults) {
    json.object(true).key("key").text(d.key).key("value").text(d.value);
    json.key("source").text(d.source).key("where").text(d.where).close();
  }
  json.close().key("schedules").array(true);
  for (const std::string& name : details.schedules) {
    json.text(name);
  }
  json.close().key("refused").array();
  for (const auto& [rule, reason] : details.limits) {
    json.object(true).key("feature").text(rule).key("reason").text(reason).close();
  }
  json.close().close();
  return std::move(json).finish();
}

}  // namespace stepcast::report
