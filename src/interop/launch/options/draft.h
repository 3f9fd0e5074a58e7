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
  void note(const Setting& from, std::string_view key);

  LaunchRequest request_;
  std::vector<Setting> settings_;
  Value job_;
  std::map<std::string, Value, std::less<>> overrides_;
  std::map<const Setting*, std::string> keys_;  // keys that each option set
  std::map<const Setting*, std::pair<char, std::string>> other_;
  std::optional<std::int64_t> ranks_;
  std::vector<Fault> faults_;
  Launch launch_;
};

// How one option is read. If there is `apply`, that function reads it (`key` is what it would set,
// for messages where its value is missing); else the value is copied to `key`; without both, the
// system's `finish` reads it.
struct Rule {
  std::string_view name;
  std::string_view key = {};
  void (*apply)(Draft&, const Setting&, std::string_view key) = nullptr;
  bool bare = false;  // a flag without a value
};

// An option that is not read, and why. A name may end in '*'.
struct Unread {
  std::string_view name;
  std::string_view reason;
};

struct Reader {
  std::string_view system;
  std::string_view preset;
  std::vector<const std::vector<Rule>*> rules;
  std::vector<const std::vector<Unread>*> meaningless;
  std::vector<const std::vector<Unread>*> unmodelled;
  void (*finish)(Draft&);
  bool bare = false;  // NAME=VALUE without dashes is an option
  std::vector<std::string_view> sections =
      {};  // sections of a file; on a command line their options have no prefix
  // Python files among the inputs are recipes; the function where recipe=NAME does not name it.
  bool recipes = false;
  std::string_view recipe = {};
};

// A flag that the system's `finish` reads.
inline Rule flag(std::string_view name, std::string_view key = {},
                 void (*apply)(Draft&, const Setting&, std::string_view) = nullptr) {
  return {name, key, apply, true};
}

void yes(Draft& draft, const Setting& setting, std::string_view key);
void no(Draft& draft, const Setting& setting, std::string_view key);
bool is_true(const Setting& setting);
// For options that the system's `finish` reads; `key` is for messages where the value is missing.
void later(Draft& draft, const Setting& setting, std::string_view key);
// Sets a number format from names such as "bfloat16" and "float32".
void number_format(Draft& draft, const Setting& setting, std::string_view key);
// A flag that, if true, is not modelled; if false, it states what forecasts assume anyway.
void unmodelled_if_true(Draft& draft, const Setting& setting, std::string_view why);
// A flag, or a target ("cpu", "nvme", "none"), for offloading the part that `key` names.
void offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key);
void offloaded_to(Draft& draft, const Setting& setting, std::string_view key);
// The share of it, 0 to 1, that is on the CPU.
void offloaded_share(Draft& draft, const Setting& setting, std::string_view key);
// FSDP's CPU offload: parameters, gradients and the optimizer, each fetched when it is needed.
void offload_fsdp(Draft& draft, const Setting& setting);
void fsdp_offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key);
// Context parallelism of the Ulysses kind, which exchanges heads.
void ulysses(Draft& draft, const Setting& setting, std::string_view key);
// Hybrid sharding: the numbers of replicas and of shards, by the options that state each (nullptr:
// not stated; a value of -1: the remaining ranks).
void hybrid_sharding(Draft& draft, const Setting* replicas, const Setting* shards);
// Removes context parallelism of size 1.
void tidy_context(Draft& draft);
// Sets the model of configs/models that a name of other programs means ("meta-llama/Llama-3.1-8B",
// "llama3_8b").
void named_model(Draft& draft, const Setting& setting, std::string_view key);
bool use_model(Draft& draft, const Setting& setting, const std::string& name);
void cluster_nodes(Draft& draft, const Setting& setting, std::string_view key);

// Computes sizes of a batch that are not stated from those that are. `micro` is per rank; without
// `global`, the global batch is micro * accumulation * data-parallel ranks.
void complete_batch(Draft& draft, const Setting* micro, const Setting* accumulation,
                    const Setting* global);

Value scalar(std::string_view text, const Origin& where, bool quoted = false);

// Rules for a HuggingFace config.json among the inputs, which is the setting "model-config".
const std::vector<Rule>& common_rules();
// Rules for launchers of any system: torchrun, mpirun, srun, deepspeed, nsys, ...
const std::vector<Rule>& launcher_rules();
const std::vector<Unread>& launcher_options();

const Reader& megatron();
const Reader& deepspeed();
const Reader& torchtitan();
const Reader& accelerate();
const Reader& transformers();
const Reader& paddlenlp();
const Reader& colossalai();
const Reader& maxtext();
const Reader& composer();
const Reader& horovod();
const Reader& nnscaler();
const Reader& lightseq();
const Reader& patrickstar();
const Reader& axolotl();
const Reader& llamafactory();
const Reader& megatron_bridge();
const Reader& torchtune();
const Reader& nanotron();
const Reader& nemo();
const Reader& primus();

}  // namespace stepcast::interop::launch
