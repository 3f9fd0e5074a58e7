#include "making.h"

#include <algorithm>
#include <deque>

#include "../data/data_parallel.h"
#include "../data/parameter_formats.h"
#include "../data/sharded_units.h"
#include "../stage/feature.h"

namespace stepcast::lower {
namespace {

constexpr double kFourBits = 0.5;
// bitsandbytes 0.50.2, functional.py: blocks of 64 weights, each with a constant in fp32.
constexpr double kConstant = 4.0 / 64;
constexpr double kConstantIn8Bits = 1.0 / 64;
constexpr double kSixteenBits = 2;

// Constants that are quantised themselves: 8 bits each, and those of their own blocks beside them.
bool quantised_twice(double bytes, double elements) {
  return bytes > elements * kConstantIn8Bits && bytes < elements * kConstant / 2;
}

std::int64_t whole_of(double bytes) { return static_cast<std::int64_t>(bytes); }

double frozen_whole(const Wrap& w) { return static_cast<double>(w.frozen_bytes); }

double trained_whole(const Stage& stage, const Wrap& w) {
  return standing_bytes(stage.plan, w.elements, false) +
         standing_bytes(stage.plan, w.elements, true);
}

// Writes calls down.
class Maker {
 public:
  explicit Maker(program::Program& to) : to_(to) {}

  // A tensor that making the model alone needs.
  std::uint32_t temporary(double bytes) {
    if (bytes < 1) {
      return program::kNone;
    }
    to_.making.push_back({Bytes(whole_of(bytes)), program::kNone, temporaries_});
    return temporaries_++;
  }
  void give_up(std::uint32_t temporary) {
    if (temporary != program::kNone) {
      to_.making.push_back({Bytes{0}, program::kNone, temporary});
    }
  }
  void stand(program::BufferIndex buffer, const std::vector<std::int64_t>& tensors,
             std::uint32_t& number) {
    if (buffer != program::kNone && number < tensors.size()) {
      to_.making.push_back({Bytes(tensors[number]), buffer, number});
      ++number;
    }
  }

 private:
  program::Program& to_;
  std::uint32_t temporaries_ = 0;
};

// A tensor that stands whole until it is sharded.
struct Whole {
  std::uint32_t temporary = 0;
  double bytes = 0;
};

const Parameters& parameters_of(const Stage& stage, const Wrap& w, std::size_t unit) {
  return stage.units[static_cast<std::size_t>(w.chunk)][unit].passes->parameters;
}

// Bytes of a unit's frozen parameters but for those of 4 bits.
double others(const Parameters& p) {
  auto out = static_cast<double>(p.frozen_bytes);
  for (const std::int64_t weight : p.quantised) {
    out -= static_cast<double>(weight) * kFourBits;
  }
  return out;
}

class ModelMaker {
 public:
  ModelMaker(Stage& stage, const Shards& shards, const ShardBuffers& buffers)
      : stage_(stage), shards_(shards), buffers_(buffers), maker_(stage.builder.program) {}

  void make() {
    whole_.resize(stage_.sharded.wraps.size());
    if (makes_quantised(stage_)) {
      std::size_t weights = 0;
      for (const auto& chunk : stage_.units) {
        for (const Unit& u : chunk) {
          weights += u.passes->parameters.quantised.size();
        }
      }
      constants_of_each_ = shards_.constants.size() / weights;
      for (std::size_t i = 0; i < whole_.size(); ++i) {
        quantise(stage_.sharded.wraps[i], whole_[i]);
      }
    }
    const bool flat = stage_.plan.parameter_gather.flat;
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      flat ? flatten(stage_.sharded.wraps[i], whole_[i]) : shard(stage_.sharded.wraps[i]);
    }
    for (std::vector<Whole>& of_wrap : whole_) {
      give_up(of_wrap);
    }
  }

 private:
  // transformers 5.23.0 loads each weight whole on every rank's device
  // (quantizers/quantizer_bnb_4bit.py:97), where bitsandbytes 0.50.2 quantises it: the weight, its
  // constants, its values, the constants less their mean, and these in 8 bits
  // (backends/cuda/ops.py:391, functional.py:940, backends/cuda/ops.py:311).
  void quantise(const Wrap& w, std::vector<Whole>& whole) {
    for (const std::size_t u : w.units) {
      const Parameters& p = parameters_of(stage_, w, u);
      for (const std::int64_t weight : p.quantised) {
        const auto elements = static_cast<double>(weight);
        const std::uint32_t wide = maker_.temporary(elements * kSixteenBits);
        const std::uint32_t constants = maker_.temporary(elements * kConstant);
        keep(whole, elements * kFourBits);
        const std::uint32_t centred = maker_.temporary(elements * kConstant);
        for (std::size_t n = constants_of_each_; n > 0; --n) {
          maker_.stand(buffers_.constants, shards_.constants, constants_);
        }
        maker_.give_up(centred);
        maker_.give_up(constants);
        maker_.give_up(wide);
      }
      keep(whole, others(p));
    }
  }

  void keep(std::vector<Whole>& whole, double bytes) {
    if (bytes >= 1) {
      whole.push_back({maker_.temporary(bytes), bytes});
    }
  }
  void give_up(std::vector<Whole>& whole) {
    for (const Whole& one : whole) {
      maker_.give_up(one.temporary);
    }
    whole.clear();
  }

  // Trainer broadcasts a unit's tensors before FSDP1 flattens it (transformers 5.23.0,
  // training_args.py: sync_module_states; torch 2.15, fsdp/_init_utils.py:60 and :1162): copies of
  // as many as fill a bucket, two buckets at a time (c10d's broadcast_coalesced).
  void broadcast(const std::vector<Whole>& whole) {
    constexpr double kBucket = 250.0 * (1 << 20);
    std::deque<std::uint32_t> sent;
    double filled = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      filled += whole[i].bytes;
      if (filled < kBucket && i + 1 < whole.size()) {
        continue;
      }
      sent.push_back(maker_.temporary(filled));
      filled = 0;
      if (sent.size() == 2) {
        maker_.give_up(sent.front());
        sent.pop_front();
      }
    }
    for (const std::uint32_t one : sent) {
      maker_.give_up(one);
    }
  }

  // FSDP1 (torch 2.15, fsdp/_init_utils.py:977, _move_module_to_device; fsdp/_flat_param.py:893,
  // flatten_tensors, and :1136, _get_shard): a unit's parameters, the flat one beside them, the
  // shard beside both.
  void flatten(const Wrap& w, std::vector<Whole>& whole) {
    if (!whole.empty()) {
      broadcast(whole);
    } else {
      for (const std::size_t u : w.units) {
        for (const Array& a : stage_.units[static_cast<std::size_t>(w.chunk)][u].passes->arrays) {
          keep(whole, static_cast<double>(a.elements) * standing_width(stage_.plan, a.cast));
        }
      }
      keep(whole, frozen_whole(w));
    }
    const std::uint32_t flat = maker_.temporary(trained_whole(stage_, w) + frozen_whole(w));
    stand(w);
    maker_.give_up(flat);
    give_up(whole);
  }

  // FSDP2 gives up whole parameters once all are sharded.
  void shard(const Wrap& w) { stand(w); }

  void stand(const Wrap& w) {
    if (w.elements.total() > 0) {
      maker_.stand(buffers_.trained, shards_.trained, trained_);
    }
    if (w.frozen_bytes > 0) {
      for (std::size_t n = stage_.plan.parameter_gather.flat ? 1 : frozen_tensors(w); n > 0; --n) {
        maker_.stand(buffers_.frozen, shards_.frozen, frozen_);
      }
    }
  }

 public:
  std::size_t frozen_tensors(const Wrap& w) const { return frozen_of(stage_, w).size(); }
  // Shards of a wrap's frozen tensors: 4-bit weights one by one, and what is not quantised.
  static std::vector<std::int64_t> frozen_of(const Stage& stage, const Wrap& w) {
    const double ranks = sharing(stage.plan, false).shards;
    std::vector<std::int64_t> out;
    for (const std::size_t u : w.units) {
      const Parameters& p = parameters_of(stage, w, u);
      for (const std::int64_t weight : p.quantised) {
        out.push_back(whole_of(static_cast<double>(weight) * kFourBits / ranks));
      }
      if (others(p) >= ranks) {
        out.push_back(whole_of(others(p) / ranks));
      }
    }
    return out;
  }

 private:
  Stage& stage_;
  const Shards& shards_;
  const ShardBuffers& buffers_;
  Maker maker_;
  std::vector<std::vector<Whole>> whole_;  // by wrap: what stands whole until it is sharded
  std::size_t constants_of_each_ = 1;
  std::uint32_t trained_ = 0, frozen_ = 0, constants_ = 0;
};

// Parameters whose shards stand on the device, each in its wrap.
bool by_wraps(const Stage& stage) {
  const strategy::Plan& plan = stage.plan;
  const bool cut =
      plan.data_comm == strategy::DataComm::shard_all ||
      (plan.data_comm == strategy::DataComm::shard_grads && plan.parameter_gather.zero2_by_units);
  const auto elsewhere = [](const Wrap& w) {
    return w.outside > 0 || w.tiled > 0 || w.persistent > 0;
  };
  return wraps(stage) && cut && sharing(plan, false).shards > 1 && stage.sharded.chunks.empty() &&
         stage.sharded.pages.empty() && plan.offload.parameters.share() == 0 &&
         std::none_of(stage.sharded.wraps.begin(), stage.sharded.wraps.end(), elsewhere);
}

}  // namespace

bool makes_flat_units(const Stage& stage) {
  return by_wraps(stage) && stage.plan.parameter_gather.flat;
}

bool makes_quantised(const Stage& stage) {
  if (!by_wraps(stage) || !stage.plan.parameter_gather.whole_block_constants) {
    return false;
  }
  for (const auto& chunk : stage.units) {
    for (const Unit& u : chunk) {
      if (!u.passes->parameters.quantised.empty()) {
        return true;
      }
    }
  }
  return false;
}

Shards shards_of_wraps(const Stage& stage) {
  Shards out;
  const bool flat = stage.plan.parameter_gather.flat;
  for (const Wrap& w : stage.sharded.wraps) {
    if (flat && !stage.plan.parameter_gather.wraps_adapters && w.elements.total() > 0) {
      out.trained.push_back(whole_of(trained_shard(stage, w)));
    }
    if (flat && w.frozen_bytes > 0) {
      out.frozen.push_back(whole_of(frozen_shard(stage, w.frozen_bytes, w.frozen_experts)));
    } else if (!flat) {
      const std::vector<std::int64_t> frozen = ModelMaker::frozen_of(stage, w);
      out.frozen.insert(out.frozen.end(), frozen.begin(), frozen.end());
    }
  }
  double weights = 0;
  for (const auto& chunk : stage.units) {
    for (const Unit& u : chunk) {
      for (const std::int64_t weight : u.passes->parameters.quantised) {
        weights += static_cast<double>(weight);
      }
    }
  }
  for (const auto& chunk : stage.units) {
    for (const Unit& u : chunk) {
      for (const std::int64_t weight : u.passes->parameters.quantised) {
        const auto elements = static_cast<double>(weight);
        const double all = static_cast<double>(stage.parameters.whole_frozen) * elements / weights;
        const double narrow = elements * kConstantIn8Bits;
        const bool twice = quantised_twice(all, elements);
        out.constants.push_back(whole_of(twice ? narrow : all));
        if (twice) {
          out.constants.push_back(whole_of(all - narrow));
        }
      }
    }
  }
  return out;
}

void note_making(Stage& stage, const Shards& shards, const ShardBuffers& buffers) {
  ModelMaker(stage, shards, buffers).make();
}

}  // namespace stepcast::lower
