// SimGrid on the flows of bench_contention, for comparison: random flows in flight over a
// 1,024-host fat tree, and steps of a ring. There are no actors: flows start each other, which is
// faster than processes that send. As there, results are flows per second of processor time.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "support/simgrid_flows.h"

namespace {

using namespace stepcast::testing;

double seconds_since(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Rates are equal up to this relative difference: SimGrid's default.
constexpr const char* kPrecision = "maxmin/precision:1e-5";

// `in_flight` flows are always active; the first flows, which begin together, are not timed.
void random_flows(int in_flight, std::int64_t uplink) {
  FatTree tree(kBenchmarkPorts, kBenchmarkRate);
  for (std::size_t j = static_cast<std::size_t>(2 * tree.hosts()); j < tree.links.size(); ++j) {
    tree.links[j].capacity = uplink;
  }
  const std::size_t untimed = 2 * static_cast<std::size_t>(in_flight);
  const std::size_t timed = in_flight >= 1024 ? 4'000 : 20'000;
  RandomTraffic traffic(tree);
  std::vector<Flow> flows;
  while (flows.size() < untimed + timed + static_cast<std::size_t>(in_flight)) {
    flows.push_back(traffic.next());
  }
  configure_simgrid();
  simgrid::s4u::Engine::set_config(kPrecision);
  auto* root = simgrid::s4u::create_full_zone("root");
  SimgridNetwork network(root, "tree", tree.links, flows);
  root->seal();
  std::size_t begun = 0;
  std::size_t ended = 0;
  std::clock_t begin = 0;
  const auto next = [&] {
    if (begun < flows.size()) {
      network.start(begun, flows[begun]);
      ++begun;
    }
  };
  simgrid::s4u::Comm::on_completion_cb([&](const auto&) {
    ++ended;
    if (ended == untimed) {
      begin = std::clock();
    } else if (ended == untimed + timed) {
      fmt::print("random_{}_flows{}: {:.0f} flows/s\n", in_flight,
                 uplink < kBenchmarkRate ? "_oversubscribed" : "",
                 static_cast<double>(timed) / seconds_since(begin));
      std::fflush(stdout);
      _exit(0);  // SimGrid would otherwise continue to the last flow
    }
    next();
  });
  for (int i = 0; i < in_flight; ++i) {
    next();
  }
  simgrid::s4u::Engine::get_instance()->run();
}

void ring_steps() {
  const FatTree tree(kBenchmarkPorts, kBenchmarkRate);
  const std::vector<Flow> step = ring_step(tree, 1 << 20);
  configure_simgrid();
  simgrid::s4u::Engine::set_config(kPrecision);
  auto* root = simgrid::s4u::create_full_zone("root");
  SimgridNetwork network(root, "tree", tree.links, step);
  root->seal();
  constexpr std::size_t kSteps = 200;
  std::size_t ended = 0;
  const auto begin_step = [&] {
    for (std::size_t i = 0; i < step.size(); ++i) {
      network.start(i, step[i]);
    }
  };
  simgrid::s4u::Comm::on_completion_cb([&](const auto&) {
    ++ended;
    if (ended % step.size() == 0 && ended < kSteps * step.size()) {
      begin_step();
    }
  });
  const std::clock_t begin = std::clock();
  begin_step();
  simgrid::s4u::Engine::get_instance()->run();
  fmt::print("ring_steps_{}: {:.0f} flows/s\n", step.size(),
             static_cast<double>(ended) / seconds_since(begin));
}

// A process can have only one SimGrid engine.
template <class Work>
bool in_child(Work&& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main() {
  bool good = in_child(ring_steps);
  for (const int in_flight : {64, 256, 1024}) {
    good = in_child([&] { random_flows(in_flight, kBenchmarkRate); }) && good;
  }
  good = in_child([] { random_flows(1024, kBenchmarkRate / 2); }) && good;
  return good ? 0 : 1;
}
