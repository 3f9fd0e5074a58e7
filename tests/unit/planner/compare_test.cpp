// One job under several training systems, and the abilities of systems.
#include "stepcast/planner/compare.h"

#include <algorithm>

#include "../../support/folder.h"
#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

// Llama-3 8B on one node: complete states do not fit, sharded ones do.
constexpr const char* kJob =
    "model: llama-3-8b\ncluster: {use: dgx-h100, nodes: 1}\nsystem: composer\n"
    "workload: {sequence_length: 4096, global_batch: 16}\nmemory: {recompute: full}\n";

struct JobFile {
  test::Folder folder;
  std::string path;
  explicit JobFile(const std::string& text) : path(folder.write("job.yaml", text)) {}
};

result::Comparison compared(const std::vector<std::string>& systems,
                            const std::vector<std::string>& overrides = {}) {
  const JobFile file(kJob);
  forecast::Forecaster forecaster(text::data_directory());
  planner::CompareRequest request;
  request.config = file.path;
  request.systems = systems;
  request.overrides = overrides;
  return planner::compare(request, forecaster);
}

const result::ComparedSystem& of(const result::Comparison& c, const std::string& name) {
  for (const auto& s : c.systems) {
    if (s.name == name) {
      return s;
    }
  }
  throw std::runtime_error("no row of " + name);
}

const result::SurveyMark& mark(const result::SystemSummary& s, const std::string& strategy) {
  for (const auto& m : s.marks) {
    if (m.strategy == strategy) {
      return m;
    }
  }
  throw std::runtime_error("no mark of " + strategy);
}

}  // namespace

TEST_CASE("Systems change what they set; what the job states stays") {
  const auto c = compared({"pytorch-ddp", "pytorch-fsdp2", "deepspeed", "gpipe"});
  REQUIRE(c.systems.size() == 4);
  // Systems on which the job does not fit or is refused do not stop the others.
  CHECK(of(c, "pytorch-fsdp2").ran);
  CHECK(of(c, "pytorch-fsdp2").fits.fits);
  CHECK(of(c, "pytorch-fsdp2").sharding == "zero3");  // its own default, not Composer's
  CHECK(of(c, "pytorch-ddp").ran);
  CHECK_FALSE(of(c, "pytorch-ddp").fits.fits);
  CHECK(of(c, "pytorch-ddp").sharding == "none");
  CHECK_FALSE(of(c, "gpipe").ran);
  CHECK(of(c, "gpipe").key == "parallelism.data");
  CHECK_THAT(of(c, "gpipe").reason, ContainsSubstring("gpipe does not run data"));
  for (const auto& s : c.systems) {
    CHECK((!s.ran || s.recompute == "full"));  // the job states it
  }
  // Sorted by step time; systems that did not run come last.
  for (std::size_t i = 1; i < c.systems.size(); ++i) {
    const auto& a = c.systems[i - 1];
    const auto& b = c.systems[i];
    CHECK((a.ran || !b.ran));
    CHECK((!a.ran || !b.ran || a.step_time.value <= b.step_time.value));
  }
}

TEST_CASE("Keys of the job's own system do not carry over, its statements do") {
  const JobFile file(std::string(kJob) + "parallelism: {sharding: zero3}\n");
  const auto under = [&](const char* system) {
    return config::load(file.path, {std::string("system.use=") + system}).job;
  };
  CHECK(under("composer").memory.dtypes.reduce == job::DType::fp32);
  CHECK(under("pytorch-fsdp1").memory.dtypes.reduce == job::DType::bf16);
  CHECK(under("pytorch-fsdp1").system.backward_prefetch == job::System::Prefetch::explicit_);
  const auto c = compared({"pytorch-fsdp1", "horovod"}, {"parallelism.sharding=zero3"});
  CHECK(of(c, "pytorch-fsdp1").ran);
  CHECK_FALSE(of(c, "horovod").ran);
}

TEST_CASE(
    "A comparison is the same each time and in each order of systems; its writers hold it all") {
  const auto one = compared({"pytorch-fsdp2", "deepspeed", "horovod"});
  const auto two = compared({"horovod", "pytorch-fsdp2", "deepspeed"});
  CHECK(report::json(one) == report::json(two));
  CHECK(report::svg(one) == report::svg(two));
  const std::string svg = report::svg(one);
  const std::string text = report::terminal(one, false, 150);
  for (const char* name : {"pytorch-fsdp2", "deepspeed", "horovod"}) {
    CHECK_THAT(svg, ContainsSubstring(name));
    CHECK_THAT(text, ContainsSubstring(name));
  }
  CHECK_THAT(svg, !ContainsSubstring("nan") && !ContainsSubstring("inf"));
  CHECK_THAT(text, ContainsSubstring("By kind") && ContainsSubstring("single-strategy"));
}

TEST_CASE("A faulty job is an error, not a table of refusals") {
  const JobFile file("model: llama-3-8b\ncluster: {use: dgx-h100, nodes: 1}\nworkloads: {}\n");
  forecast::Forecaster forecaster(text::data_directory());
  CHECK_THROWS_AS(planner::compare({file.path, {}, {"deepspeed"}, {}}, forecaster), InputError);
}

TEST_CASE("What systems run, beside the survey's marks") {
  const auto deepspeed = planner::summary("deepspeed");
  for (const char* strategy : {"data", "sharded", "tensor", "pipeline", "sequence"}) {
    INFO(strategy);
    CHECK(mark(deepspeed, strategy).simulated);
    CHECK(mark(deepspeed, strategy).survey == true);
  }
  const auto mindnlp = planner::summary("mindnlp");
  CHECK_FALSE(mark(mindnlp, "pipeline").simulated);
  CHECK(mark(mindnlp, "pipeline").survey == true);
  CHECK_THAT(mark(mindnlp, "pipeline").reason, ContainsSubstring("no pipeline trainer"));
  CHECK(mark(planner::summary("lightseq"), "sequence").simulated);  // counted as in the survey
  CHECK_FALSE(mark(planner::summary("gpipe"), "data").simulated);
  CHECK_FALSE(mark(planner::summary("torchtitan"), "data").survey.has_value());
  CHECK(planner::summary("pytorch-fsdp").alias_of == "pytorch-fsdp2");
  // The survey's sixteen visible rows all have marks.
  int marked = 0;
  for (const char* name :
       {"transformers", "lightseq", "mindnlp", "pytorch-ddp", "horovod", "pytorch-fsdp2",
        "angel-ptm", "fairscale", "composer", "deepspeed", "megatron-lm", "megatron-llama",
        "colossal-ai", "megascale", "paddlenlp", "alpa"}) {
    const auto s = planner::summary(name);
    CHECK(s.marks.size() == 6);
    CHECK(s.kind != job::System::Kind::none);
    for (const auto& m : s.marks) {
      marked += m.survey ? 1 : 0;
    }
  }
  CHECK(marked == 16 * 6);
}

TEST_CASE("A system in full: each default with its source and place") {
  const auto d = planner::details("horovod");
  const auto found = std::find_if(d.defaults.begin(), d.defaults.end(),
                                  [](const auto& x) { return x.key == "system.cycle_time"; });
  REQUIRE(found != d.defaults.end());
  CHECK(found->value == "1 ms");
  CHECK_THAT(found->source, ContainsSubstring("HOROVOD_CYCLE_TIME"));
  CHECK_THAT(found->where, ContainsSubstring("horovod.yaml:"));
  CHECK_FALSE(d.limits.empty());
  CHECK_THAT(report::terminal(d, false), ContainsSubstring("HOROVOD_FUSION_THRESHOLD"));
}
