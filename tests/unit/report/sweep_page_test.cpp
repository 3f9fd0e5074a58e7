// A sweep's page: its headline shows the best point, and its table has every point.
#include "stepcast/report/sweep_page.h"

#include <fmt/format.h>

#include "catch.hpp"
#include "support/count.h"

using namespace stepcast;
using stepcast::test::count;

namespace {

// Nodes x device: perfect scaling except for the last point, which does not fit; one device was
// refused.
result::Sweep sample() {
  result::Sweep s;
  s.title = "llama-3-8b <on> nodes";
  s.axes = {{{"cluster.nodes"}, {{"1"}, {"2"}, {"4"}, {"8"}}},
            {{"cluster.device"}, {{"h100-sxm"}, {"h200-sxm"}, {"none"}}}};
  s.scaling_axis = 0;
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t d = 0; d < 3; ++d) {
      result::SweepPoint p;
      p.at = {n, d};
      p.overrides = {fmt::format("cluster.nodes={}", 1 << n),
                     fmt::format("cluster.device={}", s.axes[1].values[d].front())};
      p.ran = d < 2;
      p.reason = p.ran ? "" : "no such <device>";
      p.fits = {p.ran && n < 3, n < 3 ? 0.9 : 0.1, Bytes(n < 3 ? 1 : -1)};
      if (p.ran) {
        p.gpus = 8 << n;
        const double each =
            1000.0 * static_cast<double>(d + 1) * (1 - 0.05 * static_cast<double>(n));
        p.tokens_per_second_per_gpu = {each, 0.9 * each, 1.1 * each};
        p.tokens_per_second = each * static_cast<double>(p.gpus);
        p.step_time.value = 1e6 / p.tokens_per_second;
        p.mfu.value = each / 5000;
        p.gpu_hours_per_gigatoken = 1e9 / each / 3600;
        p.efficiency = 1 - 0.05 * static_cast<double>(n);
        p.on_front = p.fits.fits && d == 1;
      }
      s.points.push_back(p);
    }
  }
  return s;
}

}  // namespace

TEST_CASE("A sweep's page names the best of its points, and shows all") {
  const result::Sweep s = sample();
  const std::string page = report::html(s);
  // 32 GPUs of the second device: 2000 x 0.9 tokens a second each.
  CHECK_THAT(page, ContainsSubstring("data-figure=\"tokens_per_second\" data-value=\"57600\""));
  CHECK_THAT(page, ContainsSubstring("data-figure=\"mfu\" data-value=\"0.4\""));
  CHECK_THAT(page, ContainsSubstring("12"));
  for (const char* section : {"best", "scaling", "heat", "pareto", "points"}) {
    CHECK_THAT(page, ContainsSubstring(fmt::format("<section id=\"{}\"", section)));
  }
  const std::string table = page.substr(page.find("id=\"points-table\""));
  CHECK(count(table, "<tr>") == 1 + s.points.size());
  CHECK(count(table, ">no such &lt;device&gt;<") == 4);
  CHECK(page.find("<on>") == std::string::npos);
  CHECK(page.find("nan") == std::string::npos);
}

TEST_CASE("A sweep of which nothing ran has a page that says so") {
  result::Sweep s = sample();
  for (result::SweepPoint& p : s.points) {
    const std::vector<std::size_t> at = p.at;
    p = {};
    p.at = at;
    p.reason = "refused";
  }
  const std::string page = report::html(s);
  CHECK_THAT(page, ContainsSubstring("0 forecast, 0 fit"));
  CHECK(page.find("id=\"scaling\"") == std::string::npos);
  CHECK(page.find("id=\"pareto\"") == std::string::npos);
  CHECK(count(page, ">refused<") == 12);
}
