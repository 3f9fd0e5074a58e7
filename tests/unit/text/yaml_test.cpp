#include <random>

#include "catch.hpp"
#include "fault_of.hpp"
#include "stepcast/text/document.h"
#include "temporary_file.hpp"

using namespace stepcast::text;
using stepcast::InputError;

namespace {

std::string yaml_fault(const std::string& text) {
  return fault_of([&] { parse_yaml(text, "job.yaml"); });
}

std::string place(const stepcast::Origin& where) { return stepcast::to_string(where); }

}  // namespace

TEST_CASE("Every key and value of a YAML document knows its line and column, from 1") {
  const Value v =
      parse_yaml("model: llama\nparallelism:\n  tensor: 8\n  stages: [1, 'two']\n", "j");
  REQUIRE(v.kind == Value::Kind::map);
  REQUIRE(v.entries.size() == 2);
  CHECK(v.entries[1].key == "parallelism");
  CHECK(place(v.entries[1].origin) == "j:2:1");
  const Value& tensor = *v.find("parallelism")->find("tensor");
  CHECK(place(tensor.origin) == "j:3:11");
  CHECK(to_integer(tensor) == 8);
  const Value& stages = *v.find("parallelism")->find("stages");
  REQUIRE(stages.items.size() == 2);
  CHECK(place(stages.items[1].origin) == "j:4:15");
  CHECK_FALSE(stages.items[0].quoted);
  CHECK(stages.items[1].quoted);
  CHECK(v.find("absent") == nullptr);
}

TEST_CASE("A scalar keeps its text as written") {
  const Value v = parse_yaml("[010, 15e12, 1_000, yes, ~, null, '', \"a\\tb\", !!str 5]", "j");
  REQUIRE(v.items.size() == 9);
  CHECK(v.items[0].scalar == "010");
  CHECK(v.items[1].scalar == "15e12");
  CHECK(v.items[2].scalar == "1_000");
  CHECK(v.items[3].scalar == "yes");
  CHECK(v.items[4].kind == Value::Kind::null);
  CHECK(v.items[5].kind == Value::Kind::null);
  CHECK(v.items[6].kind == Value::Kind::scalar);
  CHECK(v.items[7].scalar == "a\tb");
  CHECK(v.items[8].quoted);
}

TEST_CASE("A key without a value is nothing, at the key's place") {
  const Value v = parse_yaml("a:\n\nb: 1\n", "j");
  CHECK(v.entries[0].value.kind == Value::Kind::null);
  CHECK(place(v.entries[0].value.origin) == "j:1:1");
}

TEST_CASE("Aliases repeat their anchor's value") {
  const Value v = parse_yaml("a: &x {n: 1}\nb: *x\nc: [*x, *x]\n", "j");
  CHECK(to_integer(*v.find("b")->find("n")) == 1);
  CHECK(v.find("c")->items.size() == 2);
}

TEST_CASE("An empty document is nothing") {
  CHECK(parse_yaml("", "j").kind == Value::Kind::null);
  CHECK(parse_yaml("# only a comment\n", "j").kind == Value::Kind::null);
}

TEST_CASE("Faulty YAML is refused at its place") {
  CHECK(yaml_fault("a: 1\nb: 2\na: 3\n") ==
        "3:1 duplicate key 'a'; expected it once (first at line 1)");
  CHECK(yaml_fault("x: {a: 1, \"a\": 2}") ==
        "1:11 duplicate key 'a'; expected it once (first at line 1)");
  CHECK(yaml_fault("a: &x [1, *x]") ==
        "1:11 an alias is inside the value that it names; expected no cycle");
  CHECK(yaml_fault("a: 1\n---\nb: 2\n") == "3:1 a second document begins; expected one");
  CHECK(yaml_fault("[a, b]: 1\n") == "1:1 is not a name; expected a key of plain text");
  CHECK(yaml_fault("a: !color red\n") ==
        "1:4 has the tag '!color'; expected a value without a tag");
  CHECK_THAT(yaml_fault("a: [1, 2\nb: 3\n"), ContainsSubstring("malformed YAML"));
  CHECK_THAT(yaml_fault("a: b: c\n"), Catch::Matchers::StartsWith("1:5 malformed YAML"));
  CHECK_THAT(yaml_fault("\tx: 1\n"), ContainsSubstring("malformed YAML"));
  CHECK_THAT(yaml_fault("a: *nowhere\n"), ContainsSubstring("malformed YAML"));
}

TEST_CASE("What is not text is refused at its first byte") {
  CHECK(yaml_fault(std::string("a: \0b\n", 6)) == "1:4 byte 0x00 is not text; expected UTF-8");
  CHECK(yaml_fault("a: 1\nb: \xFF\n") == "2:4 byte 0xff is not text; expected UTF-8");
  CHECK(yaml_fault("a: \xC0\x80\n") == "1:4 byte 0xc0 is not text; expected UTF-8");
  CHECK(yaml_fault("a: \xED\xA0\x80\n") == "1:4 byte 0xed is not text; expected UTF-8");
  CHECK(yaml_fault("a: µ\n").empty());
}

TEST_CASE("64 levels are read, 65 are not, by brackets or by aliases") {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  CHECK(yaml_fault(nested(64)).empty());
  CHECK(yaml_fault(nested(65)) == "1:65 is nested too deeply; expected at most 64 levels");
  CHECK_THAT(yaml_fault(std::string(100000, '[')), ContainsSubstring("nested too deeply"));
  // `a` has 40 levels and is nested 25 levels deep.
  const std::string by_alias =
      "a: &x " + nested(40) + "\nb: " + std::string(24, '[') + "*x" + std::string(24, ']') + "\n";
  CHECK_THAT(yaml_fault(by_alias), ContainsSubstring("nested too deeply"));
}

TEST_CASE("Aliases that multiply are refused before they fill the memory") {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below;
    for (int k = 1; k < 10; ++k) {
      text += ", " + below;
    }
    text += "]\n";
  }
  CHECK_THAT(yaml_fault(text), ContainsSubstring("aliases multiply"));
}

TEST_CASE("Whatever the bytes, YAML is read or refused") {
  const std::string seed =
      "model: &m {use: llama-3-70b, layers: 12}\nlist:\n  - 1\n  - 'two'\n  - \"three\\n\"\n"
      "text: |\n  block\n  scalar\nother: *m\n? complex\n: value\n# comment\n";
  std::mt19937 random(11);
  const std::string alphabet = "{}[],:-?&*!|>'\"%@`# \n\tab1.\\~=<";
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = seed;
    const unsigned changes = 1 + random() % 8;
    for (unsigned k = 0; k < changes; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          text.erase(at, 1 + random() % 5);
          break;
        default:
          text[at] = static_cast<char>(random() % 256);
      }
    }
    try {
      parse_yaml(text, "fuzz");
    } catch (const InputError& e) {
      ++refused;
      REQUIRE(e.faults().front().where.line >= 1);
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE(
    "A file is read whole, whatever size it states, and refused beyond the most that is allowed") {
  for (const std::size_t size : {0, 1, 100, 65535, 65536, 65537, 200000}) {
    const std::string content(size, 'x');
    const TemporaryFile file(content);
    CHECK(read_text(file.path()) == content);
    CHECK(read_packed_text(file.path(), size) == content);
    if (size > 0) {
      CHECK_THROWS_AS(read_packed_text(file.path(), size - 1), InputError);
      CHECK_THROWS_AS(read_yaml(file.path(), size - 1), InputError);
    }
  }
  if (std::filesystem::exists("/proc/self/status")) {  // of no size
    CHECK(read_text("/proc/self/status").starts_with("Name:"));
  }
}

TEST_CASE("A file that cannot be read is a fault of that file") {
  CHECK(fault_of([] { read_yaml("/nowhere/job.yaml"); }) ==
        "1:1 no such file; expected a readable text file");
  CHECK(fault_of([] { read_yaml("/"); }) == "1:1 is a directory; expected a readable text file");
  const TemporaryFile marked(
      "\xEF\xBB\xBF"
      "a: 1\n");
  CHECK(to_integer(*read_yaml(marked.path()).find("a")) == 1);
  const TemporaryFile windows("a: 1\r\nb: x\r\n");
  CHECK(read_yaml(windows.path()).find("b")->scalar == "x");
}
