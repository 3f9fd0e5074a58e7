#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "lines.h"
#include "sample.h"
#include "support/count.h"

using namespace stepcast;
using stepcast::test::count;
using stepcast::test::lines;

namespace {

int columns(const std::string& line) {
  int n = 0;
  for (const char c : line) {
    n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  }
  return n;
}

std::string without_colour(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      out += text[i];
    }
  }
  return out;
}

result::Report with_stages(int stages) {
  result::Report r = sample::report();
  const auto breakdown = r.breakdown[0];
  const auto memory = r.memory[1];
  r.breakdown.clear();
  r.memory.clear();
  for (int i = 0; i < stages; ++i) {
    auto b = breakdown;
    b.stage = i;
    b.compute += sample::ms(i == 17 ? 40 : 0);
    b.bubble -= sample::ms(i == 17 ? 40 : 0);
    r.breakdown.push_back(b);
    auto m = memory;
    m.stage = i;
    m.activations += sample::gib(i == 5 ? 3 : 0);
    m.allocated += sample::gib(i == 5 ? 3 : 0);
    m.process += sample::gib(i == 5 ? 3 : 0);
    r.memory.push_back(m);
  }
  return r;
}

}  // namespace

TEST_CASE("The terminal report of a small job reads as it should") {
  std::ifstream file(STEPCAST_SOURCE_DIR "/tests/golden/terminal.txt");
  REQUIRE(file.good());
  std::stringstream expected;
  expected << file.rdbuf();
  CHECK(report::terminal(sample::report(), false, 100) == expected.str());
}

TEST_CASE("Colour changes no character, and is there only when asked for") {
  const std::string plain = report::terminal(sample::report(), false, 100);
  const std::string painted = report::terminal(sample::report(), true, 100);
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(painted.find('\x1b') != std::string::npos);
  CHECK(lines(without_colour(painted)) == lines(plain));
}

TEST_CASE("No line is wider than the terminal, and bars are as wide as they say") {
  const int width = GENERATE(80, 100, 140);
  for (const std::string& line : lines(report::terminal(sample::report(), false, width))) {
    INFO(line);
    CHECK(columns(line) <= width);
  }
}

TEST_CASE("A bar's cells are its shares of the step") {
  // 100 columns leave a bar of 60 or so: count the glyphs of stage 1 (80 % compute, 10 % tensor, 7
  // % bubble, 3 % rest).
  const auto all = lines(report::terminal(sample::report(), false, 100));
  const auto at = std::find_if(all.begin(), all.end(),
                               [](const std::string& l) { return l.starts_with("  1 "); });
  REQUIRE(at != all.end());
  const auto cells = [&](const char* glyph) { return static_cast<int>(count(*at, glyph)); };
  const int compute = cells("█"), tensor = cells("T"), bubble = cells("·"), optimizer = cells("U");
  const int bar = compute + tensor + bubble + optimizer;
  CHECK(bar >= 16);
  CHECK(std::abs(compute - 0.80 * bar) <= 1);
  CHECK(std::abs(tensor - 0.10 * bar) <= 1);
  CHECK(std::abs(bubble - 0.07 * bar) <= 1);
  CHECK_THAT(*at, ContainsSubstring("80.0 %") && ContainsSubstring("10.0 %") &&
                      ContainsSubstring("7.0 %") && ContainsSubstring("3.0 %"));
}

TEST_CASE("A job that does not fit says by how much and where") {
  const std::string text = report::terminal(sample::report(), false, 100);
  CHECK_THAT(text, ContainsSubstring("NO") && ContainsSubstring("4.0 GiB too much on stage 0"));
  CHECK_THAT(text, ContainsSubstring("memory.recompute=full"));
  CHECK(count(text, "!") >= 2);  // cells beyond the capacity, and the legend
  auto fits = sample::report();
  fits.fits = {true, 0.83, sample::gib(9.1)};
  fits.peak = {static_cast<double>(sample::gib(70).count()), 0, 0};
  CHECK_THAT(report::terminal(fits, false, 100),
             ContainsSubstring("likely 9.1 GiB to spare; probability 83 %"));
}

TEST_CASE("Many stages show as the first, the worst, the last and the mean") {
  const std::string text = report::terminal(with_stages(64), false, 100);
  CHECK_THAT(text, ContainsSubstring("17 (busiest)") && ContainsSubstring("5 (most)") &&
                       ContainsSubstring("mean of 64"));
  CHECK(lines(text).size() <= 63);
  CHECK(lines(report::terminal(with_stages(8), false, 100)).size() <= 63);
  CHECK_THAT(report::terminal(with_stages(8), false, 100), !ContainsSubstring("mean of"));
}

TEST_CASE("Groups without a category of their own show where their waits are booked") {
  using sample::gib;
  using sample::ms;
  result::Report r = sample::report();
  r.breakdown[0].other = ms(7);
  r.traffic.push_back({"embedding", "all_reduce ring simple", 1, gib(0.5), ms(5)});
  r.traffic.push_back({"norm", "all_reduce tree ll", 1, Bytes(4), ms(1)});
  r.traffic.push_back({"data replicas", "all_reduce ring simple", 4, gib(1), ms(9)});
  const auto of = [text = report::terminal(r, false, 100)](const std::string& group) {
    for (const std::string& line : lines(text)) {
      if (line.rfind("  " + group + " ", 0) == 0 && line.find("reduce") != std::string::npos) {
        return line;
      }
    }
    return std::string();
  };
  CHECK_THAT(of("embedding"), ContainsSubstring("7.00 ms"));
  CHECK_THAT(of("gradient norm"), ContainsSubstring("in embedding"));
  CHECK_THAT(of("data replicas"), ContainsSubstring("in data"));
}

TEST_CASE(
    "Waits for experts' groups are booked with their category, beside the group of its name") {
  using sample::gib;
  using sample::ms;
  result::Report r = sample::report();
  r.breakdown[0].expert = ms(11);
  r.traffic = {{"expert data", "reduce_scatter ring simple", 4, gib(1), ms(90)},
               {"data", "reduce_scatter ring simple", 4, gib(1), ms(9)},
               {"expert tensor", "all_gather ring simple", 4, gib(1), ms(80)},
               {"expert", "tokens alltoall", 4, gib(1), ms(8)}};
  const std::string text = report::terminal(r, false, 100);
  const auto at = [&](const std::string& line) {
    CAPTURE(line, text);
    const auto found = text.find("\n  " + line);
    CHECK(found != std::string::npos);
    return found;
  };
  const auto data = at("data                              25.0 ms");
  const auto experts_data = at("data of experts                   in data");
  const auto expert = at("expert-parallel                   11.0 ms");
  const auto within = at("tensor within experts  in expert-parallel");
  CHECK(data < experts_data);
  CHECK(expert < within);
}

TEST_CASE("A report with nothing but headlines still prints") {
  result::Report r;
  r.title = "nothing";
  const std::string text = report::terminal(r, false, 100);
  CHECK_THAT(text, ContainsSubstring("nothing") && ContainsSubstring("Step time"));
}

TEST_CASE("The validation tables show the summary, the misses and what was left out") {
  result::Validation v;
  v.rows.push_back({"good", "s", "f.jsonl", "step_time", true, std::nullopt, std::nullopt, "ok", 2,
                    2.02, 1.9, 2.3, 0.01, std::nullopt});
  v.rows.push_back({"bad", "s", "f.jsonl", "peak_memory", true, 3, 1, "ok", 1e10, 0.8e10, 0.7e10,
                    0.9e10, -0.2, std::nullopt});
  v.rows.push_back({"out", "s", "f.jsonl", "step_time", true, std::nullopt, std::nullopt, "skipped",
                    0, 0, 0, 0, 0, "encoder model"});
  v.summary.push_back(
      {"f.jsonl", "step_time", 2, 1, 0.01, 0.01, 0.01, 0.01, "good", 0.01, 1, 0.1, 0});
  const std::string text = report::terminal(v, false);
  CHECK(text.find("bad") < text.find("good"));
  CHECK_THAT(text, ContainsSubstring("-20.0 %") && ContainsSubstring("peak_memory stage 3 rank 1"));
  CHECK_THAT(text,
             ContainsSubstring("Not simulated: 1 rows") && ContainsSubstring("encoder model"));
}

TEST_CASE(
    "The first sentence says the time, the largest loss, whether it fits, and what it rests on") {
  using result::Basis;
  result::Report r = sample::report();
  const auto first = [&r] {
    const std::string text = report::terminal(r, false, 400);
    return text.substr(0, text.find('\n'));
  };
  CHECK_THAT(first(), ContainsSubstring("1.00 s a step at 41.7 % MFU (9 % exposed tensor-parallel "
                                        "communication, 6 % pipeline bubble)") &&
                          ContainsSubstring("; it does not fit: 4.0 GiB too much."));
  r.fits = {true, 0.83, sample::gib(9.1)};
  CHECK_THAT(first(), ContainsSubstring("; it likely fits (83 %, 9.1 GiB to spare)."));
  r.fits = {true, 0.5, sample::gib(0.1)};
  CHECK_THAT(first(), ContainsSubstring("; it may or may not fit (50 %, 0.1 GiB to spare)."));
  r.fits = {true, 1.0, sample::gib(20)};
  CHECK_THAT(first(), ContainsSubstring("; it fits with 20.0 GiB to spare.") &&
                          !ContainsSubstring("measured"));
  const auto gib = static_cast<double>(sample::gib(1).count());
  r.fits = {true, 0.94, sample::gib(1.1), result::Estimate{70 * gib, 60 * gib, 80 * gib}, true};
  CHECK_THAT(first(), ContainsSubstring("; it likely fits (94 %, 1.1 GiB to spare; it runs in 70.0 "
                                        "GiB, with the allocator giving back its cache)."));
  CHECK_THAT(report::terminal(r, false, 100),
             ContainsSubstring("\n    runs in              70.00 GiB"));
  r.fits = {true, 0.97, sample::gib(1.1), result::Estimate{70 * gib, 61 * gib, 79 * gib}, true};
  CHECK_THAT(first(),
             ContainsSubstring("; it fits with 1.1 GiB to spare (it runs in 70.0 GiB, with "
                               "the allocator giving back its cache)."));
  r.fits = {true, 1.0, sample::gib(20)};
  r.calibration.push_back({"datasheet", "x", "a data sheet", 0.3, Basis::data_sheet, false, 0.5});
  CHECK_THAT(first(), ContainsSubstring("No kernel of this device was measured"));
  r.calibration.push_back({"gemm", "x", "a harness", 0.1, Basis::measured, false, 0.4});
  CHECK_THAT(first(), ContainsSubstring("50 % of the step rests on the data sheet: kernels or "
                                        "copies that were not measured on this device."));
  r.calibration.pop_back();
  r.calibration.back() = {"nccl/x", "x", "logs", 0.3, Basis::of_kind, true, 0.5};
  CHECK_THAT(first(), ContainsSubstring("No collective was measured on this cluster"));
  r.calibration.back().share = 0.001;
  CHECK_THAT(first(), !ContainsSubstring("measured"));
}
