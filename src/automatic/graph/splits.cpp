#include "splits.h"

namespace stepcast::automatic {
namespace {

using model::ExpertRole;
using model::Operator;
using model::OpKind;
using model::TensorRole;

}  // namespace

Cut input_of(Split s) {
  switch (s) {
    case Split::replicate:
    case Split::column:
      return Cut::whole;
    case Split::batch:
    case Split::dispatch_batch:
      return Cut::batch;
    case Split::sequence:
    case Split::column_gather:
    case Split::dispatch_sequence:
      return Cut::sequence;
    case Split::row:
    case Split::row_scatter:
    case Split::feature:
      return Cut::feature;
    case Split::expert:
    case Split::combine_batch:
    case Split::combine_sequence:
      return Cut::expert;
  }
  return Cut::whole;
}

Cut output_of(Split s) {
  switch (s) {
    case Split::replicate:
    case Split::row:
      return Cut::whole;
    case Split::batch:
    case Split::combine_batch:
      return Cut::batch;
    case Split::sequence:
    case Split::row_scatter:
    case Split::combine_sequence:
      return Cut::sequence;
    case Split::column:
    case Split::column_gather:
    case Split::feature:
      return Cut::feature;
    case Split::expert:
    case Split::dispatch_batch:
    case Split::dispatch_sequence:
      return Cut::expert;
  }
  return Cut::whole;
}

Cut other_input_of(Split s) {
  return s == Split::combine_batch || s == Split::combine_sequence ? output_of(s) : input_of(s);
}

bool divides_work(Split s) { return s != Split::replicate; }

bool divides_parameters(Split s) {
  return s == Split::column || s == Split::column_gather || s == Split::row ||
         s == Split::row_scatter || s == Split::expert;
}

bool sums_gradients(Split s) { return s == Split::batch || s == Split::sequence; }

std::vector<Split> splits_of(const Operator& op) {
  const std::vector<Split> tokens = {Split::replicate, Split::batch, Split::sequence};
  const auto with = [&](std::vector<Split> more) {
    more.insert(more.begin(), tokens.begin(), tokens.end());
    return more;
  };
  if (op.expert == ExpertRole::dispatch) {
    return with({Split::dispatch_batch, Split::dispatch_sequence});
  }
  if (op.expert == ExpertRole::combine) {
    return with({Split::combine_batch, Split::combine_sequence});
  }
  const bool experts = op.module == model::Module::moe;
  switch (op.kind) {
    case OpKind::gemm:
      return op.gemm ? with({Split::column, Split::column_gather, Split::row, Split::row_scatter})
                     : tokens;
    case OpKind::grouped_gemm:
      return with({Split::expert, Split::column, Split::row});
    case OpKind::embedding:
      return with({Split::row, Split::row_scatter});
    case OpKind::batched_gemm:
    case OpKind::softmax:
      return experts ? tokens : std::vector<Split>{Split::replicate, Split::batch, Split::feature};
    case OpKind::fused_attention:
    case OpKind::cross_entropy:
      return with({Split::feature});
    case OpKind::norm:
    case OpKind::router:
      return tokens;
    case OpKind::permute:
    case OpKind::fused_permute:
    case OpKind::activation:
    case OpKind::elementwise:
      return experts ? with({Split::feature, Split::expert}) : with({Split::feature});
    case OpKind::rotary:
    case OpKind::dropout:
    case OpKind::residual:
      return with({Split::feature});
  }
  return tokens;
}

bool can_split(const Operator& op, const Splits& splits, const std::array<int, 2>& ranks,
               std::int64_t samples, std::int64_t tokens_each) {
  std::int64_t batch = 1, sequence = 1, in = 1, out = 1, feature = 1, experts = 1;
  for (std::size_t a = 0; a < 2; ++a) {
    const Split s = splits[a];
    if (ranks[a] == 1) {
      if (s != Split::replicate) {
        return false;  // an axis of one rank: one choice is enough
      }
      continue;
    }
    const Cut before = input_of(s);
    const Cut after = output_of(s);
    const auto cuts = [&](Cut c) { return before == c || after == c ? ranks[a] : 1; };
    batch *= cuts(Cut::batch);
    sequence *= cuts(Cut::sequence);
    experts *= cuts(Cut::expert);
    out *= s == Split::column || s == Split::column_gather ? ranks[a] : 1;
    in *= s == Split::row || s == Split::row_scatter ? ranks[a] : 1;
    feature *= s == Split::feature ? ranks[a] : 1;
  }
  if (samples % batch != 0 || tokens_each % sequence != 0) {
    return false;
  }
  if (op.gemm) {
    if (op.gemm->n % out != 0 || op.gemm->k % in != 0) {
      return false;
    }
    if (op.kind == OpKind::grouped_gemm && op.gemm->batch % experts != 0) {
      return false;
    }
  }
  if (op.attention &&
      (op.attention->heads % feature != 0 ||
       (op.attention->kv_heads % feature != 0 && feature % op.attention->kv_heads != 0))) {
    return false;
  }
  return true;
}

}  // namespace stepcast::automatic
