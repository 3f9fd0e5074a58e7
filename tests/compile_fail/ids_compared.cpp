// The id of a rank cannot be compared with that of a channel.
#include "stepcast/program/program.h"

using namespace stepcast::program;

[[maybe_unused]] const bool wrong = RankId(3) == ChannelId(3);
