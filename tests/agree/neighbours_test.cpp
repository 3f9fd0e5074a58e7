// One Forecaster after the other job and a Forecaster of its own say the same of a job, to the
// byte, however its neighbours differ.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

constexpr const char* kJob =
    "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
    "32000, max_positions: 4096}\n"
    "cluster: {use: dgx-h100, nodes: 2}\n"
    "workload: {sequence_length: 1024, global_batch: 64, micro_batch: 1}\n"
    "parallelism: {tensor: 2, pipeline: 2}\n";

// A neighbour has another value of one of these keys.
struct Key {
  const char* name;
  std::vector<const char*> values;
};
const std::vector<Key>& keys() {
  static const std::vector<Key> all = {
      {"cluster", {"dgx-h100", "dgx-a100"}},
      {"cluster.nodes", {"1", "2", "4"}},
      {"cluster.node.nic", {"10 GB/s", "50 GB/s"}},
      {"cluster.device.usable_memory", {"2.5 GiB", "3.5 GiB", "70 GiB"}},
      {"model.layers", {"4", "8"}},
      {"workload.sequence_length", {"1024", "2048"}},
      {"workload.micro_batch", {"1", "2"}},
      {"parallelism.pipeline", {"1", "2"}},
      {"parallelism.sharding", {"none", "zero1"}},
      {"memory.recompute", {"none", "selective", "full"}},
      {"memory.allocator", {"default", "expandable_segments"}},
      {"memory.stream_waits", {"true", "false"}},
      {"system.oldest_segment_first", {"true", "false"}},
      {"memory.margin", {"0", "0.1"}},
  };
  return all;
}

// What moves ranks, groups, channels and the resources that these use, or the order in which things
// run on them.
const std::vector<Key>& keys_of_places() {
  static const std::vector<Key> all = {
      {"cluster.nodes", {"2", "4"}},
      {"cluster.order", {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp"}},
      {"cluster.node.nic", {"10 GB/s", "50 GB/s"}},
      {"cluster.node.nics", {"4", "8"}},
      {"cluster.fabric.oversubscription", {"1", "4"}},
      {"cluster.fabric.nodes_per_leaf", {"1", "32"}},
      {"cluster.fabric.routing", {"adaptive", "ecmp"}},
      {"cluster.fabric.pxn", {"true", "false"}},
      {"cluster.faults", {"[]", "[{link: node0/nic1, bandwidth: 0.5}]"}},
      {"seed", {"1", "2"}},
      {"parallelism.tensor", {"1", "2"}},
      {"parallelism.context", {"1", "2"}},
      {"parallelism.pipeline", {"1", "2", "4"}},
      {"parallelism.virtual_pipeline", {"1", "2"}},
      {"parallelism.schedule", {"1f1b", "interleaved_1f1b", "zb_v"}},
      {"parallelism.sharding", {"none", "zero1", "zero3"}},
      {"parallelism.overlap.grad_reduce", {"true", "false"}},
      {"parallelism.overlap.pipeline", {"true", "false"}},
      {"model.tied_embeddings", {"true", "false"}},
      {"workload.sequence_length", {"1024", "2048"}},
      {"memory.offload.optimizer", {"none", "cpu"}},
  };
  return all;
}

std::size_t below(std::mt19937& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

// Walks from job to job by one key at a time.
class Walk {
 public:
  explicit Walk(unsigned seed, const std::vector<Key>& of = keys()) : keys_(of), random_(seed) {
    for (const Key& key : keys_) {
      chosen_.push_back(below(random_, key.values.size()));
    }
  }
  std::vector<std::string> next() {
    const std::size_t key = below(random_, keys_.size());
    chosen_[key] = below(random_, keys_[key].values.size());
    std::vector<std::string> out;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      out.push_back(fmt::format("{}={}", keys_[i].name, keys_[i].values[chosen_[i]]));
    }
    return out;
  }

 private:
  const std::vector<Key>& keys_;
  std::mt19937 random_;
  std::vector<std::size_t> chosen_;
};

std::string text_of(const std::variant<result::Report, Infeasible>& outcome) {
  const auto* why = std::get_if<Infeasible>(&outcome);
  return why != nullptr ? why->key + ": " + why->reason
                        : report::json(std::get<result::Report>(outcome));
}

}  // namespace

TEST_CASE("Neighbours in sizes alone, of tensors and of GPUs, are the forecasts by themselves",
          "[agree]") {
  const auto data = text::data_directory();
  for (const char* fixed : {"parallelism.pipeline=2", "memory.allocator=expandable_segments",
                            "memory.recompute=full", "parallelism.sharding=zero3"}) {
    forecast::Forecaster shared(data);
    for (int length = 512; length <= 4096; length += 512) {
      for (const char* memory : {"2.5 GiB", "70 GiB"}) {
        const job::Job job =
            input::parse(kJob, "job",
                         {fixed, fmt::format("workload.sequence_length={}", length),
                          fmt::format("cluster.device.usable_memory={}", memory)})
                .job;
        INFO(fixed << " " << length << " " << memory);
        forecast::Forecaster alone(data);
        CHECK(text_of(shared.forecast(job)) == text_of(alone.forecast(job)));
      }
    }
  }
}

TEST_CASE("A forecast among neighbours is the forecast by itself", "[agree]") {
  const auto data = text::data_directory();
  forecast::Forecaster shared(data);
  Walk walk(20261127);
  int ran = 0;
  int fit = 0;
  for (int n = 0; n < 60; ++n) {
    const auto overrides = walk.next();
    INFO(fmt::format("{}", fmt::join(overrides, " ")));
    const job::Job job = input::parse(kJob, "job", overrides).job;
    const std::string among = text_of(shared.forecast(job));
    forecast::Forecaster alone(data);
    const auto outcome = alone.forecast(job);
    CHECK(among == text_of(outcome));
    const auto* report = std::get_if<result::Report>(&outcome);
    ran += report != nullptr ? 1 : 0;
    fit += report != nullptr && report->fits ? 1 : 0;
  }
  CHECK(ran > 50);
  CHECK(fit > 0);
  CHECK(fit < ran);
}

TEST_CASE("A forecast among neighbours in other places is the forecast by itself", "[agree]") {
  const auto data = text::data_directory();
  forecast::Forecaster shared(data);
  Walk walk(20261130, keys_of_places());
  int ran = 0;
  for (int n = 0; n < 300; ++n) {
    const auto overrides = walk.next();
    INFO(fmt::format("{}", fmt::join(overrides, " ")));
    job::Job job;
    try {
      job = input::parse(kJob, "job", overrides).job;
    } catch (const InputError&) {  // keys that do not go together
      continue;
    }
    const auto outcome = shared.forecast(job);
    ran += std::holds_alternative<result::Report>(outcome) ? 1 : 0;
    CHECK(text_of(outcome) == text_of(forecast::Forecaster(data).forecast(job)));
  }
  CHECK(ran > 50);
}

TEST_CASE("A replay after the rule is that of a run of its own", "[agree]") {
  const auto data = text::data_directory();
  forecast::Forecaster shared(data);
  Walk walk(20261128);
  for (int n = 0; n < 20; ++n) {
    const auto overrides = walk.next();
    INFO(fmt::format("{}", fmt::join(overrides, " ")));
    job::Job job = input::parse(kJob, "job", overrides).job;
    job.assumed.clear();  // no further forecast with recomputation
    const std::string by_rule =
        text_of(shared.forecast(job, {.allocator = forecast::Allocator::rule}));
    for (const bool wanted : {false, true}) {
      std::string asked;
      const std::string both =
          text_of(shared.forecast(job, {.replay_if = [&](const result::Report& report) {
                                    asked = report::json(report);
                                    return wanted;
                                  }}));
      CHECK(asked == by_rule);
      CHECK(both == (wanted ? text_of(shared.forecast(job)) : by_rule));
    }
  }
}

TEST_CASE("Memory without a run is that of a run, by the rule", "[agree]") {
  forecast::Forecaster shared(text::data_directory());
  Walk walk(20261130);
  for (int n = 0; n < 40; ++n) {
    const auto overrides = walk.next();
    INFO(fmt::format("{}", fmt::join(overrides, " ")));
    const job::Job job = input::parse(kJob, "job", overrides).job;
    const auto of = [](const result::Report& r) {
      std::vector<std::int64_t> out = {r.capacity.count(), r.fits.spare.count()};
      for (const result::StageMemory& m : r.memory) {
        for (const Bytes b : {m.allocated, m.active, m.reserved, m.process, m.steady, m.host}) {
          out.push_back(b.count());
        }
      }
      return std::tuple(out, r.peak.value, r.peak.low, r.peak.high, r.fits.fits,
                        r.fits.probability);
    };
    for (const bool wanted : {false, true}) {
      std::optional<result::Report> memory;
      forecast::Options options{.allocator = forecast::Allocator::rule};
      const auto without = shared.forecast(job, options);
      options.run_if = [&](const result::Report& report) {
        memory = report;
        return wanted;
      };
      const auto with = shared.forecast(job, options);
      if (!memory) {
        CHECK(text_of(with) == text_of(without));  // no world was made of it
        continue;
      }
      if (wanted) {
        CHECK(text_of(with) == text_of(without));
      } else {
        CHECK(std::get<result::Report>(with).step_time.value == 0);
      }
      const auto* run = std::get_if<result::Report>(&without);
      REQUIRE(run != nullptr);
      CHECK(of(*memory) == of(*run));
    }
  }
}

TEST_CASE("Neighbours are the same for any number of threads", "[agree]") {
  const auto data = text::data_directory();
  std::vector<job::Job> jobs;
  Walk walk(20261129);
  for (int n = 0; n < 24; ++n) {
    jobs.push_back(input::parse(kJob, "job", walk.next()).job);
  }
  // As a sweep's workers do: each has a Forecaster and takes the next job.
  const auto texts = [&](int threads) {
    std::vector<std::string> out(jobs.size());
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&] {
        forecast::Forecaster shared(data);
        for (std::size_t n = next++; n < jobs.size(); n = next++) {
          out[n] = text_of(shared.forecast(jobs[n]));
        }
      });
    }
    for (std::thread& thread : all) {
      thread.join();
    }
    return out;
  };
  const std::vector<std::string> one = texts(1);
  CHECK(texts(2) == one);
  CHECK(texts(3) == one);
}

TEST_CASE("A forecast is the same for any number of its threads", "[agree]") {
  const auto data = text::data_directory();
  struct Case {
    const char* job;
    std::vector<std::string> overrides;
    forecast::Fidelity fidelity = forecast::Fidelity::folded;
  };
  const std::vector<Case> cases = {
      {"llama70b", {}},
      {"llama70b", {"cluster.device.usable_memory=62 GiB"}},
      {"llama70b", {"cluster.device.usable_memory=50 GiB"}},
      {"llama70b", {"memory.allocator=expandable_segments", "parallelism.pipeline=8"}},
      {"llama8b-torchtitan", {}},
      {"deepseek-v3", {}},
      {"gpt3-175b", {}},
      {"llama70b", {}, forecast::Fidelity::full},
      {"mixtral-8x7b", {"cluster.nodes=32"}, forecast::Fidelity::full},
      {"llama13b-mixed", {}, forecast::Fidelity::full},
  };
  for (const Case& of : cases) {
    const job::Job job = input::load(fmt::format("{}.yaml", of.job), of.overrides).job;
    std::string one;
    for (const int threads : {1, 2, 4, 8, 0}) {
      CAPTURE(of.job, fmt::format("{}", fmt::join(of.overrides, " ")), threads);
      forecast::Options options;
      options.fidelity = of.fidelity;
      options.threads = threads;
      const std::string text = text_of(forecast::Forecaster(data).forecast(job, options));
      one = threads == 1 ? text : one;
      REQUIRE(text == one);
    }
  }
}
