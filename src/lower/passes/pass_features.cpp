#include <array>

#include "pass_feature.h"

namespace stepcast::lower {
namespace {

constexpr auto kPassFeatures = std::to_array<MakeFeature*>({
    make_graphs,            // outermost: it takes the launches of all that the others add
    make_expert_exchange,   // tokens arrive before anything reads them
    make_attention_casts,   //
    make_casts,             // shards are cast before tensor ranks gather them
    make_linear_casts,      //
    make_tensor,            //
    make_tensor_grid,       //
    make_loss,              //
    make_sequence_trade,    //
    make_context_exchange,  // from here on in place of operators
    make_tiles,             //
    make_tensor_chunks,     //
});

}  // namespace

PassFeatures make_features(PassState& state) {
  PassFeatures out;
  for (MakeFeature* make : kPassFeatures) {
    if (auto feature = make(state)) {
      out.push_back(std::move(feature));
    }
  }
  return out;
}

}  // namespace stepcast::lower
