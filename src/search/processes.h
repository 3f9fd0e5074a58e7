// What the module `processes` offers: messages by MPI. The program opens it only where a launcher
// started several processes (together.cpp).
#pragma once

#include <optional>
#include <string>

#include "messages.h"

namespace stepcast::search {

struct Mpi {
  struct Place {
    int rank = 0;
    int size = 1;
    int local_size = 1;  // processes on this host
  };
  Place (*join)() = nullptr;
  void (*leave)() = nullptr;  // once all that was sent has left
  void (*send)(int to, Tag tag, std::string text) = nullptr;
  std::optional<Message> (*receive)() = nullptr;
};

using GetMpi = void(Mpi& out);

}  // namespace stepcast::search
