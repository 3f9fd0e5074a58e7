// Evaluated points in one SQLite file with a write-ahead log, so that they survive a crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast::store {

struct Point {
  std::string key;      // canonical text of what was evaluated
  std::string status;   // one word chosen by the caller: "exact", "impossible"
  std::string payload;  // JSON
  bool operator==(const Point&) const = default;
};

// The 64-bit FNV-1a hash of `text` as 16 hexadecimal digits: a short key for a long canonical text.
std::string digest(std::string_view text);

// Identifies everything besides the job that forecasts depend on: this build of the program, and what the data directory
// states about devices, networks, models, systems and curves (not its job files and spaces).
std::string model_version(const std::filesystem::path& data_directory);

// Whether this build can open stores, which needs SQLite.
bool available();

// One process writes at a time; others wait. A point is in the file when put() returns, so that it survives a kill -9.
class Store {
 public:
  // Opens or creates `file`. Throws InputError with one line that names `option`, where the file is no store, is damaged,
  // cannot be written, or was written with another `model` (model_version).
  Store(const std::string& option, const std::filesystem::path& file, const std::string& model);
  ~Store();
  Store(Store&&) noexcept;

  std::optional<Point> find(const std::string& key);

  // Writes a point in place of any with the same key. If the file cannot take it (a full disk), the point is kept in memory
  // and written together with a later one.
  void put(const Point& point);

  // Why the last points could not be written; "": they were.
  const std::string& trouble() const;
  // Tries again to write the points that are kept in memory.
  void flush();

  std::int64_t size();  // number of points
  // Visits all points in the order of their keys.
  void for_each(const std::function<void(const Point&)>& visit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::store
