#include <fmt/format.h>
#include <sqlite3.h>

#include <cstring>
#include <map>

#include "stepcast/base/diagnostics.h"
#include "stepcast/store/store.h"

namespace stepcast::store {
namespace {

// "STCP" in the file's header distinguishes a store from other databases
constexpr int kApplication = 0x53544350;
constexpr int kFormat = 1;         // version of the tables below
constexpr int kPatience = 10'000;  // ms to wait for another process that has locked the file

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

// A failure of SQLite, with its own error message.
struct Failure {
  int code;
  std::string text;
};

bool damaged(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB;
}

std::string column(sqlite3_stmt* s, int i) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, i));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(s, i)));
}

void put_text(sqlite3_stmt* s, int i, const std::string& text) {
  sqlite3_bind_text(s, i, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

// The checksum covers all columns of a row. It finds a flipped bit that leaves the database's
// structure intact.
std::string checksum(const Point& p) {
  return digest(fmt::format("{}\n{}\n{}", p.key, p.status, p.payload));
}

}  // namespace

struct Store::State {
  std::string option;
  std::filesystem::path file;
  Database db;
  Statement select, insert;
  std::map<std::string, Point> waiting;  // points that are not in the file yet
  std::string trouble;

  Failure failure() const {
    const int code = sqlite3_extended_errcode(db.get());
    std::string text = sqlite3_errmsg(db.get());
    if (const int why = sqlite3_system_errno(db.get()); (code & 0xff) == SQLITE_IOERR && why != 0) {
      text += fmt::format(" ({})", std::strerror(why));
    }
    return {code, text};
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(Fault{{option, 0, 0}, fmt::format("'{}' {}", file.string(), what)});
  }
  [[noreturn]] void refuse(const Failure& f) const {
    if (damaged(f.code)) {
      const bool whole = (f.code & 0xff) == SQLITE_CORRUPT;
      refuse(
          fmt::format("is {} ({}); expected a file that an earlier run wrote, or a name not in use",
                      whole ? "damaged" : "not a store", f.text));
    }
    refuse(fmt::format("cannot be opened as a store: {}", f.text));
  }

  Statement prepare(const char* sql) const {
    sqlite3_stmt* s = nullptr;
    if (sqlite3_prepare_v2(db.get(), sql, -1, &s, nullptr) != SQLITE_OK) {
      throw failure();
    }
    return Statement(s);
  }
  // Returns the first column of the first row, or "".
  std::string ask(const char* sql) const {
    const Statement s = prepare(sql);
    const int code = sqlite3_step(s.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
      throw failure();
    }
    return code == SQLITE_ROW ? column(s.get(), 0) : std::string();
  }

  void open(const std::string& model);
  void create(const std::string& model) const;
  void write();
  Point read(sqlite3_stmt* s) const;
};

void Store::State::create(const std::string& model) const {
  ask(fmt::format("PRAGMA application_id={}", kApplication).c_str());
  ask(fmt::format("PRAGMA user_version={}", kFormat).c_str());
  ask("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID");
  ask("CREATE TABLE points (key TEXT PRIMARY KEY, status TEXT NOT NULL, payload TEXT NOT NULL, "
      "checksum TEXT NOT NULL) WITHOUT ROWID");
  const Statement s = prepare("INSERT INTO about VALUES ('model', ?)");
  put_text(s.get(), 1, model);
  if (sqlite3_step(s.get()) != SQLITE_DONE) {
    throw failure();
  }
}

void Store::State::open(const std::string& model) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  db.reset(handle);
  if (code != SQLITE_OK) {
    throw failure();
  }
  sqlite3_busy_timeout(db.get(), kPatience);
  const bool empty =
      ask("SELECT count(*) FROM sqlite_master") == "0" && ask("PRAGMA application_id") == "0";
  if (!empty && ask("PRAGMA application_id") != std::to_string(kApplication)) {
    refuse("is a database of another program; expected a store, or a name not in use");
  }
  // In this mode a killed process loses nothing. Only a power failure may lose the last points.
  if (ask("PRAGMA journal_mode=WAL") != "wal") {
    refuse("cannot have a write-ahead log here; expected a local disk that can be written to");
  }
  ask("PRAGMA synchronous=NORMAL");
  ask("BEGIN IMMEDIATE");  // If two processes start together, only one creates the tables.
  if (ask("SELECT count(*) FROM sqlite_master") == "0") {
    create(model);
  }
  ask("COMMIT");
  if (const std::string format = ask("PRAGMA user_version"); format != std::to_string(kFormat)) {
    refuse(fmt::format("is a store of format {}; expected format {}: use another name", format,
                       kFormat));
  }
  if (const std::string whole = ask("PRAGMA quick_check(1)"); whole != "ok") {
    refuse(fmt::format(
        "is damaged ({}); expected a file that an earlier run wrote, or a name not in use",
        whole.substr(0, whole.find('\n'))));
  }
  if (const std::string of = ask("SELECT value FROM about WHERE key = 'model'"); of != model) {
    refuse(fmt::format("holds results of another version ({}); expected {}: use another name", of,
                       model));
  }
  select = prepare("SELECT key, status, payload, checksum FROM points WHERE key = ?");
  insert = prepare("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)");
}

Point Store::State::read(sqlite3_stmt* s) const {
  Point p{column(s, 0), column(s, 1), column(s, 2)};
  if (checksum(p) != column(s, 3)) {
    refuse(
        fmt::format("is damaged (the point '{}' is not what was written); expected a file that "
                    "an earlier run wrote, or a name not in use",
                    p.key));
  }
  return p;
}

void Store::State::write() {
  if (waiting.empty()) {
    return;
  }
  try {
    ask("BEGIN IMMEDIATE");
    for (const auto& [key, p] : waiting) {
      put_text(insert.get(), 1, p.key);
      put_text(insert.get(), 2, p.status);
      put_text(insert.get(), 3, p.payload);
      put_text(insert.get(), 4, checksum(p));
      const int code = sqlite3_step(insert.get());
      const Failure f = failure();
      sqlite3_reset(insert.get());
      if (code != SQLITE_DONE) {
        throw f;
      }
    }
    ask("COMMIT");
    waiting.clear();
    trouble.clear();
  } catch (const Failure& f) {
    if (sqlite3_get_autocommit(db.get()) == 0) {
      sqlite3_exec(db.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    trouble = fmt::format("cannot write '{}': {}", file.string(), f.text);
  }
}

bool available() { return true; }

Store::Store(const std::string& option, const std::filesystem::path& file, const std::string& model)
    : state_(std::make_unique<State>()) {
  state_->option = option;
  state_->file = file;
  try {
    state_->open(model);
  } catch (const Failure& f) {
    state_->refuse(f);
  }
}

Store::~Store() {
  if (state_) {
    state_->write();
  }
}

Store::Store(Store&&) noexcept = default;

std::optional<Point> Store::find(const std::string& key) {
  State& s = *state_;
  if (const auto at = s.waiting.find(key); at != s.waiting.end()) {
    return at->second;
  }
  put_text(s.select.get(), 1, key);
  const int code = sqlite3_step(s.select.get());
  const Failure f = s.failure();
  std::optional<Point> found;
  if (code == SQLITE_ROW) {
    try {
      found = s.read(s.select.get());
    } catch (...) {
      sqlite3_reset(s.select.get());
      throw;
    }
  }
  sqlite3_reset(s.select.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    s.refuse(f);
  }
  return found;
}

void Store::put(const Point& point) {
  state_->waiting[point.key] = point;
  state_->write();
}

const std::string& Store::trouble() const { return state_->trouble; }

void Store::flush() { state_->write(); }

std::int64_t Store::size() {
  std::int64_t count = 0;
  for_each([&](const Point&) { ++count; });
  return count;
}

void Store::for_each(const std::function<void(const Point&)>& visit) {
  State& s = *state_;
  auto next = s.waiting.begin();
  try {
    const Statement all =
        s.prepare("SELECT key, status, payload, checksum FROM points ORDER BY key");
    int code = sqlite3_step(all.get());
    for (; code == SQLITE_ROW; code = sqlite3_step(all.get())) {
      const Point p = s.read(all.get());
      while (next != s.waiting.end() && next->first < p.key) {
        visit((next++)->second);
      }
      if (next != s.waiting.end() && next->first == p.key) {
        visit((next++)->second);
      } else {
        visit(p);
      }
    }
    if (code != SQLITE_DONE) {
      throw s.failure();
    }
  } catch (const Failure& f) {
    s.refuse(f);
  }
  for (; next != s.waiting.end(); ++next) {
    visit(next->second);
  }
}

}  // namespace stepcast::store
