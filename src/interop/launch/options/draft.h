// A job under construction from options. Options set keys of the job, and every option ends up in
// one list.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "setting.h"
#include "stepcast/interop/launch.h"

namespace stepcast::interop::launch {

// A scalar, or a list of words, as a document has it.
Value scalar(std::string_view text, const Origin& where, bool quoted = false);
Value word_list(const std::vector<std::string>& words, const Origin& where);

// Whether a flag is given, and not as false, 0, "no", "off" or "none".
bool is_true(const Setting& setting);

class Draft {
 public:
  Draft(const LaunchRequest& request, std::vector<Setting> settings);

  const LaunchRequest& request() const { return request_; }
  const std::vector<Setting>& settings() const { return settings_; }

  // The last setting of this name; nullptr when there is none, when it is null, or when its value
  // has a variable that is not set.
  const Setting* find(std::string_view name) const;
  // The same with any value.
  const Setting* present(std::string_view name) const;
  // The setting of the first of several names that has one.
  const Setting* first(const std::vector<std::string_view>& names) const;
  // Whether a flag is given, and not as false, 0 or "none".
  bool on(std::string_view name) const;
  std::string word(std::string_view name) const;  // in lower case; "" when absent
  std::optional<std::int64_t> integer(std::string_view name);
  std::optional<double> number(std::string_view name);

  // Sets a key of the job, with the origin of the option.
  void set(const Setting& from, std::string_view key, Value value);
  void set(const Setting& from, std::string_view key, std::string_view word);
  void set(const Setting& from, std::string_view key, const char* word) {
    set(from, key, std::string_view(word));
  }
  void set(const Setting& from, std::string_view key, std::int64_t number);
  void set(const Setting& from, std::string_view key, int number) {
    set(from, key, std::int64_t{number});
  }
  void set(const Setting& from, std::string_view key, double number);
  void set(const Setting& from, std::string_view key, bool truth);
  void set(const Setting& from, std::string_view key, const std::vector<std::int64_t>& numbers);
  // Sets the system's default for a key that no option sets, with the origin `from`.
  void assume(const Origin& from, std::string_view key, Value value);
  Origin defaults() const { return {"default of " + request_.system, 0, 0}; }
  void drop(std::string_view key);

  // The value that the job will have: an override of the request, else what was set.
  const Value* value(std::string_view key) const;
  std::int64_t size(std::string_view key, std::int64_t otherwise) const;
  std::string text(std::string_view key) const;  // "" when not set
  bool stated(std::string_view key) const { return value(key) != nullptr; }
  bool overridden(std::string_view key) const;

  // The processes of the job by cluster and nodes, or 0 while they are unknown.
  std::int64_t ranks();
  std::int64_t data_ranks();  // data-parallel size; 0: unknown

  void unmodelled(const Setting& setting, std::string_view why);
  void meaningless(const Setting& setting, std::string_view why);
  void unknown(const Setting& setting);
  void refuse(const Setting& setting, std::string message);
  void fault(const Origin& where, std::string message);

  std::string preset;  // a name in configs/systems
  Launch& launch() { return launch_; }
  Value& job() { return job_; }
  std::vector<Fault>& faults() { return faults_; }
  std::map<std::string, Value, std::less<>>& overrides() { return overrides_; }
  // Returns the job and its lists, in the order of the inputs.
  Launch finish();

 private:
  enum class Unused { unmodelled, meaningless, unknown };
  void note(const Setting& from, std::string_view key);

  LaunchRequest request_;
  std::vector<Setting> settings_;
  Value job_;
  std::map<std::string, Value, std::less<>> overrides_;
  std::map<const Setting*, std::string> keys_;                      // keys that each option set
  std::map<const Setting*, std::pair<Unused, std::string>> other_;  // how, and why
  std::optional<std::int64_t> ranks_;
  std::vector<Fault> faults_;
  Launch launch_;
};

}  // namespace stepcast::interop::launch
