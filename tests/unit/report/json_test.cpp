#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "catch.hpp"
#include "sample.h"

using namespace stepcast;
using nlohmann::json;

namespace {

std::set<std::string> keys(const json& object) {
  std::set<std::string> out;
  for (const auto& [key, value] : object.items()) {
    out.insert(key);
  }
  return out;
}

void check_keys(const json& object, const std::set<std::string>& wanted) {
  const std::set<std::string> have = keys(object);
  for (const std::string& key : wanted) {
    INFO(key);
    CHECK(have.contains(key));
  }
}

// Converts a number that was printed with 12 decimals to picoseconds.
std::int64_t picoseconds(const json& value) { return std::llround(value.get<double>() * 1e12); }

}  // namespace

TEST_CASE("The report's JSON has every key of the contract, with the values of the report") {
  const json j = json::parse(report::json(sample::report()));
  check_keys(j, {"schema", "stepcast", "job", "step_time", "tokens_per_second_per_gpu",
                 "model_flops_per_gpu", "mfu", "hfu", "bubble_fraction", "breakdown", "memory",
                 "traffic", "calibration", "advice", "engine"});
  CHECK(j["schema"] == 2);
  CHECK(j["stepcast"] == "0.1.0");
  CHECK(j["job"]["cluster"]["nodes"] == 2);
  for (const char* headline :
       {"step_time", "tokens_per_second_per_gpu", "model_flops_per_gpu", "mfu", "hfu"}) {
    CHECK(keys(j[headline]) == std::set<std::string>{"value", "low", "high"});
  }
  CHECK(j["mfu"]["value"] == 0.417);
  CHECK(j["hfu"]["high"] == 0.45);
  CHECK(j["tokens_per_second_per_gpu"]["low"] == 7700);
  CHECK(j["model_flops_per_gpu"]["value"] == 4.125e14);
  CHECK(j["bubble_fraction"] == 0.06);

  const json& stage = j["breakdown"][0];
  CHECK(keys(stage) == std::set<std::string>{"stage", "compute", "recompute", "slowdown", "exposed",
                                             "bubble", "host", "optimizer", "stall"});
  CHECK(keys(stage["exposed"]) == std::set<std::string>{"tensor", "pipeline", "data", "context",
                                                        "expert", "offload", "other"});
  CHECK(stage["exposed"]["data"] == 0.025);

  const json& memory = j["memory"];
  check_keys(memory, {"capacity", "fits", "peak", "stages"});
  CHECK(memory["fits"]["verdict"] == "no");
  CHECK(memory["fits"]["probability"] == 0.03125);
  CHECK(memory["fits"]["spare"] == (sample::gib(79.1) - sample::gib(83.1)).count());
  CHECK(keys(memory["peak"]) == std::set<std::string>{"value", "low", "high"});
  const json& most = memory["stages"][0];
  check_keys(most, {"stage", "peak", "steady", "first_step_peak", "parameters", "gradients",
                    "optimizer", "activations", "communication", "workspace", "other", "at"});
  CHECK(keys(most["peak"]) == std::set<std::string>{"allocated", "active", "reserved", "process"});
  CHECK(most["peak"]["process"].get<std::int64_t>() == sample::gib(83.1).count());
  std::int64_t sum = 0;
  for (const char* part : {"parameters", "gradients", "optimizer", "activations", "communication",
                           "workspace", "other"}) {
    sum += most[part].get<std::int64_t>();
  }
  CHECK(sum == most["peak"]["allocated"].get<std::int64_t>());
  CHECK(picoseconds(most["at"]) == 600'000'000'007);

  CHECK(keys(j["traffic"][0]) == std::set<std::string>{"group", "op", "count", "bytes", "time"});
  CHECK(j["traffic"][1]["count"] == 1280);
  CHECK(keys(j["calibration"][0]) ==
        std::set<std::string>{"file", "device", "provenance", "residual", "basis", "share"});
  CHECK(keys(j["advice"][0]) == std::set<std::string>{"change", "fits", "peak", "step_time"});
  check_keys(j["engine"], {"fidelity", "ranks", "classes", "tasks", "events", "steps"});
  CHECK(j["engine"]["events"] == 5678);
}

TEST_CASE("A stage's breakdown adds up to the step in the printed picoseconds") {
  const std::string text = report::json(sample::report());
  const json j = json::parse(text);
  const std::int64_t step = picoseconds(j["step_time"]["value"]);
  CHECK(step == 1'000'000'000'003);
  for (const json& stage : j["breakdown"]) {
    std::int64_t sum = 0;
    for (const char* part :
         {"compute", "recompute", "slowdown", "bubble", "host", "optimizer", "stall"}) {
      sum += picoseconds(stage[part]);
    }
    for (const auto& [name, value] : stage["exposed"].items()) {
      sum += picoseconds(value);
    }
    CHECK(sum == step);
  }
  CHECK_THAT(text, ContainsSubstring("\"stall\": 0.020000000003"));
  CHECK_THAT(text, ContainsSubstring("\"value\": 1.000000000003, \"low\": 0.950000000000"));
}

TEST_CASE("Times print exactly, whatever their size or sign") {
  auto r = sample::report();
  // A double cannot represent either of them exactly.
  r.breakdown[0].compute = Time(9'007'199'254'740'993);
  r.breakdown[0].stall = Time(-1);
  r.breakdown[0].host = Time(std::numeric_limits<std::int64_t>::min());
  const std::string text = report::json(r);
  CHECK_THAT(text, ContainsSubstring("\"compute\": 9007.199254740993"));
  CHECK_THAT(text, ContainsSubstring("\"stall\": -0.000000000001"));
  CHECK_THAT(text, ContainsSubstring("\"host\": -9223372.036854775808"));
}

TEST_CASE("What is no JSON number is null, and broken text stays readable") {
  auto r = sample::report();
  r.mfu = {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity(), 0.5};
  r.title = "quote \" newline \n broken \xff";
  r.job_json = "";
  const json j = json::parse(report::json(r));
  CHECK(j["mfu"]["value"].is_null());
  CHECK(j["mfu"]["low"].is_null());
  CHECK(j["mfu"]["high"] == 0.5);
  CHECK(j["job"].empty());
  CHECK(j["title"].get<std::string>().starts_with("quote \" newline \n broken "));
}

TEST_CASE("The same report gives the same bytes") {
  CHECK(report::json(sample::report()) == report::json(sample::report()));
}

TEST_CASE("A validation's JSON has every key of the contract") {
  result::Validation v;
  v.rows.push_back({"r1", "s", "f.jsonl", "step_time", true, std::nullopt, std::nullopt, "ok", 2,
                    2.1, 1.9, 2.3, 0.05, std::nullopt});
  v.rows.push_back({"r2", "s", "f.jsonl", "peak_memory", false, 3, 1, "skipped", 1, 0, 0, 0, 0,
                    "operator-level table"});
  v.summary.push_back(
      {"f.jsonl", "step_time", 2, 1, 0.05, 0.05, 0.05, 0.05, "r1", 0.05, 1, 0.1, 0.4});
  const json j = json::parse(report::json(v));
  CHECK(j["schema"] == 1);
  CHECK(keys(j["rows"][0]) ==
        std::set<std::string>{"id",    "source", "file",      "metric",     "primary", "stage",
                              "rank",  "status", "published", "predicted",  "low",     "high",
                              "error", "reason", "accepted",  "deviations", "open",    "system",
                              "path",  "doubts", "bytes",     "why"});
  CHECK(j["rows"][0]["stage"].is_null());
  CHECK(j["rows"][0]["reason"].is_null());
  CHECK(j["rows"][1]["stage"] == 3);
  CHECK(j["rows"][1]["primary"] == false);
  CHECK(j["rows"][1]["reason"] == "operator-level table");
  CHECK(keys(j["summary"][0]) == std::set<std::string>{"file", "metric", "rows", "simulated",
                                                       "median", "mean", "bias", "p90", "worst",
                                                       "coverage", "half_width", "interval_score",
                                                       "accepted", "simulated_share", "of_all"});
  CHECK(j["summary"][0]["worst"] == json({{"id", "r1"}, {"error", 0.05}}));
  CHECK(j["summary"][0]["interval_score"] == 0.4);
}

TEST_CASE("A played schedule's JSON and picture hold every pass") {
  const schedule::Request request{2, 4, 1, 0, 0};
  const auto order = schedule::make("1f1b", request);
  const auto result = schedule::play(std::get<schedule::Order>(order), request, {});
  const auto& played = std::get<schedule::Played>(result);
  const json j = json::parse(report::json(played));
  CHECK(keys(j) == std::set<std::string>{"makespan", "idle", "idle_inside", "peak_until_w",
                                         "peak_until_i", "tasks"});
  CHECK(j["makespan"] == 15);
  CHECK(j["idle"] == json({3, 3}));
  CHECK(j["peak_until_w"] == json({2, 1}));
  REQUIRE(j["tasks"].size() == 16);
  CHECK(keys(j["tasks"][0]) ==
        std::set<std::string>{"rank", "stage", "micro_batch", "kind", "start", "end"});
  CHECK(j["tasks"][0]["kind"] == "F");
  CHECK(std::count_if(j["tasks"].begin(), j["tasks"].end(),
                      [](const json& t) { return t["kind"] == "B" && t["end"] == 15; }) == 1);
  const std::string picture = report::svg(played);
  const auto count = [&](const std::string& what) {
    int n = 0;
    for (auto at = picture.find(what); at != std::string::npos; at = picture.find(what, at + 1)) {
      ++n;
    }
    return n;
  };
  CHECK(count("<title>forward of") == 8);
  CHECK(count("<title>backward of") == 8);
  CHECK(count("<g>") == count("</g>"));
  CHECK_THAT(picture, ContainsSubstring("total time 15<"));
  CHECK_THAT(picture, ContainsSubstring("backward of micro-batch 3 on stage 0: 13 to 15<"));
}

TEST_CASE("Passes side by side share a row of the picture") {
  const schedule::Request request{2, 4};
  const auto order = schedule::make("dualpipe", request);
  const auto result = schedule::play(std::get<schedule::Order>(order), request, {});
  const std::string picture = report::svg(std::get<schedule::Played>(result));
  CHECK_THAT(picture, ContainsSubstring("height=\"11\""));
  CHECK_THAT(picture, ContainsSubstring("input gradient</text>"));
  CHECK_THAT(picture, ContainsSubstring("weight gradient</text>"));
}
