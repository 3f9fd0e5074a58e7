// Evaluated points that survive a crash: one SQLite file with a write-ahead log.
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
  std::string status;   // one word of the caller's: "exact", "impossible"
  std::string payload;  // JSON
  bool operator==(const Point&) const = default;
};

// 64-bit FNV-1a of `text`, as 16 hexadecimal digits: makes long canonical texts fit for keys.
std::string digest(std::string_view text);

// What forecasts depend on besides the job: this build of the program, and what the data directory states of devices,
// networks, models, systems and curves (its job files and spaces are left out).
std::string model_version(const std::filesystem::path& data_directory);

// Whether this build can open stores at all (SQLite was found).
bool available();

// One process writes at a time; others wait. A point is on file when put() returns, so that it outlives a kill -9.
class Store {
 public:
  // Opens or creates `file`. Throws InputError, its one line naming `option`: no store, damaged, written by another
  // `model`, or not writable.
  Store(const std::string& option, const std::filesystem::path& file, const std::string& model);
  ~Store();
  Store(Store&&) noexcept;

  std::optional<Point> find(const std::string& key);

  // Writes a point in place of one of its key. Where the file cannot take it (a full disk) the point is kept in memory and
  // written with a later one.
  void put(const Point& point);

  // Why the last points could not be written, or "".
  const std::string& trouble() const;
  // Tries once more to write what is kept in memory.
  void flush();

  std::int64_t size();  // points
  // In the order of their keys.
  void for_each(const std::function<void(const Point&)>& visit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::store
