// From a job to a training system's launch file. launch_file.cpp reads what was written and
// compares, so a writer may leave out what it does not know: the key is then a fault that names it,
// never dropped.
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
  std::vector<std::string> arguments = {};  // NAME=VALUE of the training script
};

// What is written, and of which keys the system's own defaults gave another value when only the
// rest was: options that are worth stating only then ask `differs`.
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

// A key, or with all below it, that the target's launch files never hold, and where it is said
// instead.
struct Beside {
  std::string_view key;
  std::string_view where;
};

struct Writer {
  std::string_view target;
  std::string_view noun;                  // "Megatron-LM's arguments"
  std::string_view extension;             // of the file
  std::string_view comment;               // that begins a line; "": none
  std::vector<std::string_view> systems;  // of configs/systems: what it launches
  Written (*write)(const Request&);
  std::vector<Beside> beside;
  job::Job (*view)(const job::Job&) = nullptr;  // the job in the words that the target has for it
};

const Writer& megatron_writer();
const Writer& deepspeed_writer();
const Writer& torchtitan_writer();
const Writer& accelerate_writer();
const Writer& nnscaler_writer();

// Sections of options, as TOML and YAML have them: written in the order in which they were added.
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
  std::string yaml() const;  // section: and its keys below; "": of the file itself
  std::string json() const;

 private:
  struct Section {
    std::string name;
    std::vector<std::pair<std::string, std::string>> entries;
  };
  std::vector<Section> all_;
};

}  // namespace stepcast::interop::launch
