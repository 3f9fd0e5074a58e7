// A world of the processes that a launcher started. A process that no launcher started never opens
// MPI.
#include <utility>

#include "launcher.h"
#include "messages.h"
#include "processes.h"
#include "stepcast/base/late_module.h"
#include "stepcast/search/world.h"

namespace stepcast::search {
namespace {

// A static is appropriate: a process is in one MPI world, and MPI itself is global.
const Mpi& mpi() {
  static const Mpi one = [] {
    Mpi out;
    late_function<GetMpi>("processes", "stepcast_mpi")(out);
    return out;
  }();
  return one;
}

}  // namespace

World::World() {
  if (launched_size() <= 1) {
    return;
  }
  const Mpi::Place place = mpi().join();
  joined_ = true;
  rank_ = place.rank;
  size_ = place.size;
  local_size_ = place.local_size;
}

World::~World() {
  if (!joined_) {
    return;
  }
  if (rank_ == 0) {
    for (int to = 1; to < size_; ++to) {
      send(to, Tag::stop, "");
    }
  }
  mpi().leave();
}

void send(int to, Tag tag, std::string text) { mpi().send(to, tag, std::move(text)); }
std::optional<Message> receive() { return mpi().receive(); }

}  // namespace stepcast::search
