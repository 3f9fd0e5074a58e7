#include "passes_loss.h"

#include <algorithm>

#include "pass_feature.h"
#include "passes_tensor_grid.h"

namespace stepcast::lower {
namespace {

using model::Operator;

constexpr std::int64_t kLogitWidth = 4;  // bytes of fp32, in which the model's eager loss stands

Bytes times(Bytes bytes, std::int64_t n) { return Bytes(bytes.count() * n); }

// Logits of which the loss keeps one number each, of `width` bytes.
std::int64_t logits_of(const Operator& loss, std::int64_t width = kLogitWidth) {
  std::int64_t bytes = 0;
  for (const model::Saved& saved : loss.saved) {
    bytes += saved.bytes.count();
  }
  return bytes / width;
}

std::int64_t logits_of_log_softmax(const Operator& loss) {
  for (const model::Saved& saved : loss.saved) {
    if (saved.name == "log_softmax") {
      return saved.bytes.count() / kLogitWidth;
    }
  }
  return 0;
}

// DTensor's loss parallel (torch 2.15, distributed/tensor/parallel/loss.py), beside the fp32 logits
// that it reads: forward (_log_softmax), the shifted logits with their exponentials or the result;
// back (_nll_loss_and_log_softmax_backward), zeros with the likelihood's gradient and exponentials
// beside their sum, whose product with the loss's gradient takes the exponentials' place.
void shard_logits(Operator& loss, std::int64_t logits) {
  loss.forward_temporary = Bytes(kLogitWidth * logits);
  loss.backward_temporary = Bytes(2 * kLogitWidth * logits);
  loss.largest_temporary = Bytes(kLogitWidth * logits);
}

// The same, compiled (recorded step titan03-compiled-tp4-l8-whole-loss of tests/oracle): the
// maximum and the sum are kernels that read the logits. Between collectives zeros are written, in
// which labels are marked, then, of these and the logits, what the backward pass needs, in fp32.
void shard_compiled_logits(Operator& loss, std::int64_t width) {
  const std::int64_t logits = logits_of(loss, width);
  const Bytes wide(kLogitWidth * logits);
  loss.saved = {{"probabilities", wide, loss.saved.front().storage}};
  loss.forward_temporary = wide;
  loss.forward_moved = Bytes((3 * width + 3 * kLogitWidth) * logits);
  loss.backward_moved = Bytes((kLogitWidth + width) * logits);
  loss.forward_kernels = 6;
}

// DeepSpeed's fp16 engine halves the module and runs without autocast. (Published peaks of Qwen
// grow by 5 to 8 bytes a logit under it; under bf16 by 12 to 16, as an fp32 loss has it.)
// Log-softmax and both gradients in the logits' format, beside the copy of the logits that leaves
// out the last token (transformers' shift_logits).
void narrow_logits(Operator& loss, std::int64_t width) {
  const std::int64_t logits = logits_of(loss);
  for (model::Saved& saved : loss.saved) {
    saved.bytes = Bytes(saved.bytes.count() / kLogitWidth * width);
  }
  loss.forward_moved = Bytes(4 * width * logits);
  loss.backward_moved = Bytes(5 * width * logits);
  loss.forward_temporary = Bytes(width * logits);
  loss.backward_temporary = Bytes(width * logits);
}

// Rows of logits of a sequence that have a loss of their own (litgpt 0.5.11, utils.py:312,
// finetune/lora.py:352).
constexpr std::int64_t kLossRows = 128;

// Chunks of so many rows have losses of their own (litgpt 0.5.11, utils.py:350:
// chunked_cross_entropy). Past 4,096 chunks several are one tensor, which bounds what a forecast
// has to hold.
void divide_rows(const model::OperatorGraph& head, Operator& loss, std::int64_t columns,
                 std::int64_t rows) {
  constexpr std::int64_t kMostParts = 4096;
  std::uint32_t storage = 0;
  for (const Operator& op : head.operators) {
    for (const model::Saved& saved : op.saved) {
      storage = std::max(storage, saved.storage);
    }
  }
  std::vector<model::Saved> parts;
  for (const model::Saved& saved : loss.saved) {
    const std::int64_t most =
        saved.name == "log_softmax"
            ? std::max(kLogitWidth * columns * rows, saved.bytes.count() / kMostParts)
            : saved.bytes.count();
    for (std::int64_t rest = saved.bytes.count(); rest > 0; rest -= most) {
      model::Saved part = saved;
      part.bytes = Bytes(std::min(rest, most));
      part.storage = rest == saved.bytes.count() ? saved.storage : ++storage;
      parts.push_back(part);
    }
  }
  loss.saved = std::move(parts);
}

std::uint32_t unused_storage(const model::OperatorGraph& head) {
  std::uint32_t last = 0;
  for (const Operator& op : head.operators) {
    for (const model::Saved& saved : op.saved) {
      last = std::max(last, saved.storage);
    }
  }
  return last + 1;
}

// An operator ahead of the one at `at`, which reads what that read.
void insert_before(model::OperatorGraph& head, std::size_t at, Operator op) {
  for (auto& [from, to] : head.edges) {
    from += static_cast<std::size_t>(from) >= at ? 1 : 0;
    to += static_cast<std::size_t>(to) > at ? 1 : 0;
  }
  head.edges.emplace_back(static_cast<int>(at), static_cast<int>(at) + 1);
  head.operators.insert(head.operators.begin() + static_cast<std::ptrdiff_t>(at), std::move(op));
}

// The logits in fp32, a tensor of its own. PyTorch widens elements one by one.
Operator loss_cast(const Operator& loss, std::int64_t logits, std::int64_t width) {
  Operator cast;
  cast.name = std::string(kLossCast);
  cast.kind = model::OpKind::elementwise;
  cast.module = loss.module;
  cast.forward_moved = cast.backward_moved = Bytes((width + kLogitWidth) * logits);
  cast.forward_output = Bytes(kLogitWidth * logits);
  if (width < kLogitWidth) {
    cast.forward_singles = {logits, cast.forward_moved.count()};
  }
  return cast;
}

// torch.nn.functional.cross_entropy of logits.float(): the cast is an operator of its own, so that
// back the gradient of the likelihood is given up before the cast one is made. The loop holds the
// 16-bit logits beside the loss.
void cast_apart(model::OperatorGraph& head, std::size_t at, std::int64_t width) {
  Operator& loss = head.operators[at];
  const std::int64_t logits = logits_of_log_softmax(loss);
  Operator cast = loss_cast(loss, logits, width);
  loss.forward_moved = Bytes(loss.forward_moved.count() - cast.forward_moved.count());
  loss.backward_moved = Bytes(loss.backward_moved.count() - cast.backward_moved.count());
  loss.forward_kernels -= 1;
  loss.backward_kernels -= 1;
  loss.forward_temporary = Bytes(0);
  loss.backward_temporary = loss.largest_temporary = Bytes(kLogitWidth * logits);
  insert_before(head, at, std::move(cast));
}

// The loss of logits[..., :-1, :].contiguous(), a copy that its function holds beside the fp32
// logits (transformers 4.48.3, loss/loss_utils.py:39). Back, the copy's gradient is put into zeros.
void shift_logits(Operator& loss) {
  const Bytes copy(kLogitWidth * logits_of_log_softmax(loss));
  loss.forward_temporary += copy;
  loss.forward_moved += copy * 2;
  loss.backward_moved += copy * 3;
  loss.forward_kernels += 1;
  loss.backward_kernels += 2;
}

// cross_entropy under autocast, of logits that nothing casts: log_softmax is told the format of its
// input, and the likelihood reads an fp32 copy, whose gradient is cast back (torch 2.7,
// ATen/native/LossNLL.cpp: cross_entropy_loss_symint; ATen/autocast_mode.h: nll_loss).
void narrow_log_softmax(model::OperatorGraph& head, std::size_t at, std::int64_t width) {
  Operator& loss = head.operators[at];
  const std::int64_t logits = logits_of_log_softmax(loss);
  const Bytes narrow(width * logits), wide(kLogitWidth * logits);
  const auto streams = [&](std::string_view name, std::int64_t moved, Bytes result) {
    Operator op;
    op.name = std::string(name);
    op.kind = model::OpKind::elementwise;
    op.module = loss.module;
    op.forward_kernels = op.backward_kernels = 1;
    op.forward_moved = op.backward_moved = Bytes(moved);
    op.forward_output = result;
    return op;
  };
  Operator softmax = streams("log_softmax", 3 * width * logits, narrow);
  for (const model::Saved& saved : loss.saved) {
    if (saved.name == "log_softmax") {
      softmax.saved.push_back({"probabilities", narrow, saved.storage});  // their logarithms
    }
  }
  Operator cast = streams(kLossCast, (width + kLogitWidth) * logits, wide);
  cast.forward_singles = {logits, cast.forward_moved.count()};
  loss.saved = {{"input", wide, unused_storage(head)}};
  loss.forward_moved = Bytes(0);
  loss.backward_moved = wide;
  loss.forward_kernels = 1;
  loss.backward_kernels = 2;  // zeros, then one of each row
  loss.forward_temporary = loss.backward_temporary = loss.largest_temporary = Bytes(0);
  insert_before(head, at, std::move(cast));
  insert_before(head, at, std::move(softmax));
}

// Torch's own cross-entropy behind layers of Megatron's kind (parallel_output False): logits are
// gathered, and every tensor rank computes the loss of the whole vocabulary. Pieces arrive one
// behind the other and are joined along the vocabulary in a second tensor, in the logits' format
// (torch 2.15, distributed/_functional_collectives.py:207: all_gather_tensor, torch.cat). Back,
// this rank's slice of the gradient is copied (distributed/tensor/placement_types.py:628).
void gather_logits(model::OperatorGraph& head, std::size_t at, const strategy::Plan& plan) {
  const int tensor = plan.shard.tensor;
  const auto narrow = static_cast<std::int64_t>(bytes_per_element(plan.style.dtype));
  const bool casts =
      narrow < kLogitWidth && !plan.loss_form.wide_output && !plan.style.compiled_loss;
  const bool wide = plan.loss_form.gathers_wide && !plan.style.compiled_loss;
  if (casts && wide) {
    cast_apart(head, at++, narrow);
  }
  const std::int64_t width = wide ? kLogitWidth : narrow;
  Operator& loss = head.operators[at];
  const std::int64_t part = logits_of(loss, plan.style.compiled_loss ? width : kLogitWidth);
  for (model::Saved& saved : loss.saved) {
    saved.bytes = times(saved.bytes, tensor);
  }
  loss.forward_moved = times(loss.forward_moved, tensor);
  loss.backward_moved = times(loss.backward_moved, tensor);
  loss.forward_temporary = times(loss.forward_temporary, tensor);
  loss.backward_temporary = times(loss.backward_temporary, tensor);
  Operator join;
  join.name = std::string(kJoinedLogits);
  join.kind = model::OpKind::elementwise;
  join.module = loss.module;
  join.forward_output = join.forward_temporary = Bytes(width * part * tensor);
  join.forward_moved = Bytes(2 * width * part * tensor);
  join.backward_moved = Bytes(2 * width * part);
  if (casts && !wide) {
    cast_apart(head, at, narrow);
  }
  insert_before(head, at, std::move(join));
}

// A loss in one kernel behind transformers' logits.float() (5.23.0, loss/loss_utils.py:61): it
// writes the gradient over the fp32 copy, of which a narrow one is made back. The model's function
// holds the 16-bit logits until the loss is there. Under autocast they are returned in fp32
// (accelerate 1.15.0, utils/operations.py:902), of which the loop holds the loss alone.
void fuse_behind_cast(model::OperatorGraph& head, std::size_t at, std::int64_t width,
                      bool returns_wide) {
  for (Operator& op : head.operators) {
    std::erase_if(op.saved, [](const model::Saved& s) { return s.name == "logits"; });
  }
  Operator& loss = head.operators[at];
  const std::int64_t logits = loss.saved.front().bytes.count() / width;
  loss.saved = {{"input", Bytes(kLogitWidth * logits), unused_storage(head)}};
  loss.forward_moved = Bytes(loss.forward_moved.count() / width * kLogitWidth);
  loss.backward_moved = Bytes(loss.backward_moved.count() / width * kLogitWidth);
  loss.forward_temporary = Bytes(returns_wide ? kLogitWidth * logits : 0);
  insert_before(head, at, loss_cast(loss, logits, width));
}

// A model's result that is returned in fp32, as a copy that the loop holds (held_output.cpp): ahead
// of the loss the 16-bit logits are given up. What the cast moves is counted with the loss.
void cast_to_held(model::OperatorGraph& head, std::size_t at) {
  Operator cast;
  cast.name = std::string(kLossCast);
  cast.kind = model::OpKind::elementwise;
  cast.module = head.operators[at].module;
  cast.forward_kernels = cast.backward_kernels = 0;
  insert_before(head, at, std::move(cast));
}

}  // namespace

namespace {

// Metrics of a micro-batch's logits behind the loss, which the trainer reads as the model returned
// them: under autocast an fp32 copy (accelerate 1.15.0, utils/operations.py:902). Of several
// sequences the logits but each last position's are another (TRL 1.0.0,
// trainer/sft_trainer.py:1333). The entropy goes by chunks of 128 rows: log_softmax, exponentials,
// their product, its sum and negation (trainer/utils.py:570).
void add_logit_metrics(model::OperatorGraph& head, const strategy::Plan& plan) {
  const auto loss =
      std::find_if(head.operators.begin(), head.operators.end(),
                   [](const Operator& op) { return op.kind == model::OpKind::cross_entropy; });
  if (plan.loss_form.logit_metrics == LogitMetrics::none || loss == head.operators.end()) {
    return;
  }
  constexpr std::int64_t kRows = 128;
  const auto made = static_cast<std::int64_t>(bytes_per_element(plan.style.dtype));
  const bool returns_wide = plan.style.autocast || plan.style.autocasts_units;
  const std::int64_t width = returns_wide ? kLogitWidth : made;
  const std::int64_t tokens =
      plan.shard.sequences * plan.shard.sequence_length / std::max(1, plan.shard.context);
  const std::int64_t logits = tokens * plan.vocab / plan.shard.tensor;
  const bool copies = plan.shard.sequences > 1;
  const std::int64_t returned = width > made ? width * logits : 0;
  const bool entropy = plan.loss_form.logit_metrics == LogitMetrics::entropy;
  loss->forward_moved +=
      Bytes((returned > 0 ? made + width : 0) * logits + (copies ? 3 : 1) * width * logits +
            (entropy ? 8 * width * logits : 0));
  loss->forward_kernels +=
      2 + (copies ? 1 : 0) + (entropy ? 5 * static_cast<int>((tokens + kRows - 1) / kRows) : 0);
  // Ahead of them go the loss's own fp32 copy and, where the model returns another, what that was
  // cast from, which the loss holds up to here.
  const bool cast = loss != head.operators.begin() && std::prev(loss)->name == kLossCast;
  const std::int64_t given_up =
      (cast ? kLogitWidth * logits : 0) + (returned > 0 ? made * logits : 0);
  const Bytes stands(returned + (copies ? width * logits : 0) - given_up);
  loss->forward_temporary = std::max(loss->forward_temporary, stands);
  if (loss->largest_temporary.count() == 0) {
    loss->largest_temporary = Bytes(width * logits);
  }
}

auto loss_of(model::OperatorGraph& head) {
  return std::find_if(head.operators.begin(), head.operators.end(),
                      [](const Operator& op) { return op.kind == model::OpKind::cross_entropy; });
}

model::OperatorGraph with_loss_alone(model::OperatorGraph head, const strategy::Plan& plan) {
  const auto loss = loss_of(head);
  if (loss == head.operators.end()) {
    return head;
  }
  const auto width = static_cast<std::int64_t>(bytes_per_element(plan.style.dtype));
  if (plan.loss_form.wide_output) {  // it reads the held copy, and makes none
    std::erase_if(loss->saved, [](const model::Saved& s) { return s.name == "logits"; });
    if (plan.loss_form.kernel == LossKernel::fused) {
      // The held copy becomes its gradient; the 16-bit logits go once they are cast, and have a
      // gradient of their own.
      std::erase_if(loss->saved, [](const model::Saved& s) { return s.name == "logits_grad"; });
      loss->gradient = Operator::Gradient::own;
      for (Operator& op : head.operators) {
        std::erase_if(op.saved, [](const model::Saved& s) { return s.name == "logits"; });
      }
      cast_to_held(head, static_cast<std::size_t>(loss - head.operators.begin()));
      return head;
    }
    if (plan.loss_form.kernel == LossKernel::chunk_list) {
      divide_rows(head, *loss, plan.vocab / plan.shard.tensor, kLossRows * plan.shard.sequences);
      cast_to_held(head, static_cast<std::size_t>(loss - head.operators.begin()));
      return head;
    }
    if (plan.loss_form.kernel == LossKernel::eager) {
      loss->forward_temporary = Bytes(0);
      // The log-softmaxes of chunks go as their gradients come, which are joined.
      loss->backward_temporary = Bytes((kLogitWidth - width) * logits_of(*loss));
      divide_rows(head, *loss, plan.vocab / plan.shard.tensor, kLossRows);
      if (plan.loss_form.shifts && plan.shard.sequences > 1) {  // of one sequence it is a view
        shift_logits(*loss);
      }
    }
  }
  if (plan.loss_form.kernel == LossKernel::fused && plan.loss_form.widens_first &&
      width < kLogitWidth) {
    fuse_behind_cast(head, static_cast<std::size_t>(loss - head.operators.begin()), width,
                     plan.style.autocast || plan.style.autocasts_units);
    return head;
  }
  if (plan.loss_form.wide_logits &&
      !plan.style.compiled_loss) {  // the cast copy, for which the 16-bit logits are given up
    loss->forward_temporary =
        Bytes(loss->forward_temporary.count() + (kLogitWidth - width) * logits_of(*loss));
  }
  if (plan.loss_form.kernel == LossKernel::output_chunks) {
    const bool compiled = logits_of_log_softmax(*loss) == 0;
    for (std::size_t i = head.operators.size(); i-- > 0 && !compiled && width < kLogitWidth;) {
      if (head.operators[i].kind == model::OpKind::cross_entropy) {
        cast_apart(head, i, width);
      }
    }
    return head;
  }
  const bool compiled = plan.style.compiled_loss && plan.loss_form.kernel == LossKernel::eager;
  if (plan.loss_form.narrow_log_softmax && !compiled && width < kLogitWidth) {
    narrow_log_softmax(head, static_cast<std::size_t>(loss - head.operators.begin()), width);
    return head;
  }
  switch (plan.loss_form.eager) {
    case EagerLoss::as_built:
      if (!compiled && plan.loss_form.kernel == LossKernel::eager && !plan.loss_form.wide_output &&
          width < kLogitWidth) {
        const auto at = static_cast<std::size_t>(loss - head.operators.begin());
        cast_apart(head, at, width);
        if (plan.loss_form.shifts && plan.shard.sequences > 1) {  // of one sequence it is a view
          shift_logits(head.operators[at + 1]);
        }
      }
      break;
    case EagerLoss::gathers_logits:
      gather_logits(head, static_cast<std::size_t>(loss - head.operators.begin()), plan);
      break;
    case EagerLoss::shards_logits: {
      if (compiled) {
        shard_compiled_logits(*loss, width);
        break;
      }
      const std::int64_t logits = logits_of_log_softmax(*loss);
      const auto at = static_cast<std::size_t>(loss - head.operators.begin());
      if (width < kLogitWidth && !plan.loss_form.wide_output) {
        cast_apart(head, at, width);
        shard_logits(head.operators[at + 1], logits);
      } else {
        shard_logits(*loss, logits);
      }
      break;
    }
    case EagerLoss::narrow_under_fp16:
      if (!compiled) {
        narrow_logits(*loss, width);
      }
      break;
  }
  return head;
}

// AOTAutograd gives a graph's backward pass a gradient of each result: zeros, of logits that nobody
// differentiates. An fp32 copy is made behind the loss; the logits themselves then take their
// gradient (tests/oracle: trainer-compiled*, ddp-compiled*).
void return_logits(model::OperatorGraph& head, const strategy::Plan& plan) {
  const auto loss = loss_of(head);
  if (!plan.loss_form.returns_logits || loss == head.operators.end()) {
    return;
  }
  const auto width = static_cast<std::int64_t>(bytes_per_element(plan.style.dtype));
  const bool wide = plan.loss_form.widens_returned && width < kLogitWidth;
  const Bytes returned((wide ? kLogitWidth : width) * logits_of(*loss, width));
  loss->backward_temporary += returned;
  loss->largest_temporary = std::max(loss->largest_temporary, returned);
  if (wide) {
    loss->forward_temporary += returned;
  }
  if (!plan.parameter_gather.by_units) {
    loss->gradient = Operator::Gradient::in_kept;
  }
}

}  // namespace

model::OperatorGraph with_loss(model::OperatorGraph head, const strategy::Plan& plan) {
  head = with_loss_alone(std::move(head), plan);
  return_logits(head, plan);
  add_logit_metrics(head, plan);
  return head;
}

namespace {

// The loss over tensor ranks that each hold a part of the vocabulary, or gather it.
class LossCollectives : public PassFeature {
 public:
  explicit LossCollectives(PassState& state)
      : state_(state), gathers_(state.plan.loss_form.eager == EagerLoss::gathers_logits) {}

  void before_forward(std::size_t i) override {
    if (state_.graph.operators[i].name == kJoinedLogits) {
      const std::int64_t bytes = state_.graph.operators[i].forward_output.count();
      collective(state_, {kTensor, cost::Collective::all_gather, bytes, program::Category::tensor,
                          "logits"});
    }
  }

  // Vocab-parallel loss: maximum, predicted logit and sum of exponentials, one fp32 a token each.
  void after_forward(std::size_t i) override {
    const model::Shard& shard = state_.plan.shard;
    const LossKernel kernel = state_.plan.loss_form.kernel;
    const int chunks = kernel == LossKernel::chunked ? kLossChunks : 1;  // each on its own
    const int losses = kernel == LossKernel::output_chunks ? kLossChunks : chunks;
    const std::int64_t bytes =
        4 * shard.sequences * shard.sequence_length / std::max(1, shard.context) / losses;
    if (!is_loss(i) || gathers_) {
      return;
    }
    const strategy::LossForm& form = state_.plan.loss_form;
    if (form.gathered_statistics > 0) {
      gather_statistics(bytes, state_.graph.operators[i].name);
    } else if (kernel == LossKernel::vocab_parallel_fused) {
      // The predicted logit and the sum travel together (megatron-core 0.14.0,
      // fusions/fused_cross_entropy.py:119).
      sum(1, bytes, state_.graph.operators[i].name);
      sum(1, 2 * bytes, state_.graph.operators[i].name);
    } else {
      sum(3 * chunks, bytes, state_.graph.operators[i].name);
    }
    if (form.metrics_in_forward > 0) {
      // The metrics' own losses, then accuracy and perplexity: maximum, predicted logit, sum of
      // exponentials (InternEvo 0.4.9, model/metrics.py:95, 114, 148, 156).
      gather_statistics(bytes, "metrics");
      sum(3, bytes, "metrics");
    }
  }

 private:
  void sum(int times, std::int64_t bytes, const std::string& label) {
    for (int n = 0; n < times; ++n) {
      collective(state_,
                 {kTensor, cost::Collective::all_reduce, bytes, program::Category::tensor, label});
    }
  }

  // A fused loss: each rank's statistics of a token; flash-attn's then adds up the parts of the
  // losses.
  void gather_statistics(std::int64_t bytes, const std::string& label) {
    const int statistics = std::max(1, state_.plan.loss_form.gathered_statistics);
    collective(state_,
               {kTensor, cost::Collective::all_gather,
                bytes * statistics * state_.plan.shard.tensor, program::Category::tensor, label});
    if (statistics == 1) {
      sum(1, bytes, label);
    }
  }

  bool is_loss(std::size_t i) const {
    const Operator& op = state_.graph.operators[i];
    return op.kind == model::OpKind::cross_entropy && op.module == model::Module::head;
  }

  PassState& state_;
  bool gathers_;
};

}  // namespace

// A grid of tensor ranks reduces along its own sides (passes_tensor_grid.cpp).
std::unique_ptr<PassFeature> make_loss(PassState& state) {
  const bool parallel = state.plan.shard.tensor > 1 && !on_grid(state.plan);
  return parallel ? std::make_unique<LossCollectives>(state) : nullptr;
}

}  // namespace stepcast::lower
