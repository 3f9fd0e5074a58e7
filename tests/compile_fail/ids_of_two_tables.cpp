// The id of a rank is not the id of a communicator.
#include "stepcast/program/program.h"

using namespace stepcast::program;

[[maybe_unused]] const CommunicatorId wrong = RankId(3);
