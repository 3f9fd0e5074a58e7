// A build without MPI: a world of one, whatever the launcher.
#include "launcher.h"
#include "messages.h"
#include "stepcast/search/world.h"

namespace stepcast::search {

World::World() : rank_(launched_rank()), without_mpi_(launched_size() > 1) {}
World::~World() = default;

void send(int, Tag, std::string) {}
std::optional<Message> receive() { return std::nullopt; }

}  // namespace stepcast::search
