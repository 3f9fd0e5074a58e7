// The correct counterparts of the wrong lines in this folder. This file must compile, which shows
// that the others fail only because of their units.
#include "stepcast/base/quantity.h"
#include "stepcast/program/program.h"

using namespace stepcast;

const auto bytes = Bytes(1) + Bytes(1);
const auto more_bytes = Bytes(2) * 2;
const auto size = Bytes{std::int64_t{80}};
const std::int64_t count = Bytes(80).count();
const Time transfer = Bytes(1) / Bandwidth(1);
const Time computation = Flops(1) / FlopRate(1);
const Time sum = Time(1) + transfer;
const Bandwidth rates = Bandwidth(1) + Bandwidth(1);
const Power power = Power(1) + Power(1);
const bool less = Time(1) < Time(2);
const bool equal = Bandwidth(1) == Bandwidth(1);
const bool equal_rates = FlopRate(1) == FlopRate(1);
const program::RankId rank = 3;
const bool same = rank == program::RankId::at(count);
const program::Task task{.duration = Time(1000), .stream = 1};
