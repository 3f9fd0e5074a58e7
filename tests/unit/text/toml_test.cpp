#include "catch.hpp"
#include "fault_of.hpp"
#include "stepcast/text/document.h"
#include "temporary_file.hpp"

using namespace stepcast::text;
using stepcast::to_string;

namespace {

std::string toml_fault(const std::string& text) {
  return fault_of([&] { parse_toml(text, "run.toml"); });
}

}  // namespace

TEST_CASE("TOML keeps the place of keys and values, in the order of the text") {
  const Value v = parse_toml(
      "# a comment\n"
      "[training]\n"
      "seq_len = 8_192\n"
      "dataset = \"c4\"  # behind it\n"
      "\n"
      "[model.args]\n"
      "flavor = '8B'\n"
      "rates = [1.5, 2e3]\n"
      "on = true\n",
      "run.toml");
  REQUIRE(v.entries.size() == 2);
  CHECK(v.entries[0].key == "training");
  CHECK(v.entries[1].key == "model");
  const Value& length = *v.find("training")->find("seq_len");
  CHECK(to_integer(length) == 8192);
  CHECK_FALSE(length.quoted);
  CHECK(to_string(length.origin) == "run.toml:3:11");
  CHECK(to_string(v.find("training")->entries[1].origin) == "run.toml:4:1");
  const Value& args = *v.find("model")->find("args");
  CHECK(to_string(*args.find("flavor")) == "8B");
  CHECK(args.find("flavor")->quoted);
  REQUIRE(args.find("rates")->items.size() == 2);
  CHECK(to_number(args.find("rates")->items[1]) == 2000);
  CHECK(to_bool(*args.find("on")));
}

TEST_CASE("Dotted keys, inline tables, tables in lists and dates of TOML") {
  const Value v = parse_toml(
      "a.b.c = 1\n"
      "point = {x = 1, y = -2}\n"
      "when = 2024-05-01\n"
      "[[part]]\n"
      "name = \"one\"\n"
      "[[part]]\n"
      "name = \"two\"\n",
      "run.toml");
  CHECK(to_integer(*v.find("a")->find("b")->find("c")) == 1);
  CHECK(to_integer(*v.find("point")->find("y")) == -2);
  CHECK(to_string(*v.find("when")) == "2024-05-01");
  REQUIRE(v.find("part")->items.size() == 2);
  CHECK(to_string(*v.find("part")->items[1].find("name")) == "two");
}

TEST_CASE("What is wrong with TOML is one line with its place") {
  CHECK(toml_fault("a = 1\na = 2\n").rfind("2:", 0) == 0);
  CHECK(toml_fault("a = [1, 2\n").find("malformed TOML: ") != std::string::npos);
  CHECK(toml_fault("[section\nx = 1\n").rfind("1:", 0) == 0);
  CHECK(toml_fault("a = 12monkeys\n").rfind("1:", 0) == 0);
  CHECK(toml_fault("a = \"\x01\"\n") == "1:6 byte 0x01 is not text; expected UTF-8");
  CHECK(toml_fault("a = " + std::string(100, '[') + std::string(100, ']') + "\n")
            .find("is nested too deeply; expected at most 64 levels") != std::string::npos);
  CHECK(toml_fault("").empty());
  CHECK(fault_of([] { to_number(*parse_toml("a = nan\n", "run.toml").find("a")); }) != "");
}
