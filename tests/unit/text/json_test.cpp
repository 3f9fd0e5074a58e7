#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.hpp"
#include "fault_of.hpp"
#include "stepcast/text/document.h"
#include "temporary_file.hpp"

using namespace stepcast::text;
using stepcast::InputError;

namespace {

std::string json_fault(const std::string& text) {
  return fault_of([&] { parse_json(text, "config.json"); });
}

bool reads(const std::string& text) { return json_fault(text).empty(); }

// Compares a document with the one of nlohmann-json. Our numbers are kept as text and are compared
// by value.
bool same(const Value& ours, const nlohmann::json& theirs) {
  switch (ours.kind) {
    case Value::Kind::null:
      return theirs.is_null();
    case Value::Kind::scalar:
      if (ours.quoted) {
        return theirs.is_string() && theirs.get<std::string>() == ours.scalar;
      }
      return theirs.is_boolean() ? ours.scalar == (theirs.get<bool>() ? "true" : "false")
                                 : theirs.is_number() && to_number(ours) == theirs.get<double>();
    case Value::Kind::sequence:
      if (!theirs.is_array() || theirs.size() != ours.items.size()) {
        return false;
      }
      for (std::size_t i = 0; i < ours.items.size(); ++i) {
        if (!same(ours.items[i], theirs[i])) {
          return false;
        }
      }
      return true;
    case Value::Kind::map:
      if (!theirs.is_object() || theirs.size() != ours.entries.size()) {
        return false;
      }
      for (const Value::Entry& entry : ours.entries) {
        if (!theirs.contains(entry.key) || !same(entry.value, theirs[entry.key])) {
          return false;
        }
      }
      return true;
  }
  return false;
}

// True if some number exceeds a double: nlohmann-json refuses it on reading, our reader when it is
// used as a number.
bool beyond_range(const Value& v) {
  if (v.kind == Value::Kind::scalar && !v.quoted && v.scalar != "true" && v.scalar != "false") {
    return fault_of([&] { to_number(v); }).find("beyond range") != std::string::npos;
  }
  const auto in_entry = [](const Value::Entry& e) { return beyond_range(e.value); };
  return std::any_of(v.items.begin(), v.items.end(), beyond_range) ||
         std::any_of(v.entries.begin(), v.entries.end(), in_entry);
}

const std::string kSample = R"({
  "architectures": ["LlamaForCausalLM"],
  "hidden_size": 8192, "rms_norm_eps": 1e-05, "tie_word_embeddings": false,
  "rope_scaling": null, "name": "\u00b5\n\ud83d\ude00\/", "empty": {}, "none": [],
  "nested": [[1, -2.5, 0.0], {"a": 1E+2}]
}
)";

}  // namespace

TEST_CASE("JSON keeps the line and column of every key and value") {
  const Value v = parse_json(kSample, "c");
  CHECK(stepcast::to_string(v.origin) == "c:1:1");
  CHECK(stepcast::to_string(v.entries[1].origin) == "c:3:3");
  CHECK(stepcast::to_string(v.find("rms_norm_eps")->origin) == "c:3:40");
  CHECK(stepcast::to_string(v.find("nested")->items[1].origin) == "c:5:30");
  CHECK(to_integer(*v.find("hidden_size")) == 8192);
  CHECK_FALSE(to_bool(*v.find("tie_word_embeddings")));
  CHECK(v.find("rope_scaling")->kind == Value::Kind::null);
  CHECK(v.find("name")->scalar == "µ\n😀/");
}

TEST_CASE("Faulty JSON is refused at its place") {
  CHECK(json_fault("{\"a\": 1,\n \"a\": 2}") ==
        "2:2 duplicate key 'a'; expected it once (first at line 1)");
  CHECK(json_fault("{\"a\": 1,}") ==
        "1:9 malformed JSON: found '}'; expected a key in double quotes");
  CHECK(json_fault("[1 2]") == "1:4 malformed JSON: found '2'; expected ',' or ']'");
  CHECK(json_fault("[01]") ==
        "1:3 malformed JSON: found '1'; expected a number without leading zeros");
  CHECK(json_fault("{'a': 1}") == "1:2 malformed JSON: found '''; expected a key in double quotes");
  CHECK(json_fault("[1] x") == "1:5 text follows the value; expected the end");
  CHECK(json_fault("") == "1:1 malformed JSON: the text ends; expected a value");
  CHECK(json_fault("[Nan]") == "1:2 malformed JSON: found 'N'; expected a value");
  CHECK(json_fault("\"\\ud800\"") ==
        "1:8 malformed JSON: half a surrogate pair; expected both halves");
  CHECK(json_fault("[\"a\nb\"]") ==
        "1:4 malformed JSON: found byte 0x0a; expected '\"' at the string's end");
  CHECK(json_fault(std::string(65, '[') + std::string(65, ']')) ==
        "1:65 is nested too deeply; expected at most 64 levels");
  CHECK(reads(std::string(64, '[') + std::string(64, ']')));
  CHECK_THAT(json_fault(std::string(1'000'000, '[')), ContainsSubstring("nested too deeply"));
}

TEST_CASE("Infinity, as Python writes it, is read but is no number") {
  const Value v = parse_json("[0.0, Infinity, -Infinity, NaN]", "c");
  REQUIRE(v.items.size() == 4);
  for (int i = 1; i < 4; ++i) {
    CHECK_THAT(fault_of([&] { to_number(v.items[i]); }), ContainsSubstring("is not finite"));
  }
}

TEST_CASE("Our JSON reader accepts what nlohmann-json accepts, and reads the same") {
  std::mt19937 random(5);
  const std::string alphabet = "{}[],:\"\\0123456789.eE+-truefalsn \nu";
  int accepted = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text = i == 0 ? kSample : kSample.substr(random() % 60, 40 + random() % 200);
    const std::string tails[] = {"", "}", "]", "\"", "]}", "\"]}"};
    text += tails[random() % 6];
    if (i % 3 == 0 || i % 3 == 1) {
      text = kSample;
    }
    for (unsigned k = 0; i > 0 && k < random() % 3; ++k) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    const nlohmann::json theirs = nlohmann::json::parse(text, nullptr, false);
    const std::string fault = json_fault(text);
    if (fault.find("duplicate key") != std::string::npos) {
      continue;  // nlohmann-json silently keeps the last one
    }
    INFO(text);
    INFO(fault);
    REQUIRE(theirs.is_discarded() == (!fault.empty() || beyond_range(parse_json(text, "c"))));
    if (!theirs.is_discarded()) {
      ++accepted;
      REQUIRE(same(parse_json(text, "c"), theirs));
    }
  }
  CHECK(accepted > 1000);
}

TEST_CASE("JSON lines are one document a line, blank lines none") {
  const TemporaryFile rows("{\"id\": 1}\n\n{\"id\": 2}\r\n{\"id\": 3}");
  const std::vector<Value> read = read_json_lines(rows.path());
  REQUIRE(read.size() == 3);
  CHECK(to_integer(*read[1].find("id")) == 2);
  CHECK(read[1].find("id")->origin.line == 3);
  CHECK(read[2].find("id")->origin.line == 4);
  const TemporaryFile broken("{\"id\": 1}\n{\"id\": \n2}\n");
  CHECK(fault_of([&] { read_json_lines(broken.path()); }) ==
        "2:8 malformed JSON: the text ends; expected a value");
}
