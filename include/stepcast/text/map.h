// Strict reading of maps, of YAML and JSON alike: an unknown key, a missing one and a value of another kind are faults at
// their place. What the keys mean, and how a message names what was expected, is known to each file's reader alone.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

namespace stepcast::text {

// Throws InputError.
[[noreturn]] void fault(const Origin& where, std::string message);

// The keys that a map may have, and the message of one that it may not: "unknown key 'x'", `after`, the nearest of `names`.
struct Keys {
  std::vector<std::string> names;
  std::string after = "";
  bool suggests = true;

  bool contains(std::string_view key) const;
  std::string unknown(const std::string& key) const;
};

// A map, or a list; InputError with `message` for any other value.
const Value& expect_map(const Value& v, const std::string& message);
const Value& expect_list(const Value& v, const std::string& message);
// The texts of a list that is not empty; InputError with `message` otherwise.
std::vector<std::string> expect_texts(const Value& v, const std::string& message);
// InputError at the first key of the map that is unknown.
void expect_keys(const Value& map, const Keys& keys);
// The value of `key`; InputError at the map where it is missing.
const Value& need(const Value& map, std::string_view key);
// "a list", "a map", or `nothing` for a value that is empty; "" for a scalar.
std::string_view kind_in_words(const Value& v, std::string_view nothing);

// Collects what is wrong with an input: a fault of one value does not hide those of the others.
class Faults {
 public:
  using Visit = std::function<void(const Value&)>;
  using VisitEntry = std::function<void(const Value::Entry&)>;

  void add(const Origin& where, std::string message);
  // Calls `read` and keeps the InputError that it throws.
  void guarded(const std::function<void()>& read);
  std::size_t count() const { return faults_.size(); }
  // Throws what was found.
  void done();

  // Reads a map key by key; a value that is no map is a fault with `message`. A std::invalid_argument of a visit is a fault
  // of its key.
  void each_key(const Value& map, const Keys& keys, const std::string& message, const VisitEntry& visit);
  // A map whose keys are names of the user's.
  void named(const Value& map, const std::string& what, const VisitEntry& visit);
  // One function for each key of `what`.
  void fields(const Value& map, const std::string& what, const std::map<std::string, Visit>& readers);
  void list(const Value& v, const std::string& what, const Visit& item);
  // At least `least`.
  double number(const Value& v, double least, const char* what);

 private:
  void guarded(const Origin& where, const std::string& what, const std::function<void()>& read);
  void each_entry(const Value& map, const std::string& message, const VisitEntry& visit);

  std::vector<Fault> faults_;
};

}  // namespace stepcast::text
