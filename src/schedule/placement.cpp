#include "stepcast/schedule/schedule.h"

namespace stepcast::schedule {

int stage_of(Placement placement, int stages, int rank, int chunk) {
  switch (placement) {
    case Placement::loop:
      break;
    case Placement::vee:
      return chunk * stages + (chunk % 2 == 0 ? rank : stages - 1 - rank);
    case Placement::bidirectional:
      return chunk % 2 == 0 ? rank : stages - 1 - rank;
  }
  return chunk * stages + rank;
}

}  // namespace stepcast::schedule
