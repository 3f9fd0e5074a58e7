// Strict maps: messages and positions of faults, and that one fault does not hide another.
#include "stepcast/text/map.h"

#include "catch.hpp"

using namespace stepcast;
using text::Faults;
using text::Keys;
using text::Value;

namespace {

const Keys kKeys = {{"name", "size"}, "; expected name or size"};

Value doc(const char* yaml) { return text::parse_yaml(yaml, "file"); }

template <class Read>
std::string map_faults(Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an unknown key is a fault with the nearest known one") {
  CHECK(kKeys.unknown("siz") == "unknown key 'siz'; expected name or size (did you mean 'size'?)");
  CHECK(kKeys.unknown("colour") == "unknown key 'colour'; expected name or size");
  CHECK(Keys{{"size"}, " of a box", false}.unknown("siz") == "unknown key 'siz' of a box");
  CHECK(map_faults([] { text::expect_keys(doc("name: a\nsiz: 2\ncolour: 3\n"), kKeys); }) ==
        "file:2:1: error: unknown key 'siz'; expected name or size (did you mean 'size'?)");
}

TEST_CASE("missing keys and values of another kind are faults at their place") {
  CHECK(map_faults([] { text::need(doc("name: a"), "size"); }) ==
        "file:1:1: error: key 'size' is missing");
  CHECK(map_faults([] { text::expect_map(doc("[1]"), "expected a box"); }) ==
        "file:1:1: error: expected a box");
  CHECK(map_faults([] { text::expect_list(doc("a: 1"), "expected boxes"); }) ==
        "file:1:1: error: expected boxes");
  CHECK(map_faults([] { text::expect_texts(doc("[]"), "expected names"); }) ==
        "file:1:1: error: expected names");
  CHECK(text::expect_texts(doc("[a, b]"), "") == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a fault of one value does not hide those of the others") {
  Faults faults;
  double size = 0;
  faults.fields(doc("sze: 1\nname: [1]\nsize: -2\n"), "a box",
                {{"name", [](const Value& v) { text::to_string(v); }},
                 {"size", [&](const Value& v) { size = faults.number(v, 0, "size"); }}});
  CHECK(faults.count() == 3);
  CHECK(size == -2);
  CHECK(map_faults([&] { faults.done(); }) ==
        "file:1:1: error: unknown key 'sze' of a box; expected name, size\n"
        "file:2:7: error: a list is of the wrong type; expected text\n"
        "file:3:7: error: size is -2; expected at least 0");
}

TEST_CASE("what a visit throws is a fault of its key or item") {
  Faults faults;
  faults.named(doc("a: 1\nb: 2\n"), "boxes", [](const Value::Entry& e) {
    if (e.key == "b") {
      throw std::invalid_argument("is no box");
    }
  });
  faults.list(doc("a: 1"), "boxes", [](const Value&) {});
  CHECK(map_faults([&] { faults.done(); }) ==
        "file:1:1: error: boxes: expected a list\n"
        "file:2:4: error: b: is no box");
  CHECK_NOTHROW(Faults().done());
}
