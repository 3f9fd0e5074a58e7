// Parts that need no second process: the assignment of ranks to GPUs, and the text form of a case
// for other processes.
#include <cstdlib>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cuda/collective_check.h"
#include "cuda/mpi.h"

namespace {

using namespace stepcast;
using harness::NoDevice;
using harness::Unsupported;
using namespace harness::cuda;

std::vector<std::pair<int, int>> seated(const std::vector<Member>& processes, int ranks,
                                        int nodes) {
  std::vector<std::pair<int, int>> out;
  for (const Seat& seat : seats(processes, ranks, nodes)) {
    out.emplace_back(seat.process, seat.gpu);
  }
  return out;
}
using Seats = std::vector<std::pair<int, int>>;

World process(int local_rank, int local_size) {
  World w;
  w.local_rank = local_rank;
  w.local_size = local_size;
  return w;
}

}  // namespace

TEST_CASE("ranks take the first GPUs of the first nodes") {
  // A process for each GPU, placed round robin over two nodes.
  const std::vector<Member> spread = {{0, 1}, {1, 1}, {0, 1}, {1, 1}};
  CHECK(seated(spread, 4, 2) == Seats{{0, 0}, {2, 0}, {1, 0}, {3, 0}});
  CHECK(seated(spread, 2, 2) == Seats{{0, 0}, {1, 0}});
  CHECK(seated(spread, 2, 1) == Seats{{0, 0}, {2, 0}});
  // A process for each node.
  const std::vector<Member> whole = {{0, 4}, {1, 4}};
  CHECK(seated(whole, 4, 2) == Seats{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  CHECK(seated(whole, 3, 1) == Seats{{0, 0}, {0, 1}, {0, 2}});
  CHECK_THROWS_AS(seats(whole, 5, 1), Unsupported);
  CHECK_THROWS_AS(seats(whole, 3, 2), Unsupported);
  CHECK_THROWS_AS(seats(whole, 3, 3), Unsupported);
  CHECK_THROWS_AS(seats(whole, 0, 1), Unsupported);
  CHECK_THROWS_AS(seats(whole, 4, 0), Unsupported);
}

TEST_CASE("GPUs of a process: all of a node, its own of several, the one it was given") {
  CHECK(own_gpus(process(0, 1), 4) == std::vector<int>{0, 1, 2, 3});
  CHECK(own_gpus(process(2, 4), 4) == std::vector<int>{2});
  CHECK(own_gpus(process(2, 4), 8) == std::vector<int>{2});
  CHECK(own_gpus(process(3, 4), 1) == std::vector<int>{0});
  CHECK_THROWS_AS(own_gpus(process(3, 4), 2), NoDevice);
  CHECK_THROWS_AS(own_gpus(process(0, 1), 0), NoDevice);
}

TEST_CASE("a case arrives as it was sent, with its policy") {
  interop::CollectiveCase collective;
  collective.op = "reduce_scatter";
  collective.dtype = job::DType::bf16;
  collective.bytes = std::int64_t{1} << 40;
  collective.ranks = 16;
  collective.nodes = 2;
  collective.algo = "NVLSTree";
  interop::OverlapCase overlap;
  overlap.kernel = "gemm";
  overlap.m = 4096;
  overlap.n = 8192;
  overlap.k = 1024;
  overlap.op = "all_gather";
  overlap.other_bytes = 1 << 28;
  overlap.ranks = 8;
  overlap.channels = 16;
  harness::Policy policy;
  policy.samples = 7;
  policy.budget = 0.1 + 0.2;  // has no short decimal form
  policy.seed = ~std::uint64_t{0};
  for (const interop::GpuCase& what : {interop::GpuCase(collective), interop::GpuCase(overlap)}) {
    CHECK(of_all(what));
    const Order read = order_of(to_text({what, policy}));
    CHECK(read.what == what);
    CHECK(read.policy.samples == 7);
    CHECK(read.policy.warmups == policy.warmups);
    CHECK(read.policy.budget == policy.budget);
    CHECK(read.policy.seed == policy.seed);
    const std::string text = to_text({what, policy});
    CHECK_THROWS(order_of(text.substr(0, text.size() / 2)));
    CHECK_THROWS(order_of("x" + text));
  }
  overlap.op.clear();
  overlap.direction = "h2d";
  CHECK_FALSE(of_all(overlap));
  CHECK_FALSE(of_all(interop::GemmCase{}));
  CHECK_THROWS(to_text({interop::GemmCase{}, policy}));
}

TEST_CASE("a process alone leads; one of several without MPI does not start") {
  unsetenv("OMPI_COMM_WORLD_SIZE");
  int argc = 0;
  char** argv = nullptr;
  int closed = 0;
  const Local local{[] { return 3; }, nullptr, [&] { ++closed; }};
  const auto lead = [] {
    share(nullptr);
    CHECK(gpus_per_node() == std::vector<int>{3});
    CHECK(seats(members(), 3, 1).size() == 3);
    CHECK(world().size == 1);
    const Party party(true);
    std::vector<double> times{2, 3};
    party.barrier();
    party.maximum(times);
    CHECK(times == std::vector<double>{2, 3});
    CHECK_NOTHROW(party.agree(""));
    CHECK_THROWS_AS(party.agree("no"), Unsupported);
    return 7;
  };
  CHECK(in_world(argc, argv, local, lead) == 7);
  CHECK(closed == 1);
  setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  CHECK(in_world(argc, argv, local, [] { return 0; }) == 2);
  CHECK(closed == 1);
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

TEST_CASE("numbers through a collective of three, by hand") {
  // sent(r, i) = (31 r + 7 i) mod 101.
  CHECK(sent(0, 0) == 0);
  CHECK(sent(1, 2) == 45);
  CHECK(expected("all_reduce", 3, 1, 2) == std::vector<float>{0 + 31 + 62, 7 + 38 + 69});
  CHECK(expected("reduce", 3, 0, 1) == std::vector<float>{93});
  CHECK(expected("reduce", 3, 1, 1).empty());
  CHECK(expected("broadcast", 3, 2, 2) == std::vector<float>{0, 7});
  CHECK(expected("all_gather", 3, 2, 2) == std::vector<float>{0, 7, 31, 38, 62, 69});
  // Rank 1's share is elements 2 and 3.
  CHECK(expected("reduce_scatter", 3, 1, 2) == std::vector<float>{14 + 45 + 76, 21 + 52 + 83});
  CHECK(expected("alltoall", 3, 1, 2) == std::vector<float>{14, 21, 45, 52, 76, 83});
  CHECK(expected("sendrecv", 3, 0, 2) == std::vector<float>{62, 69});
}
