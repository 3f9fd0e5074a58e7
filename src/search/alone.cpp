// Replaces MPI in a build without it: a world of one process, whatever started it.
#include "launcher.h"
#include "messages.h"
#include "stepcast/search/world.h"

namespace stepcast::search {

World::World() : rank_(launched_rank()), without_mpi_(launched_size() > 1) {}
World::~World() = default;

void send(int, Tag, std::string) {}
std::optional<Message> receive() { return std::nullopt; }

}  // namespace stepcast::search
