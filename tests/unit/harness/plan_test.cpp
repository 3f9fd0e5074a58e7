#include "harness/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "catch.hpp"
#include "harness/estimate.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"

using namespace stepcast;
using namespace stepcast::harness;
using interop::GemmCase;
using interop::GemmLayout;

namespace {

Abilities device(const std::string& name, int gpus = 1, int nodes = 1) {
  return abilities_of(config::device(name), gpus, nodes);
}

std::vector<GemmCase> gemms(const std::vector<Planned>& plan) {
  std::vector<GemmCase> all;
  for (const Planned& p : plan) {
    if (const auto* c = std::get_if<GemmCase>(&p.what)) {
      all.push_back(*c);
    }
  }
  return all;
}

double total(const std::vector<Planned>& plan) {
  double seconds = 0;
  for (const Planned& p : plan) {
    seconds += p.seconds;
  }
  return seconds;
}

}  // namespace

TEST_CASE("a plan has every case once, in the same order each time") {
  const auto on = device("h200-sxm", 8);
  const auto plan = make_plan(on, {});
  const auto again = make_plan(on, {});
  REQUIRE(plan.size() == again.size());
  std::set<std::string> keys;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    CHECK(plan[i].key == again[i].key);
    CHECK(plan[i].key == interop::to_string(plan[i].what));
    keys.insert(plan[i].key);
  }
  CHECK(keys.size() == plan.size());
  PlanOptions other;
  other.seed = 2;
  CHECK(make_plan(on, other)[40].key != plan[40].key);
}

TEST_CASE("every kind and type that a device has is planned, and fits its memory") {
  for (const std::string name : {"a100-sxm-40", "h200-sxm", "b200-sxm", "l40s"}) {
    CAPTURE(name);
    const auto on = device(name, 2);
    std::set<std::string_view> kinds;
    std::set<job::DType> types;
    for (const Planned& p : make_plan(on, {})) {
      kinds.insert(kind_of(p.what));
      CHECK(memory_of(p.what) <= on.memory);
      CHECK(p.seconds > 0);
      CHECK(p.seconds < 15);
      if (const auto* c = std::get_if<GemmCase>(&p.what)) {
        types.insert(c->dtype);
      }
    }
    CHECK(kinds == std::set<std::string_view>(kKinds.begin(), kKinds.end()));
    CHECK(types.contains(job::DType::bf16));
    CHECK(types.contains(job::DType::tf32));
    CHECK(types.contains(job::DType::fp32));
    CHECK(types.contains(job::DType::fp8) == (name != "a100-sxm-40"));
    CHECK(types.contains(job::DType::fp8_block) == (name == "h200-sxm" || name == "b200-sxm"));
  }
}

TEST_CASE("the linears of Llama 3 8B stand in the plan, each pass with its own shape") {
  PlanOptions options;
  options.only = {"gemm"};
  options.models = {"llama-3-8b"};
  const auto all = gemms(make_plan(device("h100-sxm"), options));
  const auto has = [&](GemmLayout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
    return std::any_of(all.begin(), all.end(), [&](const GemmCase& c) {
      return c.dtype == job::DType::bf16 && c.layout == layout && c.m == m && c.n == n &&
             c.k == k && !c.accumulate_fp32 && !c.sustained && c.groups == 1;
    });
  };
  // Hidden 4096, 32 query heads and 8 key-value heads of 128, MLP of 14336, vocabulary of 128256.
  CHECK(has(GemmLayout::forward, 8192, 6144, 4096));  // q, k, v
  CHECK(has(GemmLayout::input_grad, 8192, 4096, 6144));
  CHECK(has(GemmLayout::weight_grad, 4096, 6144, 8192));
  CHECK(has(GemmLayout::forward, 8192, 4096, 14336));      // down
  CHECK(has(GemmLayout::forward, 4096, 28672 / 4, 4096));  // gate and up, split over four ranks
  CHECK(has(GemmLayout::forward, 1024, 128256, 4096));     // logits
  CHECK(std::any_of(all.begin(), all.end(), [](const GemmCase& c) { return c.accumulate_fp32; }));
  CHECK(std::any_of(all.begin(), all.end(), [](const GemmCase& c) { return c.sustained; }));
}

TEST_CASE("experts' products are grouped, of the models that have them") {
  PlanOptions options;
  options.only = {"gemm"};
  options.models = {"mixtral-8x7b"};
  std::set<int> groups;
  for (const GemmCase& c : gemms(make_plan(device("h100-sxm"), options))) {
    if (c.groups > 1) {
      groups.insert(c.groups);
      // Hidden 4096, experts of 14336, gate and up together.
      const std::set<std::int64_t> sides = {c.m, c.n, c.k};
      CHECK((sides.contains(4096) && (sides.contains(14336) || sides.contains(28672))));
    }
  }
  CHECK(groups == std::set<int>{2, 4, 8});
}

TEST_CASE("the sweep spans shapes that no model has") {
  const auto all = gemms(make_plan(device("h200-sxm"), {}));
  std::map<GemmLayout, int> of_layout;
  std::int64_t least = 1 << 30;
  std::int64_t most = 0;
  for (const GemmCase& c : all) {
    least = std::min(least, c.m);
    most = std::max(most, c.m);
    ++of_layout[c.layout];
    if (c.dtype == job::DType::fp8) {
      CHECK(c.m % 16 == 0);
      CHECK(c.n % 16 == 0);
      CHECK(c.k % 16 == 0);
    }
  }
  CHECK(least <= 24);
  CHECK(most >= 500'000);
  CHECK(of_layout.size() == 3);
}

TEST_CASE("any prefix of the plan is balanced") {
  const auto plan = make_plan(device("h200-sxm"), {});
  std::set<std::string_view> kinds;
  double first_minute = 0;
  for (const Planned& p : plan) {
    first_minute += p.seconds;
    if (first_minute > 60) {
      break;
    }
    kinds.insert(kind_of(p.what));
  }
  CHECK(kinds.size() == kKinds.size());
  for (const double part : {30.0, 60.0, 120.0, 300.0}) {
    CAPTURE(part);
    std::map<std::string_view, double> spent;
    double sum = 0;
    for (const Planned& p : plan) {
      if (sum + p.seconds > part) {
        break;
      }
      spent[kind_of(p.what)] += p.seconds;
      sum += p.seconds;
    }
    CHECK(spent["gemm"] > 0.3 * sum);
    CHECK(spent["gemm"] < 0.8 * sum);
    CHECK(spent["attention"] > 0.08 * sum);
    CHECK(spent["attention"] < 0.4 * sum);
  }
  CHECK(total(plan) > 300);
}

TEST_CASE("strands keep their shares of the time at every moment") {
  const auto on = device("h100-sxm");
  Strand a{.share = 3, .cases = {}};
  Strand b{.share = 1, .cases = {}};
  for (int i = 1; i <= 300; ++i) {  // all different and of equal cost
    a.cases.emplace_back(interop::LaunchCase{.what = "a" + std::to_string(i)});
    b.cases.emplace_back(interop::LaunchCase{.what = "b" + std::to_string(i)});
  }
  const auto plan = interleave({a, b}, on, {});
  REQUIRE(plan.size() == 600);
  int of_a = 0;
  for (int i = 0; i < 400; ++i) {
    of_a += plan[static_cast<std::size_t>(i)].key.find(" a") != std::string::npos ? 1 : 0;
    CHECK(std::abs(of_a - 0.75 * (i + 1)) <= 1.0);
  }
}

TEST_CASE("what is too large for the device is left out, what stands twice is there once") {
  auto on = device("h100-sxm");
  const interop::MemoryCase small{.op = "copy", .bytes = 1 << 20};
  const interop::MemoryCase large{.op = "copy", .bytes = on.memory};
  const auto plan = interleave({{1.0, {small, large, small}}}, on, {});
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].key == interop::to_string(small));
}

TEST_CASE("collectives: one rank on one GPU, else every power of two and all") {
  PlanOptions options;
  options.only = {"collective"};
  const auto ranks = [&](int gpus, int nodes) {
    std::set<std::pair<int, int>> all;
    for (const Planned& p : make_plan(device("h100-sxm", gpus, nodes), options)) {
      const auto& c = std::get<interop::CollectiveCase>(p.what);
      all.insert({c.ranks, c.nodes});
    }
    return all;
  };
  using Set = std::set<std::pair<int, int>>;
  CHECK(ranks(1, 1) == Set{{1, 1}});
  CHECK(ranks(6, 1) == Set{{2, 1}, {4, 1}, {6, 1}});
  CHECK(ranks(8, 2) == Set{{2, 1}, {4, 1}, {8, 1}, {16, 2}, {2, 2}});
}

TEST_CASE("a GPU is planned for by the data sheet that is most like it, with its own memory") {
  interop::GpuSession session;
  session.gpu = "NVIDIA H200";
  session.compute_capability = 9.0;
  session.sms = 132;
  session.memory = 150'000'000'000;
  const Abilities on = abilities_of(session, 1, 1);
  CHECK(on.device.starts_with("h200"));
  CHECK(on.memory == session.memory);
  session.compute_capability = 12.1;  // no supported one
  session.sms = 48;
  session.memory = 128'000'000'000;
  CHECK(abilities_of(session, 1, 1).compute_capability == 12.1);
}

TEST_CASE("an unknown model is the user's error") {
  PlanOptions options;
  options.models = {"llama-9"};
  CHECK_THROWS_AS(make_plan(device("h100-sxm"), options), InputError);
}

TEST_CASE("five minutes give every type the shapes that a fit needs") {
  constexpr int kNeeded = 40;  // for the forward layout: cost::fit_kernels
  for (const std::string name : {"a100-sxm-80", "h200-sxm"}) {
    for (const int gpus : {1, 8}) {
      CAPTURE(name, gpus);
      std::map<job::DType, int> forward;
      double sum = 0;
      for (const Planned& p : make_plan(device(name, gpus), {})) {
        if (sum + p.seconds > 300) {
          break;
        }
        sum += p.seconds;
        const auto* c = std::get_if<GemmCase>(&p.what);
        if (c != nullptr && c->layout == GemmLayout::forward && c->groups == 1 && !c->sustained) {
          ++forward[c->dtype];
        }
      }
      CHECK(forward.size() == (name == "h200-sxm" ? 6 : 4));
      for (const auto& [dtype, count] : forward) {
        CAPTURE(job::to_string(dtype));
        CHECK(count >= kNeeded);
      }
    }
  }
}

TEST_CASE("an AMD GPU is planned by its own data sheet, without what its libraries lack") {
  interop::GpuSession session;
  session.gpu = "AMD Instinct MI300X";
  session.architecture = "gfx942";
  session.sms = 304;
  session.memory = 206141652992;
  const Abilities on = abilities_of(session, 8, 1);
  CHECK(on.device == "mi300x");
  CHECK(on.amd);
  CHECK(on.has(job::DType::fp8));
  CHECK(on.has(job::DType::tf32));
  CHECK_FALSE(on.has(job::DType::fp8_block));
  session.sms = 256;
  session.memory = 309220868096;
  session.architecture = "gfx950";
  CHECK(abilities_of(session, 1, 1).device.starts_with("mi35"));
  session.architecture.clear();
  session.compute_capability = 9.0;
  CHECK_FALSE(abilities_of(session, 1, 1).amd);

  std::set<std::string> attention;
  bool nvls = false;
  for (const Planned& p : make_plan(on, {})) {
    if (const auto* a = std::get_if<interop::AttentionCase>(&p.what)) {
      attention.insert(a->kernel);
    }
    if (const auto* c = std::get_if<interop::CollectiveCase>(&p.what)) {
      nvls = nvls || c->algo == "NVLS";
    }
  }
  CHECK(attention == std::set<std::string>{"flash2"});
  CHECK_FALSE(nvls);
}
