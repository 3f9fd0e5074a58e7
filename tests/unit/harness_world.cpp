// The processes of a harness under MPI with fake GPUs: `mpirun -n 4 PROGRAM WHAT`. ok: prints "all
// through"; none: one rank has no GPU; refuse: one rank cannot run a case; fail: one rank's device
// fails, which ends all ranks.
#define OMPI_SKIP_MPICXX 1  // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/collective_check.h"
#include "cuda/mpi.h"

namespace {

using namespace stepcast;
using namespace stepcast::harness;
using namespace stepcast::harness::cuda;

std::string scenario;

void require(bool good, const char* what) {
  if (!good) {
    throw std::runtime_error(what);
  }
}

// Compares the results that NCCL's are checked against with those of MPI's own collective.
void compare(const std::string& op) {
  constexpr int kCount = 64;
  const int n = world().size;
  const int me = world().rank;
  std::vector<float> send(static_cast<std::size_t>(kCount * n));
  for (std::size_t i = 0; i < send.size(); ++i) {
    send[i] = sent(me, i);
  }
  std::vector<float> got(send.size());
  const MPI_Comm all = MPI_COMM_WORLD;
  if (op == "all_reduce") {
    MPI_Allreduce(send.data(), got.data(), kCount, MPI_FLOAT, MPI_SUM, all);
  } else if (op == "all_gather") {
    MPI_Allgather(send.data(), kCount, MPI_FLOAT, got.data(), kCount, MPI_FLOAT, all);
  } else if (op == "reduce_scatter") {
    MPI_Reduce_scatter_block(send.data(), got.data(), kCount, MPI_FLOAT, MPI_SUM, all);
  } else if (op == "alltoall") {
    MPI_Alltoall(send.data(), kCount, MPI_FLOAT, got.data(), kCount, MPI_FLOAT, all);
  } else if (op == "broadcast") {
    got = send;
    MPI_Bcast(got.data(), kCount, MPI_FLOAT, 0, all);
  } else if (op == "reduce") {
    MPI_Reduce(send.data(), got.data(), kCount, MPI_FLOAT, MPI_SUM, 0, all);
  } else {
    MPI_Sendrecv(send.data(), kCount, MPI_FLOAT, (me + 1) % n, 0, got.data(), kCount, MPI_FLOAT,
                 (me + n - 1) % n, 0, all, MPI_STATUS_IGNORE);
  }
  const std::vector<float> right = expected(op, n, me, kCount);
  for (std::size_t i = 0; i < right.size(); ++i) {
    require(got[i] == right[i], "MPI and expected() differ");
  }
}

class Fake : public Device {
 public:
  interop::GpuSession session() const override { return {}; }
  Samples run(const interop::GpuCase& what, const Policy& policy) override {
    const auto* c = std::get_if<interop::CollectiveCase>(&what);
    if (c == nullptr) {  // on rank 0
      require(world().rank == 0, "a case of one rank was sent to all");
      return {};
    }
    require(policy.samples == 9, "the policy did not arrive");
    const std::vector<Seat> all = seats(members(), c->ranks, c->nodes);
    bool in = false;
    for (const Seat& seat : all) {
      in = in || seat.process == world().rank;
    }
    const Party party(in);
    if (!in) {
      return {};
    }
    if (scenario == "fail" && world().rank == 1) {
      throw std::runtime_error("the device fell off the bus");
    }
    party.agree(scenario == "refuse" && world().rank == 3 ? "rank 3 has no memory" : "");
    char word[8] = {};
    if (world().rank == 0) {
      std::memcpy(word, "id", 3);
    }
    party.broadcast(word, sizeof word);
    require(std::string(word) == "id", "the id did not arrive");
    party.barrier();
    std::vector<double> slowest{1.0 + world().rank, 5.0 - world().rank};
    party.maximum(slowest);
    require(slowest[0] == c->ranks && slowest[1] == 5, "not the slowest rank's time");
    if (c->ranks == world().size) {
      compare(c->op);
    }
    Samples samples;
    samples.seconds = slowest;
    return samples;
  }
};

std::unique_ptr<Device> open_fake(int gpu) {
  require(gpu == world().local_rank, "not this process's GPU");
  if (scenario == "none" && world().rank == 2) {
    throw NoDevice("no usable GPU");
  }
  return std::make_unique<Fake>();
}

int lead() {
  std::unique_ptr<Device> device;
  try {
    device = share(open_fake(0));
  } catch (const NoDevice& none) {
    std::printf("no device: %s\n", none.what());
    return 2;
  }
  require(gpus_per_node() == std::vector<int>{4}, "not four GPUs");
  Policy policy;
  policy.samples = 9;
  int refused = 0;
  try {
    device->run(interop::GemmCase{}, policy);
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast",
                           "reduce", "sendrecv"}) {
      for (const int ranks : {4, 2, 5}) {
        interop::CollectiveCase c;
        c.op = op;
        c.bytes = 1024;
        c.ranks = ranks;
        try {
          require(device->run(c, policy).seconds.size() == 2, "no samples");
        } catch (const Unsupported& why) {
          refused += ranks == 5 || std::string(why.what()) == "rank 3 has no memory" ? 1 : 100;
        }
      }
    }
  } catch (const std::exception& error) {
    // As in the harness: completed measurements are kept, and the exit status is 1.
    std::printf("failed: %s\n", error.what());
    return 1;
  }
  std::printf("all through, %d refused\n", refused);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  scenario = argc > 1 ? argv[1] : "ok";
  bool closed = false;
  const Local fake{[] { return 4; }, open_fake, [&] { closed = true; }};
  const int status = in_world(argc, argv, fake, lead);
  return closed ? status : 3;
}
