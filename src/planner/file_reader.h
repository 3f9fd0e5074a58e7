// Reads maps of a YAML document strictly: every unknown key and wrong value is a fault with its
// place, and all of them are told at once.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/text/document.h"

namespace stepcast::planner {

class FileReader {
 public:
  using Fields = std::map<std::string, std::function<void(const text::Value&)>>;

  // Calls the reader of each key of `v`. What it throws becomes a fault.
  void map(const text::Value& v, const std::string& what, const Fields& fields);
  // A map whose keys are names; `entry` reads one.
  void named(const text::Value& v, const std::string& what,
             const std::function<void(const text::Value::Entry&)>& entry);
  void list(const text::Value& v, const std::string& what,
            const std::function<void(const text::Value&)>& item);

  double number(const text::Value& v, double least, const char* what);
  Seconds time(const text::Value& v);
  Bandwidth bandwidth(const text::Value& v);

  void fault(const Origin& where, std::string message);
  // Throws what was found.
  void done();

 private:
  void guarded(const Origin& where, const std::string& key, const std::function<void()>& read);
  std::vector<Fault> faults_;
};

}  // namespace stepcast::planner
