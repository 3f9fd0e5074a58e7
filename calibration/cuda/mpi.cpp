// Communication between rank 0 and the other ranks. Every message is a broadcast of a command from
// rank 0. The others sleep while they wait, so that they do not load the CPU during a measurement.
#include "mpi.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#ifdef STEPCAST_HAVE_MPI
#define OMPI_SKIP_MPICXX 1  // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#endif

namespace stepcast::harness::cuda {
namespace {

// A static is appropriate: a process is in one MPI world, and MPI itself is global.
struct State {
  World world;
  std::vector<Member> members;
  Local local;
  bool broken = false;  // a case of several ranks failed here, and the other ranks may hang in it
};
State& state() {
  static State one;
  return one;
}

// Number of ranks according to the launcher's environment; 0: started without a launcher.
int launched() {
  // The variables of Open MPI; of MPICH and Intel MPI; of MVAPICH2; of PMIx under Slurm.
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const char* value = std::getenv(size)) {
      return std::max(1, std::atoi(value));
    }
  }
  if (std::getenv("PMIX_RANK") != nullptr) {
    const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
    return tasks != nullptr ? std::max(1, std::atoi(tasks)) : 1;
  }
  return 0;
}

#ifdef STEPCAST_HAVE_MPI

void check(int error, const char* what) {
  if (error != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(error, text.data(), &length);
    throw std::runtime_error(std::string(what) + ": " + text.data());
  }
}

enum class Command : std::int64_t { stop, open, run };
struct Header {
  std::int64_t command = 0;
  std::int64_t value = 0;  // stop: the exit status; run: bytes of the order
};

void broadcast_in(MPI_Comm group, void* data, std::size_t bytes) {
  // MPI counts are of type int, so large messages are sent in parts.
  constexpr std::size_t kPart = std::size_t{1} << 30;
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const auto part = static_cast<int>(std::min(kPart, bytes - at));
    check(MPI_Bcast(static_cast<char*>(data) + at, part, MPI_BYTE, 0, group), "MPI_Bcast");
  }
}

// Both sides use the same nonblocking broadcast: MPI does not match a blocking one with it.
void exchange(Header& header) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibcast(&header, static_cast<int>(sizeof header), MPI_BYTE, 0, MPI_COMM_WORLD, &request),
        "MPI_Ibcast");
  constexpr auto kNap = std::chrono::microseconds(200);
  int done = 0;
  while (true) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) {
      return;
    }
    std::this_thread::sleep_for(kNap);
  }
}

void find_place(State& s) {
  check(MPI_Comm_rank(MPI_COMM_WORLD, &s.world.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &s.world.size), "MPI_Comm_size");
  MPI_Comm node = MPI_COMM_NULL;
  check(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, s.world.rank, MPI_INFO_NULL, &node),
      "MPI_Comm_split_type");
  check(MPI_Comm_rank(node, &s.world.local_rank), "MPI_Comm_rank");
  check(MPI_Comm_size(node, &s.world.local_size), "MPI_Comm_size");
  // A node is identified by its lowest rank; its number is the count of such ranks below.
  int first = s.world.rank;
  check(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  std::vector<int> firsts(static_cast<std::size_t>(s.world.size));
  check(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, MPI_COMM_WORLD),
        "MPI_Allgather");
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  s.world.nodes = static_cast<int>(firsts.size());
  s.world.node =
      static_cast<int>(std::lower_bound(firsts.begin(), firsts.end(), first) - firsts.begin());
}

// Returns the text of the first rank of `group` that has one, in all ranks; empty if none has.
std::string first_text(MPI_Comm group, const std::string& mine) {
  int rank = 0;
  check(MPI_Comm_rank(group, &rank), "MPI_Comm_rank");
  constexpr int kNone = std::numeric_limits<int>::max();
  const int speaks = mine.empty() ? kNone : rank;
  int first = kNone;
  check(MPI_Allreduce(&speaks, &first, 1, MPI_INT, MPI_MIN, group), "MPI_Allreduce");
  if (first == kNone) {
    return "";
  }
  std::array<char, 512> text{};
  if (rank == first) {
    mine.copy(text.data(), text.size() - 1);
  }
  check(MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, first, group), "MPI_Bcast");
  return text.data();
}

// Collects the GPUs of every process, or throws NoDevice in all of them.
void register_all(int gpus, const std::string& fault) {
  State& s = state();
  const std::string mine = fault.empty() || s.world.rank == 0
                               ? fault
                               : "rank " + std::to_string(s.world.rank) + ": " + fault;
  if (const std::string text = first_text(MPI_COMM_WORLD, mine); !text.empty()) {
    throw NoDevice(text);
  }
  const std::array<int, 2> here{s.world.node, gpus};
  std::vector<std::array<int, 2>> all(static_cast<std::size_t>(s.world.size));
  check(MPI_Allgather(here.data(), 2, MPI_INT, all.data(), 2, MPI_INT, MPI_COMM_WORLD),
        "MPI_Allgather");
  s.members.clear();
  for (const auto& [node, count] : all) {
    s.members.push_back({node, count});
  }
}

[[noreturn]] void abort_all(int status) {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

// Rank 0's device if there are other processes.
class Shared : public Device {
 public:
  explicit Shared(std::unique_ptr<Device> own) : own_(std::move(own)) {}
  interop::GpuSession session() const override { return own_->session(); }
  Samples run(const interop::GpuCase& what, const Policy& policy) override {
    if (!of_all(what)) {
      return own_->run(what, policy);
    }
    std::string text = to_text({what, policy});
    Header header{static_cast<std::int64_t>(Command::run), static_cast<std::int64_t>(text.size())};
    exchange(header);
    broadcast_in(MPI_COMM_WORLD, text.data(), text.size());
    try {
      return own_->run(what, policy);
    } catch (const Unsupported&) {
      // All processes agreed on this, so the others have ended the case too.
      throw;
    } catch (...) {
      state().broken = true;
      throw;
    }
  }

 private:
  std::unique_ptr<Device> own_;
};

// The loop of the ranks above 0. Returns rank 0's exit status.
int serve() {
  State& s = state();
  std::unique_ptr<Device> device;
  while (true) {
    Header header;
    exchange(header);
    switch (static_cast<Command>(header.command)) {
      case Command::stop:
        device.reset();
        return static_cast<int>(header.value);
      case Command::open: {
        std::string fault;
        int gpus = 0;
        try {
          const std::vector<int> own = own_gpus(s.world, s.local.count());
          device = s.local.open(own.front());
          gpus = static_cast<int>(own.size());
        } catch (const NoDevice& none) {
          fault = none.what();
        }
        try {
          register_all(gpus, fault);
        } catch (const NoDevice&) {
          device.reset();  // rank 0 reports the fault and stops
        }
        break;
      }
      case Command::run: {
        std::string text(static_cast<std::size_t>(header.value), '\0');
        broadcast_in(MPI_COMM_WORLD, text.data(), text.size());
        const Order order = order_of(text);
        try {
          device->run(order.what, order.policy);
        } catch (const Unsupported&) {  // rank 0 records it
        }
        break;
      }
    }
  }
}

int in_mpi(const std::function<int()>& lead) {
  State& s = state();
  int status = 1;
  if (s.world.rank > 0) {
    std::signal(SIGINT, SIG_IGN);  // rank 0 ends its case first and then all processes
    try {
      status = serve();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "calibrate-gpu: rank %d: %s\n", s.world.rank, error.what());
      abort_all(1);
    }
  } else {
    try {
      status = lead();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "calibrate-gpu: %s\n", error.what());
      abort_all(1);
    }
    if (s.broken) {
      abort_all(status);
    }
    Header stop{static_cast<std::int64_t>(Command::stop), status};
    exchange(stop);
  }
  if (s.local.close) {
    s.local.close();
  }
  MPI_Finalize();
  return status;
}

#endif

}  // namespace

const World& world() { return state().world; }
const std::vector<Member>& members() { return state().members; }

std::vector<int> gpus_per_node() {
  std::vector<int> out(static_cast<std::size_t>(state().world.nodes), 0);
  for (const Member& m : state().members) {
    out[static_cast<std::size_t>(m.node)] += m.gpus;
  }
  return out;
}

int in_world([[maybe_unused]] int& argc, [[maybe_unused]] char**& argv, const Local& local,
             const std::function<int()>& lead) {
  State& s = state();
  s.local = local;
#ifdef STEPCAST_HAVE_MPI
  if (launched() > 0) {
    int provided = 0;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      std::fprintf(stderr, "calibrate-gpu: MPI does not start\n");
      return 2;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    find_place(s);
    if (s.world.size < launched()) {  // the launcher and this MPI library do not belong together
      std::fprintf(
          stderr,
          "calibrate-gpu: one of %d processes, but MPI sees %d; expected the launcher of the "
          "MPI library it was built with\n",
          launched(), s.world.size);
      MPI_Finalize();
      return 2;
    }
    return in_mpi(lead);
  }
#else
  if (launched() > 1) {
    std::fprintf(stderr,
                 "calibrate-gpu: started as several processes, but built without MPI; expected one "
                 "process\n");
    return 2;
  }
#endif
  const int status = lead();
  if (local.close) {
    local.close();
  }
  return status;
}

std::unique_ptr<Device> share(std::unique_ptr<Device> device) {
  State& s = state();
  const int visible = s.local.count ? s.local.count() : 0;
#ifdef STEPCAST_HAVE_MPI
  if (s.world.size > 1) {
    Header header{static_cast<std::int64_t>(Command::open), 0};
    exchange(header);
    std::string fault;
    int gpus = 0;
    try {
      gpus = static_cast<int>(own_gpus(s.world, visible).size());
    } catch (const NoDevice& none) {
      fault = none.what();
    }
    register_all(gpus, fault);
    return std::make_unique<Shared>(std::move(device));
  }
#endif
  s.members = {{0, visible}};
  return device;
}

#ifdef STEPCAST_HAVE_MPI

struct Party::Group {
  MPI_Comm comm = MPI_COMM_NULL;
};

Party::Party() = default;
Party::Party(bool in) {
  if (state().world.size < 2) {
    return;
  }
  group_ = std::make_unique<Group>();
  check(MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, state().world.rank, &group_->comm),
        "MPI_Comm_split");
}

Party::~Party() {
  if (group_ && group_->comm != MPI_COMM_NULL) {
    MPI_Comm_free(&group_->comm);
  }
}

void Party::barrier() const {
  if (group_) {
    check(MPI_Barrier(group_->comm), "MPI_Barrier");
  }
}

void Party::maximum(std::vector<double>& values) const {
  if (group_) {
    check(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE,
                        MPI_MAX, group_->comm),
          "MPI_Allreduce");
  }
}

void Party::broadcast(void* data, std::size_t bytes) const {
  if (group_) {
    broadcast_in(group_->comm, data, bytes);
  }
}

void Party::agree(const std::string& refusal) const {
  const std::string text = group_ ? first_text(group_->comm, refusal) : refusal;
  if (!text.empty()) {
    throw Unsupported(text);
  }
}

#else

struct Party::Group {};
Party::Party() = default;
Party::Party(bool) {}
Party::~Party() = default;
void Party::barrier() const {}
void Party::maximum(std::vector<double>&) const {}
void Party::broadcast(void*, std::size_t) const {}
void Party::agree(const std::string& refusal) const {
  if (!refusal.empty()) {
    throw Unsupported(refusal);
  }
}

#endif

}  // namespace stepcast::harness::cuda
