// The report of a kernel calibration: every part of it, as text and as JSON.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "stepcast/report/report.h"

namespace {

using namespace stepcast;
using nlohmann::json;

result::KernelCalibration found() {
  result::KernelCalibration c;
  c.device = "h200-sxm";
  c.libraries = {"cublas"};
  c.inputs = {{"/somewhere/h200.jsonl", "NVIDIA H200", "calibrate-gpu 0.1.0 on NVIDIA H200", 1234}};
  c.warnings = {"h200.jsonl:7: the last line is cut short; left out"};
  c.left_out = {{"/somewhere/h200.jsonl", 12, 3, "not measured: out of memory"}};
  c.rows = {{"gemm bf16", "above 50 us", 400, 100, 0.031, 0.123, 2}};
  c.refused = {{"cublas", "gemm fp8: 12 shapes of the forward layout are too few"}};
  c.comparisons = {{"gemm bf16 cublas forward", 400, 0.08, 0.2, 0.03, 0.11,
                    "h200-sxm/gemm-cublas.yaml", "gemm-cublas.yaml"}};
  c.figures = {
      {"kernel launch on the host", 2.5e-6, result::KernelFigure::Unit::seconds, 1},
      {"copy h2d pinned, largest", 5.2e10, result::KernelFigure::Unit::bytes_per_second, 1},
      {"sustained over burst rate, gemm bf16", 0.84, result::KernelFigure::Unit::factor, 9}};
  c.layers = {{"llama-3-8b bf16 forward 1x8192 tensor 1", 7e-3, 6.8e-3, 7.7e-3, ""},
              {"no-such-model bf16 forward 1x8192 tensor 1", 7e-3, 0, 0, "there is no model"}};
  c.collectives = {"h200.jsonl"};
  c.files = {{"gemm-cublas.yaml", "kind: gemm\n"}};
  return c;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("kernel calibration: the terminal has every part") {
  const std::string text = report::terminal(found(), false);
  INFO(text);
  for (const char* part :
       {"Kernels of h200-sxm  library cublas", "h200.jsonl: 1,234 measurements of NVIDIA H200",
        "gemm bf16  above 50 us     400       100   3.1 %  12.3 %         2",
        "400   8.0 %  20.0 %  3.0 %  11.0 %  h200-sxm/gemm-cublas.yaml",
        "kernel launch on the host", "2.50 us", "52.0 GB/s", "0.840", "7.00 ms", "6.80 ms",
        "-2.9 %", "10.0 %", "there is no model", "library cublas, gemm fp8: 12 shapes",
        "3 from h200.jsonl:12: not measured: out of memory", "the last line is cut short",
        "simulate calibrate nccl h200.jsonl --cluster NAME"}) {
    INFO(part);
    CHECK(contains(text, part));
  }
  CHECK_FALSE(contains(text, "/somewhere"));
  CHECK_FALSE(contains(text, "\x1b["));
  CHECK(contains(report::terminal(found(), true), "\x1b["));
  CHECK(report::terminal(found(), false) == text);
}

TEST_CASE("kernel calibration: a thousand warnings do not bury it") {
  auto c = found();
  c.warnings.assign(1000, "again");
  const std::string text = report::terminal(c, false);
  CHECK(contains(text, "and 988 more (--json lists all)"));
  CHECK(json::parse(report::json(c)).at("warnings").size() == 1000);
}

TEST_CASE("kernel calibration: parts without anything are not there") {
  const std::string text = report::terminal(result::KernelCalibration{}, false);
  for (const char* part :
       {"Fits", "Before", "Figures", "Layers", "Refused", "Left out", "Warnings", "Collectives"}) {
    CHECK_FALSE(contains(text, part));
  }
}

TEST_CASE("kernel calibration as JSON") {
  const json out = json::parse(report::json(found()));
  CHECK(out.at("schema") == 1);
  CHECK(out.at("device") == "h200-sxm");
  CHECK(out.at("files") == json::array({"gemm-cublas.yaml"}));
  CHECK(out.at("inputs")[0].at("file") == "h200.jsonl");
  CHECK(out.at("inputs")[0].at("measurements") == 1234);
  CHECK(out.at("fits")[0].at("p95") == 0.123);
  CHECK(out.at("fits")[0].at("held_out") == 100);
  CHECK(out.at("comparisons")[0].at("before").at("median") == 0.08);
  CHECK(out.at("comparisons")[0].at("after").at("by") == "gemm-cublas.yaml");
  CHECK(out.at("layers")[0].at("error").get<double>() == Approx(6.8 / 7 - 1));
  CHECK(out.at("layers")[1].at("predicted").is_null());
  CHECK(out.at("layers")[1].at("why") == "there is no model");
  CHECK(out.at("figures")[1].at("unit") == "B/s");
  CHECK(out.at("refused")[0].at("library") == "cublas");
  CHECK(out.at("left_out")[0].at("count") == 3);
  CHECK(out.at("collectives")[0] == "h200.jsonl");
}
