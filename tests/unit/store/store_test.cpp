// A store keeps its points through kills, full disks and damage, or reports in one line that it
// cannot.
#include "stepcast/store/store.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "support/folder.h"

using namespace stepcast;
using store::Point;
using store::Store;

namespace {

const std::string kModel = "model 1";

Point point(int i) {
  return {fmt::format("key {:05}", i), i % 2 == 0 ? "even" : "odd",
          fmt::format("{{\"i\": {}}}", i)};
}

// The line with which a file is refused, or "".
std::string refusal(const std::filesystem::path& file, const std::string& model = kModel) {
  try {
    Store one("--store", file, model);
    one.for_each([](const Point&) {});
    return "";
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 1);
    return to_string(error.faults().front());
  }
}

void sql(const std::filesystem::path& file, const std::string& text) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("What is put is found, now and by the next to open, in the order of keys") {
  const test::Folder folder;
  {
    Store s("--store", folder / "a.db", kModel);
    for (const int i : {3, 1, 2, 1}) {
      s.put(point(i));
    }
    s.put({"key 00002", "odd", "[]"});  // replaces the first one
    CHECK(s.find("key 00001") == point(1));
    CHECK_FALSE(s.find("key 00009"));
    CHECK(s.trouble().empty());
  }
  Store s("--store", folder / "a.db", kModel);
  std::vector<Point> all;
  s.for_each([&](const Point& p) { all.push_back(p); });
  CHECK(all == std::vector<Point>{point(1), {"key 00002", "odd", "[]"}, point(3)});
  CHECK(s.size() == 3);
}

TEST_CASE("No point that was put is lost, and none is there twice, when the writer is killed") {
  const test::Folder folder;
  int written = 0;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Store s("--store", folder / "a.db", kModel);
      for (int i = written; i < 1'000'000; ++i) {
        s.put(point(i));
        static_cast<void>(!::write(ends[1], &i, sizeof i));
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    int last = -1;
    for (int i = 0; i < 7 * round + 1; ++i) {
      REQUIRE(::read(ends[0], &last, sizeof last) == sizeof last);
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    int more = 0;
    while (::read(ends[0], &more, sizeof more) == sizeof more) {
      last = more;
    }
    ::close(ends[0]);
    Store s("--store", folder / "a.db", kModel);
    int count = 0;
    s.for_each([&](const Point& p) {
      if (!(p == point(count++))) {
        FAIL(p.key);
      }
    });
    CHECK(count >= last + 1);
    CHECK(count <= last + 2);  // it may have died between writing a point and reporting it
    written = count;
  }
}

TEST_CASE(
    "On a full disk points wait in memory, the store stays whole, and they are written later") {
  const test::Folder folder;
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  {
    Store s("--store", folder / "a.db", kModel);
    s.put(point(1));
    const rlimit full{64 << 10, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
    const Point large{"large", "odd", std::string(200 << 10, 'x')};
    s.put(large);
    CHECK_THAT(s.trouble(), ContainsSubstring("cannot write '" + folder.file("a.db") + "'"));
    CHECK(s.find("large") == large);
    CHECK(s.find("key 00001") == point(1));
    s.put(point(2));
    CHECK(s.size() == 3);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(refusal(folder / "a.db").empty());
    s.flush();
    CHECK(s.trouble().empty());
  }
  Store s("--store", folder / "a.db", kModel);
  CHECK(s.size() == 3);
}

TEST_CASE("What is no store of this version is refused in one line, and left as it is") {
  const test::Folder folder;
  const std::filesystem::path good = folder / "good.db";
  {
    Store s("--store", good, kModel);
    for (int i = 0; i < 500; ++i) {
      s.put(point(i));
    }
  }
  const std::string whole = bytes_of(good);
  REQUIRE(refusal(good).empty());

  CHECK_THAT(refusal(good, "model 2"), ContainsSubstring("--store: error: '" + good.string()) &&
                                           ContainsSubstring("another version (model 1)"));
  CHECK(bytes_of(good) == whole);

  folder.write("text.db",
               "once upon a time there was a long text file, which is no database at all\n");
  CHECK_THAT(refusal(folder / "text.db"), ContainsSubstring("is not a store"));

  folder.write("short.db", whole.substr(0, whole.size() / 2));
  CHECK_THAT(refusal(folder / "short.db"), ContainsSubstring("damaged"));

  for (std::size_t page = 1; page < whole.size() / 4096; ++page) {
    std::string bad = whole;
    for (std::size_t i = 0; i < 64; ++i) {
      bad[page * 4096 + i] = static_cast<char>(bad[page * 4096 + i] ^ 0x55);
    }
    folder.write("bad.db", bad);
    INFO(page);
    CHECK_THAT(refusal(folder / "bad.db"), ContainsSubstring("damaged"));
  }

  // Inside a payload, where the structure of the database is unaffected.
  std::string flipped = whole;
  const std::size_t at = flipped.find("{\"i\": 77}");
  REQUIRE(at != std::string::npos);
  flipped[at + 6] = '8';
  folder.write("flipped.db", flipped);
  CHECK_THAT(refusal(folder / "flipped.db"), ContainsSubstring("damaged (the point 'key 00077'"));

  sql(folder / "other.db", "CREATE TABLE t (a)");
  CHECK_THAT(refusal(folder / "other.db"), ContainsSubstring("another program"));
  sql(good, "PRAGMA user_version = 2");
  CHECK_THAT(refusal(good), ContainsSubstring("format 2"));

  CHECK_THAT(refusal(folder.path()), ContainsSubstring("cannot be opened as a store"));
  CHECK_THAT(refusal(folder / "no" / "where.db"), ContainsSubstring("cannot be opened as a store"));
}

TEST_CASE("A folder that cannot be written to is refused in one line") {
  const test::Folder folder;
  {
    Store s("--store", folder / "a.db", kModel);
    s.put(point(1));
  }
  REQUIRE(::chmod(folder.path().c_str(), 0555) == 0);
  const bool root = ::geteuid() == 0;  // root may access everything
  if (root) {
    REQUIRE(::seteuid(65534) == 0);
  }
  const std::string fresh = refusal(folder / "b.db"), old = refusal(folder / "a.db");
  if (root) {
    REQUIRE(::seteuid(0) == 0);
  }
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  CHECK_THAT(fresh, ContainsSubstring("cannot be opened as a store"));
  CHECK_THAT(old, ContainsSubstring("--store: error: '" + folder.file("a.db") + "'"));
  CHECK(refusal(folder / "a.db").empty());
}

TEST_CASE("The model's version follows what is stated of devices and curves, not the jobs") {
  const test::Folder folder;
  for (const char* name : {"configs/devices", "configs/spaces", "calibration/a"}) {
    std::filesystem::create_directories(folder / name);
  }
  folder.write("configs/devices/x.yaml", "memory: 1");
  const std::string first = store::model_version(folder.path());
  CHECK(store::model_version(folder.path()) == first);
  folder.write("configs/job.yaml", "model: m");
  folder.write("configs/spaces/s.yaml", "tensor: [1]");
  CHECK(store::model_version(folder.path()) == first);
  folder.write("configs/devices/x.yaml", "memory: 2");
  const std::string second = store::model_version(folder.path());
  CHECK(second != first);
  folder.write("calibration/a/c.csv", "1,2");
  CHECK(store::model_version(folder.path()) != second);
}
