#include "text/image.h"

#include <filesystem>
#include <fstream>
#include <random>

#include "catch.hpp"
#include "temporary_file.hpp"

using namespace stepcast::text;

namespace {

bool equal(const Value& a, const Value& b) {
  const auto same_place = [](const stepcast::Origin& x, const stepcast::Origin& y) {
    return x.file == y.file && x.line == y.line && x.column == y.column;
  };
  return a.kind == b.kind && same_place(a.origin, b.origin) && a.scalar == b.scalar &&
         a.quoted == b.quoted &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal) &&
         std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [&](const Value::Entry& x, const Value::Entry& y) {
                      return x.key == y.key && same_place(x.origin, y.origin) &&
                             equal(x.value, y.value);
                    });
}

const std::vector<std::string> kTexts = {
    "",
    "a: 1\n",
    "a: 2\n",  // of the same length
    "# a comment: not a value\nlist: [1, two, 'th''ree', \"f\\tour\\t\", ~, {}]\n"
    "map: {x: &one [1, [2]], y: *one}\ntext: |\n  several\n  lines\n",
};

}  // namespace

TEST_CASE("A document of an image is what parsing its text gives") {
  const TemporaryFile file(image_of(kTexts));
  const Image image(file.path());
  for (const std::string& text : kTexts) {
    INFO(text);
    const auto found = image.document(text, "name.yaml");
    REQUIRE(found);
    CHECK(equal(*found, parse_yaml(text, "name.yaml")));
  }
  CHECK_FALSE(image.document("a: 3\n", "name.yaml"));
  CHECK_FALSE(Image("/nowhere/documents.image").document("a: 1\n", "name.yaml"));
}

TEST_CASE("An entry of the outermost map can be left out of a document of an image") {
  const TemporaryFile file(image_of(kTexts));
  const Image image(file.path());
  const std::string& text = kTexts.back();
  const Value whole = parse_yaml(text, "name.yaml");
  for (const std::string without : {"list", "map", "text", "absent", "x"}) {
    INFO(without);
    const auto found = image.document(text, "name.yaml", without);
    Value expected = whole;
    std::erase_if(expected.entries, [&](const Value::Entry& e) { return e.key == without; });
    REQUIRE(found);
    CHECK(equal(*found, expected));
  }
}

TEST_CASE("The shipped data is read alike with and without the built image") {
  int found = 0;
  for (const char* folder : {"configs", "calibration"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(data_directory() / folder)) {
      if (entry.path().extension() == ".yaml") {
        const std::string text = read_text(entry.path());
        const auto known = built_image().document(text, entry.path().string());
        INFO(entry.path().string());
        CHECK((!known || equal(*known, parse_yaml(text, entry.path().string()))));
        found += known ? 1 : 0;
      }
    }
  }
  CHECK(found > 100);
}

TEST_CASE("A damaged image gives the right document or none") {
  const std::string whole = image_of(kTexts);
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    if (round % 4 == 0) {
      bytes.resize(random() % bytes.size());
    }
    for (unsigned k = random() % 4; k > 0 && !bytes.empty(); --k) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const TemporaryFile file(bytes);
    const Image image(file.path());
    for (const std::string& text : kTexts) {
      const auto found = image.document(text, "name.yaml");
      CHECK((!found || equal(*found, parse_yaml(text, "name.yaml"))));
    }
  }
}
