// A job in the making: options come in, keys of the job go out, and every option ends up in one
// list.
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
  // is left open.
  const Setting* find(std::string_view name) const;
  // The same whatever its value.
  const Setting* present(std::string_view name) const;
  // The first of several names.
  const Setting* first(const std::vector<std::string_view>& names) const;
  // A flag that stands there, and not as false, 0 or "none".
  bool on(std::string_view name) const;
  std::string word(std::string_view name) const;  // in lower case; "" when absent
  std::optional<std::int64_t> integer(std::string_view name);
  std::optional<double> number(std::string_view name);

  // Keys of the job, at the place of the option that says so.
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
  // What the system does where no option says otherwise, at the place `from`.
  void assume(const Origin& from, std::string_view key, Value value);
  Origin defaults() const { return {"default of " + request_.system, 0, 0}; }
  void drop(std::string_view key);

  // What the job will say: an override of the request, else what was set.
  const Value* value(std::string_view key) const;
  std::int64_t size(std::string_view key, std::int64_t otherwise) const;
  std::string text(std::string_view key) const;  // "" when not set
  bool stated(std::string_view key) const { return value(key) != nullptr; }
  bool overridden(std::string_view key) const;

  // The processes of the job by cluster and nodes, or 0 while they are unknown.
  std::int64_t ranks();
  std::int64_t data_ranks();  // of which hold the same share of the model; 0: unknown

  void unmodelled(const Setting& setting, std::string_view why);
  void meaningless(const Setting& setting, std::string_view why);
  void unknown(const Setting& setting);
  void refuse(const Setting& setting, std::string message);
  void fault(const Origin& where, std::string message);

  std::string preset;  // of configs/systems
  Launch& launch() { return launch_; }
  Value& job() { return job_; }
  std::vector<Fault>& faults() { return faults_; }
  std::map<std::string, Value, std::less<>>& overrides() { return overrides_; }
  // Lists in the order of the inputs.
  Launch finish();

 private:
  void note(const Setting& from, std::string_view key);

  LaunchRequest request_;
  std::vector<Setting> settings_;
  Value job_;
  std::map<std::string, Value, std::less<>> overrides_;
  std::map<const Setting*, std::string> keys_;  // that an option set
  std::map<const Setting*, std::pair<char, std::string>> other_;
  std::optional<std::int64_t> ranks_;
  std::vector<Fault> faults_;
  Launch launch_;
};

// How one option is read. With `apply` as that says (`key` is what it would set, for whom its value
// is missing); without, the value is copied to `key`; without both, the system's `finish` reads it.
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
      {};  // of a file, whose options stand without them on a command line
};

// A flag that the system's `finish` reads.
inline Rule flag(std::string_view name, std::string_view key = {},
                 void (*apply)(Draft&, const Setting&, std::string_view) = nullptr) {
  return {name, key, apply, true};
}

void yes(Draft& draft, const Setting& setting, std::string_view key);
void no(Draft& draft, const Setting& setting, std::string_view key);
bool is_true(const Setting& setting);
// Read by the system's `finish`; `key` is for whom the value is missing.
void later(Draft& draft, const Setting& setting, std::string_view key);
// "bfloat16", "float32": our words for number formats.
void number_format(Draft& draft, const Setting& setting, std::string_view key);
// A truth that says the same as the model of the forecast or is left out of it.
void unmodelled_if_true(Draft& draft, const Setting& setting, std::string_view why);
// A truth, or a target ("cpu", "nvme", "none"), of the part that `key` names.
void offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key);
void offloaded_to(Draft& draft, const Setting& setting, std::string_view key);
// A share of it, 0 to 1, on the CPU.
void offloaded_share(Draft& draft, const Setting& setting, std::string_view key);
// FSDP's CPU offload: parameters, gradients and the optimizer, each fetched when its turn comes.
void offload_fsdp(Draft& draft, const Setting& setting);
void fsdp_offloaded_if_true(Draft& draft, const Setting& setting, std::string_view key);
// Ulysses: heads are exchanged.
void ulysses(Draft& draft, const Setting& setting, std::string_view key);
// Replicas of shards: data-parallel sizes by the options that state each (nullptr: not stated; -1:
// what is left).
void hybrid_sharding(Draft& draft, const Setting* replicas, const Setting* shards);
// {size: 1} is no context parallelism.
void tidy_context(Draft& draft);
// A model by the name that `setting` gives it elsewhere ("meta-llama/Llama-3.1-8B", "llama3_8b").
void named_model(Draft& draft, const Setting& setting, std::string_view key);
bool use_model(Draft& draft, const Setting& setting, const std::string& name);
void cluster_nodes(Draft& draft, const Setting& setting, std::string_view key);

// Sizes of a batch that follow from each other. `micro` is per rank; without `global`, it is micro
// * accumulation * data-parallel ranks.
void complete_batch(Draft& draft, const Setting* micro, const Setting* accumulation,
                    const Setting* global);

Value scalar(std::string_view text, const Origin& where, bool quoted = false);

// A HuggingFace config.json among the inputs, as the setting "model-config".
const std::vector<Rule>& common_rules();
// Launchers of any system: torchrun, mpirun, srun, deepspeed, nsys, ...
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

}  // namespace stepcast::interop::launch
