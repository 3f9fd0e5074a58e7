// What several search algorithms found, side by side: text, and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::AlgorithmAnswer;
using result::Algorithms;

std::string brief(const std::vector<std::string>& overrides) {
  std::string out;
  for (const std::string& text : overrides) {
    const std::size_t dot = text.rfind('.', text.find('='));
    out += (out.empty() ? "" : " ") + text.substr(dot == std::string::npos ? 0 : dot + 1);
  }
  return out;
}

// What each step decided, and under it the figures.
std::string steps_text(const AlgorithmAnswer& x, const Paint& paint, int width) {
  std::string out;
  int number = 0;
  for (const result::AlgorithmStep& step : x.steps) {
    out +=
        "    " +
        wrap(fmt::format("{} {}: {}", ++number, paint("1", step.name), step.decision), width, 8) +
        "\n";
    for (const std::string& detail : step.details) {
      out += "      " + wrap(detail, width, 8) + "\n";
    }
  }
  return out;
}

void write_steps(JsonWriter& json, const AlgorithmAnswer& x) {
  if (x.steps.empty()) {
    return;
  }
  json.key("steps").array();
  for (const result::AlgorithmStep& step : x.steps) {
    json.object().key("name").text(step.name).key("decision").text(step.decision);
    json.key("details").array(true);
    for (const std::string& detail : step.details) {
      json.text(detail);
    }
    json.close().close();
  }
  json.close().key("operators").array();
  for (const result::AnalysedOperator& o : x.operators) {
    json.object().key("unit").text(o.unit).key("times").integer(o.times).key("name").text(o.name);
    json.key("forward_flops").number(o.forward_flops);
    json.key("backward_flops").number(o.backward_flops).key("moved").number(o.moved);
    json.key("saved").number(o.saved).key("parameters").number(o.parameters);
    json.key("intensity").number(o.intensity).key("critical").boolean(o.critical).close();
  }
  json.close();
}

const char* proof(result::Proof p) {
  return p == result::Proof::proven ? "yes" : p == result::Proof::open ? "no" : "";
}

// Where own estimates and forecasts differ: seconds of a step, of the same strategy.
std::string parts(const Algorithms& a, const Paint& paint, int width) {
  TextTable table({{"own / forecast, s", TextTable::Align::left},
                   {"compute"},
                   {"recompute"},
                   {"communication"},
                   {"waiting"},
                   {"optimizer, host"}});
  bool any = false;
  for (const AlgorithmAnswer& x : a.answers) {
    if (!x.found || x.own.step <= 0) {
      continue;
    }
    any = true;
    const auto& s = x.strategy;
    const auto both = [](double own, Time forecast) {
      return fmt::format("{:.2f} / {:.2f}", own, to_seconds(forecast));
    };
    table.row({x.name, both(x.own.compute, s.compute), both(x.own.recompute, s.recompute),
               both(x.own.communication, s.exposed), both(x.own.waiting, s.bubble),
               fmt::format("- / {:.2f}", to_seconds(s.other))});
  }
  return any ? table.text(paint, std::max(width, 1)) : "";
}

}  // namespace

std::string terminal(const Algorithms& a, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", a.title) + "\n";
  double best = 0;
  for (const AlgorithmAnswer& x : a.answers) {
    if (x.found && x.strategy.fits && (best == 0 || x.strategy.objective < best)) {
      best = x.strategy.objective;
    }
  }
  using Align = TextTable::Align;
  TextTable table({{"algorithm", Align::left},
                   {"forecast"},
                   {"to best"},
                   {"own"},
                   {"GiB"},
                   {"own"},
                   {"fits"},
                   {"proven"},
                   {"took"}});
  for (const AlgorithmAnswer& x : a.answers) {
    const double estimate = x.own.step > 0 ? x.own.step : x.predicted;
    const std::string own = estimate > 0 ? duration(estimate) : "";
    const std::string took = fmt::format("{:.0f} s", x.seconds);
    if (!x.found) {
      table.row({x.name, "none", "", own, "", "", "", "", took});
      continue;
    }
    const auto& s = x.strategy;
    table.row({x.name, duration(s.step_time.value),
               best > 0 ? fmt::format("{:+.1f} %", 100 * (s.objective / best - 1)) : "", own,
               gibibytes(s.peak.value), x.own.memory > 0 ? gibibytes(x.own.memory) : "",
               s.fits ? "yes" : "no", proof(x.proof), took});
  }
  out += table.text(paint, std::max(width, 1));
  out += parts(a, paint, width);
  for (const AlgorithmAnswer& x : a.answers) {
    std::string text = paint("1", x.name) + ": ";
    text += x.found ? brief(x.strategy.overrides) : x.why_not;
    text += fmt::format("; {} {}", thousands(x.tried), x.tried_unit);
    text += x.plan.empty() ? "" : "; " + x.plan;
    if (x.own.step > 0 && x.predicted > 0 && !x.losses.empty()) {
      text += "; free, by its own estimate, " + duration(x.predicted);
    }
    if (!x.losses.empty()) {
      text += fmt::format("; as a job: {}", fmt::join(x.losses, ", "));
    }
    for (const std::string& note : x.notes) {
      text += "; " + note;
    }
    out += "  " + wrap(text, width, 4) + "\n";
    out += steps_text(x, paint, width);
  }
  return out;
}

std::string json(const Algorithms& a) {
  JsonWriter json;
  json.object();
  json.key("schema").integer(1).key("title").text(a.title);
  json.key("objective").text(a.objective).key("algorithms").array();
  for (const AlgorithmAnswer& x : a.answers) {
    json.object();
    json.key("name").text(x.name).key("found").boolean(x.found);
    json.key("tried").integer(x.tried).key("tried_unit").text(x.tried_unit);
    json.key("plan").text(x.plan).key("own_step_time").number(x.predicted);
    if (x.proof != result::Proof::none) {
      json.key("proven").boolean(x.proof == result::Proof::proven);
    }
    if (x.own.step > 0) {
      json.key("own").object().key("step_time").number(x.own.step);
      json.key("compute").number(x.own.compute).key("recompute").number(x.own.recompute);
      json.key("communication").number(x.own.communication);
      json.key("waiting").number(x.own.waiting).key("memory").number(x.own.memory).close();
    }
    json.key("notes").array(true);
    for (const std::string& note : x.notes) {
      json.text(note);
    }
    json.close();
    json.key("losses").array(true);
    for (const std::string& loss : x.losses) {
      json.text(loss);
    }
    json.close();
    if (x.found) {
      const auto& s = x.strategy;
      json.key("overrides").array(true);
      for (const std::string& text : s.overrides) {
        json.text(text);
      }
      json.close();
      json.key("objective").number(s.objective).key("step_time").number(s.step_time.value);
      json.key("peak").number(s.peak.value).key("fits").boolean(s.fits).key("mfu").number(s.mfu);
      json.key("breakdown").object().key("compute").number(to_seconds(s.compute));
      json.key("recompute").number(to_seconds(s.recompute));
      json.key("communication").number(to_seconds(s.exposed));
      json.key("waiting").number(to_seconds(s.bubble)).key("other").number(to_seconds(s.other));
      json.close();
    } else {
      json.key("why_not").text(x.why_not);
    }
    write_steps(json, x);
    json.close();
  }
  json.close().close();
  return std::move(json).finish();
}

}  // namespace stepcast::report
