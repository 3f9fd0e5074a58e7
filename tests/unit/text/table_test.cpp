#include <cstdlib>

#include "catch.hpp"
#include "fault_of.hpp"
#include "stepcast/text/document.h"
#include "temporary_file.hpp"

using namespace stepcast::text;

namespace {

std::string csv_fault(const std::string& text) {
  const TemporaryFile file(text);
  return fault_of([&] { read_csv(file.path()); });
}

Value plain(const std::string& text) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.origin = {"job.yaml", 2, 3};
  v.scalar = text;
  return v;
}

// Sets an environment variable for one scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
    }
    setenv(name, value, 1);
  }
  ~Environment() { setenv(name_, old_.c_str(), 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
};

}  // namespace

TEST_CASE("CSV: a header line, quotes as RFC 4180 has them, either line end") {
  const TemporaryFile file("gpu,shape,\"time, us\"\nh100,\"a \"\"b\"\"\",1.5\r\n,\"\",2\n");
  const Table t = read_csv(file.path());
  CHECK(t.columns == std::vector<std::string>{"gpu", "shape", "time, us"});
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0] == std::vector<std::string>{"h100", "a \"b\"", "1.5"});
  CHECK(t.rows[1] == std::vector<std::string>{"", "", "2"});
  CHECK(t.column("shape") == 1);
  CHECK(t.column("absent") == -1);
}

TEST_CASE("Faulty CSV is refused at its place") {
  CHECK(csv_fault("a,b\n1,2\n1\n") == "3:1 the row has 1 fields; expected 2");
  CHECK(csv_fault("a,b\n1,2,3\n") == "2:1 the row has 3 fields; expected 2");
  CHECK(csv_fault("a,b\n1,2\n\n3,4\n") == "3:1 the row has 1 fields; expected 2");
  CHECK(csv_fault("a,a\n") == "1:1 duplicate column 'a'; expected it once");
  CHECK(csv_fault("\n\n") == "1:1 is empty; expected a line of column names");
  CHECK(csv_fault("a\n\"x\n") == "2:1 a quoted field does not end; expected '\"' on the same line");
  CHECK(csv_fault("a\n\"x\"y\n") ==
        "2:4 text follows a quoted field; expected ',' or the line's end");
  CHECK(csv_fault("a\nx\"y\n") ==
        "2:2 a quote is inside an unquoted field; expected the whole field quoted");
  CHECK(csv_fault("a\n\x01\n") == "2:1 byte 0x01 is not text; expected UTF-8");
}

TEST_CASE("Typed views take a value of their type only, and say what they expected") {
  CHECK(to_integer(plain("15e12")) == 15'000'000'000'000);
  CHECK(to_number(plain("1_000.5")) == 1000.5);
  CHECK(to_bool(plain("true")));
  CHECK_FALSE(to_bool(plain("False")));
  CHECK(to_string(plain("8")) == "8");

  const auto fault = [](const Value& v, auto view) { return fault_of([&] { view(v); }); };
  const auto integer = [](const Value& v) { to_integer(v); };
  const auto boolean = [](const Value& v) { to_bool(v); };
  const auto text = [](const Value& v) { to_string(v); };
  CHECK(fault(plain("010"), integer) ==
        "2:3 '010' starts with 0 and looks octal; expected a decimal number without leading zeros");
  CHECK(fault(plain("1.5"), integer) ==
        "2:3 '1.5' is not whole; expected a whole number such as 8 or 15e12");
  CHECK(fault(plain("yes"), boolean) ==
        "2:3 the value 'yes' is of the wrong type; expected true or false");
  Value quoted = plain("8");
  quoted.quoted = true;
  CHECK(fault(quoted, integer) == "2:3 the text '8' is of the wrong type; expected a whole number");
  CHECK(to_string(quoted) == "8");
  Value map = plain("");
  map.kind = Value::Kind::map;
  CHECK(fault(map, text) == "2:3 a map is of the wrong type; expected text");
  CHECK(fault(plain(std::string(1'000'000, '9')), integer).size() < 150);
}

TEST_CASE("The data directory is the chosen one, and must hold configs") {
  {
    const Environment chosen("STEPCAST_DATA", STEPCAST_SOURCE_DIR);
    CHECK(data_directory() == STEPCAST_SOURCE_DIR);
  }
  {
    const Environment wrong("STEPCAST_DATA", "/nowhere");
    CHECK(fault_of([] { data_directory(); }) ==
          "0:0 '/nowhere' holds no configs; expected the folder that has configs/");
  }
  const Environment unset("STEPCAST_DATA", "");
  CHECK(std::filesystem::is_directory(data_directory() / "configs"));
}
