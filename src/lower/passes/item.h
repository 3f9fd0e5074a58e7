// One entry of a pass in the order in which the host issues it: a kernel, a collective, a wait.
#pragma once

#include <cstdint>

#include "roles.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

struct Item {
  enum class Kind : std::uint8_t {
    kernel,
    collective,  // the compute stream waits for it
    async,       // on its role's stream, until the role's next `join`
    ring,        // a step round the role's ring, on its role's stream likewise
    join,        // the compute stream waits for the role's stream
    sync,        // the host waits until the compute stream gets here
    host,        // the host works for `duration`
    model,       // the gradient of the model's result is made: its own backward pass follows
    tile         // a part of a weight is whole from here to the next tile (tiles.cpp)
  };
  Kind kind = Kind::kernel;
  program::Category category = program::Category::compute;
  Role role = kTensor;
  // Part of the weight gradient: of pass W in schedules that split the backward pass.
  bool weight = false;
  std::uint16_t kernels = 0;  // launches before it can start
  std::uint16_t more = 0;     // launches of kernels merged behind it
  std::uint16_t graphed = 0;  // launches that a CUDA graph of its module saves
  program::CurveId curve;
  Time duration{0};
  std::uint8_t slowdown = 0;  // kernel: its kind, as slowdown.h counts them
  program::LabelIndex label;
  // collective, async: key in the role's price book; ring: number of the message.
  program::PriceKey price;
  // tile: its elements, 0 behind the last tile of a weight; elements of the pass's next tile;
  // whether the tile's gradient is made here.
  std::int64_t elements = 0;
  std::int64_t next_elements = 0;
  bool makes_gradient = false;
};

}  // namespace stepcast::lower
