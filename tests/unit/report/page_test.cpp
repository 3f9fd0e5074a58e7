// The frame of HTML reports: no text of the user becomes markup, and every tag is closed.
#include "stepcast/report/page.h"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "support/count.h"

using namespace stepcast;
using stepcast::test::count;

namespace {

constexpr const char* kNasty = "</script><b>\"'&<!--";

}  // namespace

TEST_CASE("text is escaped wherever it goes in") {
  report::Table table;
  table.caption = kNasty;
  table.columns = {{kNasty, report::Column::Kind::text, kNasty}};
  report::Cell cell = kNasty;
  cell.hint = kNasty;
  table.rows = {{cell}};
  report::Page page(kNasty, kNasty);
  page.section("one", kNasty, kNasty);
  page.add(report::to_html(table));
  page.add(report::to_html(
      std::vector<report::Tile>{{kNasty, kNasty, kNasty, kNasty, {1}, report::Tile::Tone::plain}}));
  page.add(report::legend({{"data", kNasty, kNasty}}) + report::bar({{"data", 1, kNasty}}, 2));
  page.add(report::details(kNasty, report::figure("<p></p>", kNasty)));
  page.foot(kNasty);
  const std::string text = page.finish();
  CHECK(text.find("<b>\"") == std::string::npos);
  CHECK(text.find("<!--") == std::string::npos);
  CHECK(count(text, "<script") == count(text, "</script>"));
  for (const char* element : {"section", "table", "figure", "details", "main", "nav", "dl", "ul"}) {
    CHECK(count(text, std::string("<") + element) ==
          count(text, std::string("</") + element + ">"));
  }
}

TEST_CASE("embedded JSON cannot end its element and reads back as it was") {
  const std::string json = nlohmann::json{{"name", kNasty}}.dump();
  const std::string element = report::embedded_json("data", json);
  CHECK(count(element, "<") == 2);
  const std::size_t from = element.find('>') + 1;
  const std::string inside = element.substr(from, element.rfind("</script>") - from);
  CHECK(nlohmann::json::parse(inside) == nlohmann::json::parse(json));
}

TEST_CASE("cells and tiles carry what their texts round") {
  report::Table table;
  table.columns = {{"seconds", report::Column::Kind::number, ""}};
  table.rows = {{report::Cell("8.63 s", 8.633123456789)}};
  CHECK_THAT(
      report::to_html(table),
      ContainsSubstring("<td data-value=\"8.63312345679\" data-label=\"seconds\">8.63 s</td>"));
  const std::string tiles = report::to_html(std::vector<report::Tile>{
      {"Step", "2 s", "", "step_time", {2, 1.5, 3}, report::Tile::Tone::plain}});
  CHECK_THAT(tiles,
             ContainsSubstring(
                 "data-figure=\"step_time\" data-value=\"2\" data-low=\"1.5\" data-high=\"3\""));
}

TEST_CASE("a bar's parts lie side by side and end at the whole") {
  const std::string text = report::bar({{"data", 1, ""}, {"tensor", 1, ""}, {"other", 9, ""}}, 4);
  CHECK_THAT(text, ContainsSubstring("x=\"0.0\" width=\"250.0\"") &&
                       ContainsSubstring("x=\"250.0\" width=\"250.0\"") &&
                       ContainsSubstring("x=\"500.0\" width=\"500.0\""));
}

TEST_CASE("only a served page may fetch, and only from its server") {
  report::Page report("a", "b"), served("a", "b");
  served.allow_own_server();
  CHECK(report.finish().find("connect-src") == std::string::npos);
  CHECK_THAT(served.finish(), ContainsSubstring("connect-src 'self'"));
}
