// Numbers of ranks and of channels do not compare.
#include "stepcast/program/program.h"

using namespace stepcast::program;

[[maybe_unused]] const bool wrong = RankId(3) == ChannelId(3);
