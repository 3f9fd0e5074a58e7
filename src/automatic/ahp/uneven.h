// How many layers each pipeline stage takes where stages are not alike: devices of unlike speed or
// memory, the embedding and the output layer at the ends.
//
// LAW  step = sum_s t_s + (B - 1) max_s t_s (1F1B without communication; Alpa, Zheng et al., OSDI
// 2022, section 5.2), with
//      t_s the forward and backward of stage s for one micro-batch: its layers' on its device and
//      its ends'.
#pragma once

#include <vector>

#include "../infinity.h"

namespace stepcast::automatic {

struct UnevenProblem {
  // [stage][layer] seconds per micro-batch, forward and backward
  std::vector<std::vector<double>> layer;
  // [stage] seconds of its parts outside the layers (embedding, output layer)
  std::vector<double> ends;
  std::vector<int> most;  // [stage] maximum number of layers that fit in its memory
  int grain = 1;          // each stage takes a multiple of it (chunks of a virtual pipeline)
  int micro_batches = 1;  // B
};

struct UnevenLayers {
  double step = kInfinity;  // by the law; infinity: no split fits in memory
  std::vector<int> layers;  // of each stage, at least one grain
};

double step_of(const UnevenProblem& problem, const std::vector<int>& layers);
// Exact: dynamic programming over stages and layers for each cap on the slowest stage.
UnevenLayers cut_layers(const UnevenProblem& problem);

}  // namespace stepcast::automatic
