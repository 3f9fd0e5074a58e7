// State while a document is read: the present path, the faults, and where each key was set.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/text/document.h"

namespace stepcast::config {

using text::Value;

class Reader {
 public:
  // Descends into a key for the lifetime of the scope.
  class Scope {
   public:
    Scope(Reader& reader, std::string_view key);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Reader& reader_;
    std::size_t length_;
  };

  // Registers a file. The main file is registered first, so that its faults come first.
  void begin(const std::string& file);

  void fault(const Origin& where, std::string message);
  void fault(const Value& where, std::string message) { fault(where.origin, std::move(message)); }
  void add(const std::vector<Fault>& more);
  // "parallelism.tensor is 'x'; expected WHAT".
  void expected(const Value& got, std::string_view what);
  void unknown(const Value::Entry& entry, const std::vector<std::string>& known);

  void record(const Origin& where) { origins_[path_] = where; }
  void record(const std::string& path, const Origin& where) { origins_[join(path)] = where; }
  // The full path of a key below the present one.
  std::string join(const std::string& key) const;

  // In the order in which they were first met.
  const std::vector<std::string>& files() const { return files_; }
  const std::string& path() const { return path_; }
  bool clean() const { return faults_.empty(); }
  // No more faults are kept.
  bool full() const;
  // In the order of the files as first met, then by line and column; options last.
  std::vector<Fault> faults() const;
  const std::map<std::string, Origin>& origins() const { return origins_; }
  std::map<std::string, Origin>& origins() { return origins_; }

  // A part of a config.json that is not modelled: a fault unless the includer overrides the key
  // ({use: deepseek-v3.json, mtp_layers: 0}).
  struct Feature {
    std::string key;
    Fault fault;
  };
  std::vector<Feature> features;

  // What the file describes, for messages about its top level.
  std::string subject = "a job";

  // Files that are being included, outermost first, to find cycles.
  std::vector<std::string> including;

 private:
  std::string path_;
  std::vector<std::string> files_;
  std::vector<Fault> faults_;
  std::size_t left_out_ = 0;  // faults beyond those kept
  std::map<std::string, Origin> origins_;
};

// Bytes of a job and of the files that it names: 600 MB as a document.
constexpr std::size_t kBiggestJob = std::size_t{16} << 20;
// A file that a job is made of: JSON by its extension, else YAML. Throws InputError, beyond
// kBiggestJob too.
Value read_part(const std::filesystem::path& file);

// At most 60 characters of a value on one line, so that long or binary text does not fill a
// message.
std::string shown(const std::string& text);
// "'x'", "the text 'x'", "a list", "a map", "empty", "'010', which looks octal"… for messages.
std::string describe(const Value& value);

}  // namespace stepcast::config
