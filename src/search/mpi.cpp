// The module that communicates by MPI. No call blocks: a blocking MPI call polls and would take the
// CPU from an evaluation.
#include <list>

#define OMPI_SKIP_MPICXX 1  // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "processes.h"

namespace stepcast::search {
namespace {

struct Sending {
  std::string text;
  MPI_Request request = MPI_REQUEST_NULL;
};

// A static is appropriate: a process is in one MPI world, and MPI itself is global.
std::list<Sending>& sending() {
  static std::list<Sending> one;
  return one;
}

void forget_sent() {
  sending().remove_if([](Sending& s) {
    int done = 0;
    MPI_Test(&s.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

Mpi::Place join() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  Mpi::Place out;
  MPI_Comm_rank(MPI_COMM_WORLD, &out.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &out.size);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, out.rank, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &out.local_size);
  MPI_Comm_free(&host);
  return out;
}

void leave() {
  for (Sending& s : sending()) {
    MPI_Wait(&s.request, MPI_STATUS_IGNORE);
  }
  sending().clear();
  MPI_Finalize();
}

void post(int to, Tag tag, std::string text) {
  forget_sent();
  Sending& s = sending().emplace_back();
  s.text = std::move(text);
  MPI_Isend(s.text.data(), static_cast<int>(s.text.size()), MPI_BYTE, to, static_cast<int>(tag),
            MPI_COMM_WORLD, &s.request);
}

std::optional<Message> take() {
  forget_sent();
  int arrived = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, &status);
  if (arrived == 0) {
    return std::nullopt;
  }
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  Message out{static_cast<Tag>(status.MPI_TAG), status.MPI_SOURCE,
              std::string(static_cast<std::size_t>(bytes), '\0')};
  MPI_Recv(out.text.data(), bytes, MPI_BYTE, out.from, status.MPI_TAG, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
  return out;
}

}  // namespace

extern "C" GetMpi stepcast_mpi;
extern "C" void stepcast_mpi(Mpi& out) { out = {join, leave, post, take}; }

}  // namespace stepcast::search
