// Writes a training system's launch file from a job. launch_file.cpp reads the file back and
// compares, so a writer may leave out keys that it does not know: such a key becomes a fault and is
// never dropped silently.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepcast/job/job.h"

namespace stepcast::interop::launch {

struct Written {
  std::string text;
  std::vector<std::string> arguments = {};  // NAME=VALUE for the training script
};

// What is to be written. `differs` tells whether a key had another value when the file was read
// back without its option: options that are needed only then ask it.
struct Request {
  const job::Job& job;
  const std::set<std::string>& different;
  bool differs(const std::string& key) const { return different.count(key) > 0; }
  int data() const {
    const job::Parallelism& p = job.parallelism;
    return p.data ? *p.data : job.cluster.ranks() / (p.tensor * p.pipeline * p.context);
  }
  // Micro-batches of a step on each data-parallel rank.
  std::int64_t micro_batches() const {
    return job.workload.global_batch / job.workload.micro_batch / data();
  }
};

// A key, or all keys below it, that the target's launch files never have, and where it is stated
// instead.
struct Beside {
  std::string_view key;
  std::string_view where;
};

struct Writer {
  std::string_view target;
  std::string_view noun;       // "Megatron-LM's arguments"
  std::string_view extension;  // of the file
  std::string_view comment;    // what a comment line begins with; "": the format has none
  std::vector<std::string_view> systems;  // names in configs/systems that it launches
  Written (*write)(const Request&);
  std::vector<Beside> beside;
  job::Job (*view)(const job::Job&) = nullptr;  // the job with settings that the target can express
};

const Writer& megatron_writer();
const Writer& deepspeed_writer();
const Writer& torchtitan_writer();
const Writer& accelerate_writer();
const Writer& nnscaler_writer();

// Sections of options for TOML and YAML, written in the order in which they were added.
class Sections {
 public:
  Sections& section(std::string name) {
    all_.push_back({std::move(name), {}});
    return *this;
  }
  template <class T>
  Sections& add(std::string key, const T& value) {
    return raw(std::move(key), fmt::format("{}", value));
  }
  Sections& text(std::string key, std::string_view value) {
    return raw(std::move(key), fmt::format("\"{}\"", value));
  }
  Sections& raw(std::string key, std::string value) {
    all_.back().entries.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  std::string toml() const;  // [section]
  std::string yaml() const;  // "section:" with its keys below; "": keys of the file itself
  std::string json() const;

 private:
  struct Section {
    std::string name;
    std::vector<std::pair<std::string, std::string>> entries;
  };
  std::vector<Section> all_;
};

}  // namespace stepcast::interop::launch
