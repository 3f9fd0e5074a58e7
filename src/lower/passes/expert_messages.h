// Messages that bring tokens to their experts and back, by dispatcher.
#pragma once

#include "pass_state.h"
#include "stepcast/model/experts.h"

namespace stepcast::lower {

class ExpertMessages {
 public:
  explicit ExpertMessages(PassState& state);

  // Towards the experts travel tokens in the forward pass, gradients of their results in the
  // backward pass. `op`: by whose name the messages go. `kind`: whether the compute stream waits
  // for each (collective) or at the next join (async); an all-gather dispatcher's are always waited
  // for.
  void to_experts(const model::Operator& op, bool gradients,
                  Item::Kind kind = Item::Kind::collective);
  // Back from the experts travel their results in the forward pass, gradients of their inputs in
  // the backward pass.
  void from_experts(const model::Operator& op, bool gradients,
                    Item::Kind kind = Item::Kind::collective);

  // How many copies each rank has for each expert, which dispatchers of copies ask beforehand.
  void gather_counts(const std::string& label);

  // Bytes that this rank receives in the dispatch, or gets back behind the experts.
  std::int64_t received_bytes(bool dispatch) const;

 private:
  void gather_tokens(const std::string& label, bool gradients);
  void sum_tokens(const std::string& label, bool gradients);
  void share_probabilities(cost::Collective op, const std::string& label, Item::Kind kind);
  void share_among_tensor_ranks(cost::Collective op, const std::string& label, Item::Kind kind);
  bool with_probabilities() const;  // copies travel with them
  bool narrow() const;              // tokens are dispatched in FP8
  // `narrow`: in FP8, where the job's dispatch is.
  void send(const std::string& label, Item::Kind kind, bool narrow = false);
  void send_copies(std::int64_t bytes, const std::string& label, Item::Kind kind);
  void send_probabilities(const std::string& label, Item::Kind kind);
  void send_tokens(const std::string& label, Item::Kind kind, bool narrow);
  std::int64_t token_bytes(std::int64_t rows) const;
  std::int64_t in_fp8(std::int64_t bytes) const;  // of a tensor that has `bytes` as activations
  std::int64_t probability_bytes(std::int64_t rows) const;  // one a row
  std::int64_t chosen_bytes() const;                        // of every gathered token and expert

  PassState& state_;
  Dispatcher dispatcher_;
  model::ExpertRows rows_;
};

}  // namespace stepcast::lower
