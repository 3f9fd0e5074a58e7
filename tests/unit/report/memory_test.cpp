// Memory over the step as text and as a picture, from a handmade timeline.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "lines.h"
#include "stepcast/report/report.h"
#include "support/count.h"
#include "support/sizes.h"

using namespace stepcast;
using stepcast::test::count;
using stepcast::test::kGiB;
using stepcast::test::lines;

namespace {

result::MemorySample sample(std::int64_t ms, std::int64_t parameters, std::int64_t activations,
                            std::int64_t reserved) {
  result::MemorySample s;
  s.at = Time(ms * 1'000'000'000);
  s.by_category[0] = parameters * kGiB;
  s.by_category[3] = activations * kGiB;
  s.allocated = s.active = (parameters + activations) * kGiB;
  s.reserved = reserved * kGiB;
  return s;
}

// 10 GiB of parameters throughout, 30 GiB of activations in the second half of the step, 50 GiB
// reserved.
result::MemoryTimeline timeline(int stages) {
  result::MemoryTimeline m;
  m.title = "a model on a machine";
  m.capacity = Bytes(80 * kGiB);
  m.fits = {true, 0.99, Bytes(29 * kGiB)};
  for (int i = 0; i < stages; ++i) {
    result::StageTimeline s;
    s.stage = i;
    s.allocated = s.active = Bytes(40 * kGiB);
    s.reserved = Bytes(50 * kGiB);
    s.process = Bytes(51 * kGiB);
    s.steady = Bytes(10 * kGiB);
    s.outside = {{"CUDA context", Bytes(kGiB)}};
    s.peak_at = Time(500 * 1'000'000'000LL);
    s.peak_in = "attention";
    s.micro_batch = 3;
    s.samples = {sample(0, 10, 0, 50), sample(500, 10, 30, 50), sample(1000, 10, 0, 50)};
    s.peak = s.samples[1].by_category;
    s.at_peak = {{"FC1 input", "activations", program::MemoryCategory::activations, "compute",
                  10 * kGiB, 3, Time(400 * 1'000'000'000LL), false},
                 {"parameters", "", program::MemoryCategory::parameters, "compute", 10 * kGiB, 1,
                  Time(-1), true}};
    m.stages.push_back(s);
  }
  return m;
}

// Number of columns of a UTF-8 text without colour codes.
std::size_t width_of(const std::string& line) {
  std::size_t n = 0;
  bool escape = false;
  for (const char c : line) {
    escape = escape || c == '\x1b';
    n += !escape && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
    escape = escape && c != 'm';
  }
  return n;
}

}  // namespace

TEST_CASE("A chart's areas are as high as their bytes and as wide as their time") {
  const int width = GENERATE(80, 100, 111, 121);
  const std::string text = report::terminal(timeline(1), false, width);
  INFO(text);
  const auto plot = static_cast<std::size_t>(width) - 11;
  // Ten rows of 5 GiB: two of parameters throughout, six of activations over half the columns.
  CHECK(count(text, "█") == 2 * plot + 1);  // and one in the legend
  const std::size_t activations = count(text, "░") - 1;
  CHECK(activations >= 6 * (plot / 2));
  CHECK(activations <= 6 * (plot / 2 + 1));
  CHECK(count(text, "▲") == 2);  // on the axis and in the heading
}

TEST_CASE("No line is wider than the terminal, in colour or without") {
  const bool colour = GENERATE(false, true);
  const int width = GENERATE(80, 100, 160);
  const int stages = GENERATE(1, 4, 6, 20);
  for (const std::string& line : lines(report::terminal(timeline(stages), colour, width))) {
    INFO(line);
    CHECK(width_of(line) <= static_cast<std::size_t>(width));
  }
}

TEST_CASE("Colour changes nothing but the colour") {
  const std::string plain = report::terminal(timeline(2), false, 100);
  std::string painted = report::terminal(timeline(2), true, 100);
  for (std::size_t at = painted.find('\x1b'); at != std::string::npos; at = painted.find('\x1b')) {
    painted.erase(at, painted.find('m', at) - at + 1);
  }
  const auto a = lines(plain), b = lines(painted);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i] == b[i].substr(0, b[i].find_last_not_of(' ') + 1));
  }
}

TEST_CASE("The report says where the peak lies, what stands there, and whether it fits") {
  auto m = timeline(2);
  const std::string text = report::terminal(m, false, 100);
  CHECK_THAT(text, ContainsSubstring("it fits with 29.0 GiB to spare") &&
                       ContainsSubstring("at 500 ms: attention, micro-batch 3") &&
                       ContainsSubstring("FC1 input (activations)") &&
                       ContainsSubstring("75.0 %") &&
                       ContainsSubstring("outside the allocator, stage 0: CUDA context 1.00"));
  m.capacity = Bytes(45 * kGiB);
  m.fits = {false, 0.25, Bytes(-6 * kGiB)};
  CHECK_THAT(report::terminal(m, false, 100),
             ContainsSubstring("it is unlikely to fit (25 %, 6.0 GiB too much)"));
}

TEST_CASE("Host memory and NVMe appear where they are used") {
  auto m = timeline(2);
  CHECK_THAT(report::terminal(m, false, 100), !ContainsSubstring("NVMe"));
  m.stages[1].host = Bytes(7 * kGiB);
  m.stages[1].nvme = Bytes(9 * kGiB);
  CHECK_THAT(report::terminal(m, false, 100),
             ContainsSubstring("host") && ContainsSubstring("NVMe") && ContainsSubstring("9.0"));
}

TEST_CASE("The picture has a panel a stage and names no layer that is empty") {
  const std::string svg = report::svg(timeline(3));
  CHECK(count(svg, "GiB allocated, ") == 3);
  CHECK(count(svg, "<title>activations</title>") == 3);
  CHECK(count(svg, "<title>workspace</title>") == 0);
}

TEST_CASE("The JSON holds every sample in columns") {
  const auto memory = nlohmann::json::parse(report::json(timeline(2)));
  const auto& line = memory.at("stages")[1].at("timeline");
  CHECK(line.at("time") == nlohmann::json::array({0.0, 0.5, 1.0}));
  CHECK(line.at("activations") == nlohmann::json::array({0, 30 * kGiB, 0}));
  CHECK(memory.at("stages")[0].at("at").at("chunk").is_null());
}
