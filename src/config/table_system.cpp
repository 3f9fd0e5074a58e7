#include <fmt/core.h>

#include <algorithm>

#include "hidden_sizes.h"
#include "system_habits.h"
#include "tables.h"

namespace stepcast::config {

using job::System;

namespace {

// Names of strategy::features(), of which `cannot` joins some by '+'.
const std::vector<std::string> kFeatureNames = {
    "data",       "zero1",          "zero2",    "zero3",
    "hsdp",       "zeropp",         "tensor",   "tensor_2d",
    "sequence",   "context",        "ulysses",  "expert",
    "pipeline",   "expert_tensor",  "finetune", "virtual_pipeline",
    "vocabulary", "tensor_overlap", "muon",
};

const std::vector<std::string> kSurvey = {"data",     "sharded",  "tensor",
                                          "pipeline", "sequence", "automatic"};

bool known(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A later layer replaces the whole map, since a system may be able to run what its parent cannot.
Field<System> cannot() {
  return custom<System>(
      "cannot", "What the system cannot run, with the reason: a feature, or several joined by '+'.",
      map_schema(type_schema("string")),
      [](Reader& r, const Value& v, System& s) {
        s.cannot.clear();
        if (v.kind != Value::Kind::map) {
          r.expected(v, "a map of features to reasons");
          return;
        }
        for (const auto& entry : v.entries) {
          std::size_t begin = 0;
          while (begin <= entry.key.size()) {
            const std::size_t end = std::min(entry.key.find('+', begin), entry.key.size());
            const std::string feature = entry.key.substr(begin, end - begin);
            if (!known(feature, kFeatureNames)) {
              r.fault(entry.origin,
                      fmt::format("system.cannot names '{}'; expected a feature{}", shown(feature),
                                  suggestion(feature, kFeatureNames)));
            }
            begin = end + 1;
          }
          Reader::Scope scope(r, entry.key);
          if (const auto reason = read_string(r, entry.value, "the reason")) {
            s.cannot[entry.key] = *reason;
          }
        }
      },
      [](const System& s) {
        Value out = tree::map();
        for (const auto& [feature, reason] : s.cannot) {
          tree::put(out, feature, tree::string(reason));
        }
        return out;
      });
}

Field<System> survey() {
  return custom<System>(
      "survey",
      "The survey's marks for it (its Table 3): data, sharded, tensor, pipeline, sequence, "
      "automatic. Not used by a forecast.",
      map_schema(type_schema("boolean")),
      [](Reader& r, const Value& v, System& s) {
        s.survey.clear();
        if (v.kind != Value::Kind::map) {
          r.expected(v, "a map of marks");
          return;
        }
        for (const auto& entry : v.entries) {
          if (!known(entry.key, kSurvey)) {
            r.unknown(entry, kSurvey);
            continue;
          }
          Reader::Scope scope(r, entry.key);
          if (const auto mark = read_boolean(r, entry.value)) {
            s.survey[entry.key] = *mark;
          }
        }
      },
      [](const System& s) {
        Value out = tree::map();
        for (const auto& [mark, value] : s.survey) {
          tree::put(out, mark, tree::boolean(value));
        }
        return out;
      });
}

Field<System> schedules() {
  return custom<System>(
      "schedules", "The pipeline schedules that the system can run; empty: all.",
      array_schema(type_schema("string")),
      [](Reader& r, const Value& v, System& s) {
        s.schedules.clear();
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of schedules");
          return;
        }
        for (const Value& one : v.items) {
          if (const auto name = read_string(r, one, "a schedule")) {
            s.schedules.push_back(*name);
          }
        }
      },
      [](const System& s) { return tree::strings(s.schedules); });
}

const Words<DType>& narrow_products() {
  static const Words<DType> words =
      some_words({DType::fp8, DType::fp8_block, DType::mxfp8, DType::nvfp4});
  return words;
}

Field<System> narrow_parameters() {
  return custom<System>(
      "narrow_parameters",
      "Formats of products (fp8, fp8_block, mxfp8, nvfp4) under which their weights stand in 8 or "
      "4 bits, where the job does not state memory.dtypes.parameters (fp8_param_gather, "
      "fp4_param_gather).",
      array_schema(type_schema("string")),
      [](Reader& r, const Value& v, System& s) {
        s.narrow_parameters.clear();
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of formats");
          return;
        }
        for (const Value& one : v.items) {
          if (const auto format = read_word(r, one, narrow_products())) {
            s.narrow_parameters.push_back(*format);
          }
        }
      },
      [](const System& s) {
        std::vector<std::string> names;
        for (const DType format : s.narrow_parameters) {
          names.emplace_back(job::to_string(format));
        }
        return tree::strings(names);
      });
}

// Also sets the family's habits (system_habits.cpp).
Field<System> family() {
  Field<System> f = string("family", &System::family,
                           "The framework family whose habits apply where no key states them.");
  f.spec.schema = enum_schema(family_names());
  f.reads([](Reader& r, const Value& v, System& s) {
    const std::vector<std::string> names = family_names();
    if (const auto i = read_word(r, v, names, {"fsdp1"})) {
      s.family = names[*i];
      s.habits = habits_of(s.family);
    }
  });
  return f;
}

}  // namespace

const Table<System>& system_table() {
  static const Table<System> table = {
      string("name", &System::name, "Shown in reports."),
      family(),
      string("generation", &System::generation, "The software generation, for reports."),
      choice("kind", &System::kind,
             Words<System::Kind>{{{"none", System::Kind::none},
                                  {"language_model", System::Kind::language_model},
                                  {"single_strategy", System::Kind::single_strategy},
                                  {"hybrid_parallel", System::Kind::hybrid_parallel},
                                  {"automatic_search", System::Kind::automatic_search}}},
             "The kind of system, as the survey's Table 2 divides them. Not used by a forecast."),
      boolean("fused_norm", &System::fused_norm, "A norm is one kernel."),
      boolean("fused_softmax", &System::fused_softmax,
              "Scale, mask and softmax are one kernel (unfused attention)."),
      integer(
          "fused_softmax_keys", &System::fused_softmax_keys, 0, 1'000'000,
          "Most keys that the kernel of fused_softmax takes, which then also asks for queries, "
          "keys, and sequences times a rank's heads in fours; else separate kernels run; 0: any."),
      boolean("fused_bias_activation", &System::fused_bias_activation,
              "Bias and GeLU, or SwiGLU, are one kernel."),
      boolean("fused_bias_dropout_add", &System::fused_bias_dropout_add,
              "Bias, dropout and residual are one kernel."),
      boolean("fused_rotary", &System::fused_rotary, "Rotary positions are one kernel."),
      boolean("holds_projection", &System::holds_projection,
              "Attention's function holds queries, keys and values as they were ahead of their "
              "rotation until it returns (megatron-core from 0.15 on)."),
      boolean("holds_prediction_logits", &System::holds_prediction_logits,
              "Logits of the last prediction layer stand until the model's own loss is computed "
              "(megatron-core 0.14 to 0.16: a variable of the model's function)."),
      boolean("rotary_tables_anew", &System::rotary_tables_anew,
              "Each layer makes the cosines and sines of its rotary positions, for queries and "
              "again for keys, which autograd keeps (Megatron-LM's own operators)."),
      boolean("rotary_tables", &System::rotary_tables,
              "Each layer keeps a complex number for each position and pair of a head's "
              "dimensions."),
      boolean("keeps_rotary_angles", &System::keeps_rotary_angles,
              "The angles of rotary positions stand in fp32 from the first pass on: a table of "
              "each model chunk."),
      boolean("rotary_caches", &System::rotary_caches,
              "Each layer keeps a cosine and a sine for each position and pair of a head's "
              "dimensions, in the format of its products (flash-attn's RotaryEmbedding)."),
      boolean(
          "complex_rotary", &System::complex_rotary,
          "Rotary embeddings multiply complex numbers, which torch.compile leaves to kernels of "
          "their own."),
      boolean("paired_rotary", &System::paired_rotary,
              "Rotary embeddings that are not one kernel rotate adjacent pairs of a head's "
              "dimensions in fp32 and stack them, queries ahead of the projection to keys "
              "(torchtune); else halves of a head in its own format."),
      boolean("joined_rotary", &System::joined_rotary,
              "Rotary embeddings that are not one kernel join the rotated part of each head with "
              "the rest in a tensor that lies head by head. Attention's result then lies so, and "
              "is copied for the output projection (GPT-NeoX and Phi-3 of Transformers)."),
      boolean("reorders_attention", &System::reorders_attention,
              "Attention's result lies sequence by sequence and the stream position by position: "
              "with several sequences the projection behind it copies it, and both are kept."),
      boolean(
          "copies_keys_values", &System::copies_keys_values,
          "Keys and values of a packed projection are joined in a tensor of their own, in which "
          "they are rotated. Queries are rotated in the projection's copy, which stays whole, or "
          "grouped ones in a copy of their own (nanotron)."),
      boolean("views_latent_values", &System::views_latent_values,
              "Latent attention reads its values in the product that makes keys and values, which "
              "is kept whole until the backward pass; else they are copied (Megatron)."),
      boolean("cuts_experts", &System::cuts_experts,
              "With expert ranks the tensor ranks cut each expert where the job does not state "
              "parallelism.expert_tensor; else an expert is whole there (torchtitan)."),
      boolean("packed_qkv", &System::packed_qkv,
              "One projection for queries, keys and values; Megatron's always is."),
      choice("compile_scope", &System::compile_scope,
             "What kernels.compile gives the compiler at once: layers (each by itself; embedding, "
             "last norm and head are eager), model, or step."),
      choice("compiled_casts", &System::compiled_casts,
             "What torch.compile makes of casts to 8 bits (torchao's linears): kept for the "
             "backward pass with a scale for each tensor (torch 2.7), made again there (2.8, "
             "2.9), or made again through fp32 tensors with a scale for each row (wide: later)."),
      boolean(
          "compiles_loss", &System::compiles_loss,
          "Where kernels.compile is set the loss is compiled as well: no logits stand in fp32."),
      boolean(
          "copied_qkv", &System::copied_qkv,
          "Outside Megatron, too, one projection makes queries, keys and values; each is copied "
          "into a tensor of its own, and the projection's is given up."),
      boolean("unpads_attention", &System::unpads_attention,
              "Around flash attention's package padding is taken out: queries, keys and values are "
              "gathered into tensors of their own, the result is scattered into one of zeros, "
              "padding or none. Not with flash1, which here is Triton's port (llm-foundry)."),
      boolean(
          "packed_gated_mlp", &System::packed_gated_mlp,
          "One linear for both halves of a gated MLP; false: a column-parallel linear each, with "
          "its own collectives."),
      boolean("composed_gelu", &System::composed_gelu,
              "The activation gelu_new is composed of eight kernels, three of whose results are "
              "kept beside its input, and relu2 of two."),
      boolean("transformers_modules", &System::transformers_modules,
              "Models are transformers' own modules: what model.modules says of them holds where "
              "the job does not state the key."),
      boolean("gate_first", &System::gate_first,
              "Of a gated MLP with a linear for each half, the gate's linear and activation run "
              "ahead of the other linear: act(gate(x)) * up(x) in one expression."),
      boolean("wide_norm", &System::wide_norm,
              "An RMS norm that is not one kernel multiplies by its weight in fp32 and keeps the "
              "normed tensor so (torch.nn.RMSNorm before torch 2.9)."),
      boolean(
          "fused_streams", &System::fused_streams,
          "Kernels of several residual streams (model.hyper_connections) are fused: weights, "
          "their normalisations, what a block reads and what it writes are one kernel each, which "
          "keep the streams alone; so is the norm of DeepSeek-V4's query heads (Megatron-Core's "
          "use_fused_mhc)."),
      boolean("scaled_dot_product", &System::scaled_dot_product,
              "Attention is PyTorch's scaled_dot_product_attention: on devices without "
              "FlashAttention it takes CUTLASS's memory-efficient kernel (kernels.attention: "
              "efficient) where other systems compute scores."),
      boolean("prefers_cudnn_attention", &System::prefers_cudnn_attention,
              "PyTorch's attention takes cuDNN's kernel where the job names none, on devices of "
              "compute capability 9 and 10 and without dropout (torch 2.11 and later)."),
      choice("attention_masks", &System::attention_masks,
             "Layers in which PyTorch's attention (scaled_dot_product) is given a mask: the "
             "memory-efficient kernel, or cuDNN's where kernels.attention says so, then computes "
             "all keys and keeps the mask, an element for each query and key of every sequence. "
             "needed: with windows no longer than the sequence and with packed documents, as "
             "transformers; all: in every layer, as for padded batches and for Falcon."),
      boolean("repeats_kv", &System::repeats_kv,
              "Keys and values are copied for every query head before fused attention, which keeps "
              "the copies."),
      boolean("repeats_single_head", &System::repeats_single_head,
              "repeats_kv: a single head of keys and values is copied as well, which others expand "
              "as a view (litgpt 0.5, torch.repeat_interleave)."),
      boolean(
          "autocasts_units", &System::autocasts_units,
          "torch.autocast around sharded units too, which gather parameters in 16 bits: it runs "
          "norms of torch's and powers in fp32, and each product casts what these make."),
      boolean(
          "autocast", &System::autocast,
          "torch.autocast runs products in 16 bits. Where whole parameters are fp32, the residual "
          "stream is fp32, and each product keeps 16-bit copies of its weight and its input; of "
          "16-bit parameters, with transformers_modules, it runs norms of torch's and powers in "
          "fp32."),
      boolean(
          "early_stop", &System::early_stop,
          "A layer that is recomputed whole stops before the last product, whose result nothing "
          "keeps (torch's checkpoint without reentrance)."),
      boolean("reentrant_checkpoints", &System::reentrant_checkpoints,
              "A recomputed layer's backward pass runs inside its checkpoint's own, beside the "
              "layer's input and what it made again of its result (torch's use_reentrant)."),
      boolean(
          "checkpoints_units", &System::checkpoints_units,
          "A layer's checkpoint is around the unit that FSDP wraps: its parameters are given up "
          "behind the recomputed pass and gathered again for the backward pass (transformers "
          "before 4.53)."),
      boolean(
          "checkpoints_blocks", &System::checkpoints_blocks,
          "Where layers are recomputed whole (memory.recompute: full), each norm, the attention "
          "and the MLP of a layer are in checkpoints of their own, whose inputs stay (NeMo "
          "AutoModel's own models)."),
      boolean("unties_embeddings", &System::unties_embeddings,
              "Embedding and output layer are weights of their own, also of models that tie them "
              "(model.tied_embeddings)."),
      boolean("loads_as_stored", &System::loads_as_stored,
              "Weights are trained in the format of their checkpoint (model.checkpoint; 16 bits of "
              "either kind are those of workload.precision), unless the job states "
              "memory.dtypes.parameters (transformers 5: from_pretrained's dtype is \"auto\")."),
      boolean(
          "widens_shards", &System::widens_shards,
          "Beside mixed precision, sharded weights that are trained become fp32, unless the job "
          "states memory.dtypes.parameters (Accelerate under FSDP)."),
      boolean("casts_adapter_inputs", &System::casts_adapter_inputs,
              "Each low-rank adapter keeps a copy of its input, cast for it alone (PEFT, whose "
              "adapters are fp32)."),
      boolean("input_gradients", &System::input_gradients,
              "Gradients are computed below the first adapter too, of the embedding's result, as "
              "PEFT's models ask (enable_input_require_grads)."),
      boolean("parted_adapters", &System::parted_adapters,
              "A packed projection that is adapted as a whole has a pair of matrices for each of "
              "queries, keys and values (litgpt), not one."),
      choice("quantizer", &System::quantizer,
             "qlora: who puts 4-bit modules in the place of linears. hugging_face: all but the "
             "head; lightning: Fabric's plugin, the head too, from fp16, so that bf16 products "
             "cast what was dequantised; stable_embedding: as lightning, with litgpt's embedding "
             "beside the frozen one, whose gradient stands."),
      boolean("quantized_inputs", &System::quantized_inputs,
              "Products with 4-bit weights keep their inputs (bitsandbytes before 0.43.2)."),
      boolean("fused_optimizer", &System::fused_optimizer,
              "The optimizer updates many tensors in one kernel."),
      boolean("foreach_optimizer", &System::foreach_optimizer,
              "Each operation of AdamW's step runs over all tensors and makes a list of "
              "temporaries (torch's foreach); false: the step is one kernel per chunk."),
      boolean(
          "foreach_denominator", &System::foreach_denominator,
          "foreach_optimizer makes two lists of temporaries, the roots of second moments and the "
          "denominators (torch before 2.1)."),
      boolean("norm_copies_gradients", &System::norm_copies_gradients,
              "The gradient norm is taken of fp32 copies of all narrow gradients, which live "
              "together."),
      optional_boolean(
          "precision_aware_optimizer", &System::precision_aware_optimizer,
          "The optimizer reads narrow gradients as they are, without fp32 copies "
          "(Megatron-LM, --use-precision-aware-optimizer); null: where its moments are "
          "narrower than fp32, under Transformer Engine."),
      boolean("gradient_accumulation_fusion", &System::gradient_accumulation_fusion,
              "The weight-gradient GEMM adds into the main gradient."),
      boolean("transformer_engine", &System::transformer_engine,
              "Layers come from Transformer Engine, which has a GEMM workspace of its own."),
      size_or_auto("bucket_elements", &System::bucket_elements,
                   "Gradient bucket size in parameters; 0: max(40e6, 1e6 * data) as Megatron; "
                   "auto: hidden^2, which transformers puts for DeepSpeed's auto."),
      quantity("bucket_bytes", &System::bucket_bytes, false,
               "Gradient bucket size in bytes; 0: bucket_elements states it."),
      quantity("first_bucket_bytes", &System::first_bucket_bytes, false,
               "Size of the first bucket; 0: as the others."),
      boolean("bucket_first_stage_only", &System::bucket_first_stage_only,
              "Only pipeline rank 0's first chunk has several buckets."),
      integer("sharded_bucket_elements", &System::sharded_bucket_elements, 0, 1'000'000'000'000'000,
              "Bucket size of zero1 and zero2 in parameters; 0: as without sharding."),
      boolean("keeps_pass_gradients", &System::keeps_pass_gradients,
              "16-bit gradients of a micro-batch are added to wider main ones once its backward "
              "pass is over, and stand until then."),
      boolean(
          "narrow_buckets", &System::narrow_buckets,
          "Without sharding, DistributedDataParallel's buckets of 16-bit gradients stand beside "
          "the wider main gradients, which are what travels."),
      boolean("gathers_for_each_optimizer", &System::gathers_for_each_optimizer,
              "With zero1 and experts, dense and expert parameters have an optimizer each, and "
              "each gathers both behind its step where overlap.param_gather is false."),
      boolean("whole_block_constants", &System::whole_block_constants,
              "Where units are sharded, the constants of 4-bit blocks stay whole on every rank and "
              "are not gathered (bitsandbytes); false: they are sharded with the weights."),
      boolean("shared_expert_streams", &System::shared_expert_streams,
              "Where shared experts overlap the dispatch, each layer's have a stream of their own, "
              "for which cuBLAS has workspaces; false: all layers' share one."),
      boolean("keeps_router_graph", &System::keeps_router_graph,
              "A layer of experts keeps its router's probabilities from pass to pass: where it is "
              "recomputed, the checkpoint's input and that input's gradient stand with them."),
      boolean("broadcasts_buffers", &System::broadcasts_buffers,
              "Ahead of a forward pass whose gradients are reduced, rank 0 broadcasts the module's "
              "buffers, which are frequencies of rotary embeddings (DDP's broadcast_buffers)."),
      boolean("data_on_default_group", &System::data_on_default_group,
              "Data-parallel collectives of all ranks run on the default process group; else that "
              "is a communicator beside theirs."),
      integer("sum_groups", &System::sum_groups, 0, 16,
              "Further groups of the data-parallel ranks for sums of tokens and losses, each a "
              "communicator where those are not all ranks."),
      boolean("gradient_bucket_view", &System::gradient_bucket_view,
              "Gradients live in the buckets (DDP's gradient_as_bucket_view)."),
      boolean("flat_parameters", &System::flat_parameters,
              "A fully sharded unit is one flat parameter: nothing is copied in or out (FSDP1)."),
      boolean(
          "wraps_ends", &System::wraps_ends,
          "Embedding and head are sharded units of their own; else both are the root unit, which "
          "stays whole from forward to backward and is reduced behind the last layer."),
      boolean("joins_tied_or_frozen_ends", &System::joins_tied_or_frozen_ends,
              "Embedding and head that share a table, or do not train, are part of the root unit "
              "all the same (NeMo AutoModel)."),
      boolean("keeps_head", &System::keeps_head,
              "A head that is a sharded unit of its own stays whole from forward to backward."),
      boolean("keeps_last_layer", &System::keeps_last_layer,
              "The last layer's parameters stay whole from forward to backward."),
      boolean("wraps_alone", &System::wraps_alone,
              "Fully sharded units are made on a single data-parallel rank as well, which sends "
              "nothing and casts their parameters and gradients (FSDP2)."),
      boolean("norm_in_root", &System::norm_in_root,
              "Where embedding and head are units of their own, the final norm is none of them: it "
              "stays whole in the root, which is gathered and reduced by itself."),
      boolean("holds_previous_gather", &System::holds_previous_gather,
              "In the forward pass a unit's gathered buffer stands until the next unit has been "
              "copied out of its own (FSDP2 up to torch 2.14); false: until that copy begins."),
      boolean("wraps_adapters", &System::wraps_adapters,
              "Each matrix of an adapter is a sharded unit of its own, apart from the frozen base, "
              "which has no gradient (PEFT's fsdp_auto_wrap_policy)."),
      boolean("original_parameters", &System::original_parameters,
              "A flat parameter's optimizer works on views of it (FSDP1's use_orig_params): its "
              "sharded gradient is given up in the next forward pass, not behind the step."),
      boolean("clears_output", &System::clears_output,
              "The training loop gives the result of wide_output up ahead of the backward pass, so "
              "that it stands until the loss's gradient is made, not until the next result."),
      boolean("wide_output", &System::wide_output,
              "The model's result is returned as an fp32 copy, which the training loop holds until "
              "it has the next one of the step (Lightning Fabric's convert_output), or until the "
              "next step's where it holds logits."),
      boolean("shifted_logits", &System::shifted_logits,
              "An eager loss reads a copy of the fp32 logits that leaves out the last position's "
              "(transformers before 4.50)."),
      boolean(
          "ignores_softcap", &System::ignores_softcap,
          "Where a model's scores have a cap, scaled_dot_product leaves it out and runs all the "
          "same (transformers before 5); else attention is unfused."),
      boolean("gathers_wide_logits", &System::gathers_wide_logits,
              "For an eager loss tensor ranks gather the logits, unless kernels.loss_parallel says "
              "otherwise, and each casts its part to fp32 beforehand."),
      boolean("wide_logits", &System::wide_logits,
              "The model casts its logits to fp32 itself, and the copy stands while the loss is "
              "computed."),
      boolean(
          "widens_results", &System::widens_results,
          "A model's results leave its forward pass in fp32 (Accelerate under autocast), within "
          "the graph that torch.compile makes of a model as a whole with its loss."),
      boolean("loss_outside_model", &System::loss_outside_model,
              "The loss is computed outside of the module that is sharded: the backward prefetch "
              "begins behind it."),
      integer("unit_layers", &System::unit_layers, 1, kManyLayers,
              "Layers whose parameters zero3 gathers together."),
      choice("forward_prefetch", &System::forward_prefetch,
             "When zero3 gathers the next unit in the forward pass: none (when that unit is about "
             "to run), implicit (as soon as the host reaches it), explicit (before the present "
             "unit computes)."),
      choice("backward_prefetch", &System::backward_prefetch,
             "When zero3 gathers the next unit in the backward pass, as forward_prefetch says "
             "(FSDP1's BACKWARD_PRE: explicit, BACKWARD_POST: implicit)."),
      boolean("limit_all_gathers", &System::limit_all_gathers,
              "At most two parameter gathers are in flight."),
      size_or_auto("prefetch_elements", &System::prefetch_elements,
                   "Number of parameters gathered ahead (DeepSpeed's stage3_prefetch_bucket_size); "
                   "0: one unit; auto: 0.9 hidden^2, as transformers has it."),
      integer("live_elements", &System::live_elements, 0, 1'000'000'000'000'000,
              "Nothing is gathered ahead while this many parameters are whole "
              "(stage3_max_live_parameters); 0: any number may be."),
      size_or_auto(
          "persistent_elements", &System::persistent_elements,
          "Tensors of at most this many parameters are never sharded "
          "(stage3_param_persistence_threshold); auto: 10 hidden, as transformers has it."),
      boolean(
          "reduce_to_owner", &System::reduce_to_owner,
          "Each parameter belongs to one rank: its gradient is reduced to that rank (all-reduced "
          "with zero1_all_reduces), which broadcasts the updated parameter."),
      boolean("zero1_all_reduces", &System::zero1_all_reduces,
              "zero1 all-reduces gradients over all data-parallel ranks, however few of them share "
              "the states, and each rank keeps its slice."),
      boolean("zero1_overlaps", &System::zero1_overlaps,
              "false: with zero1, gradients are reduced behind the last backward pass even where "
              "overlap.grad_reduce is true."),
      boolean("experts_outside_units", &System::experts_outside_units,
              "Experts that no other rank shards are in no unit that is gathered whole: neither "
              "copied nor reduced, with gradients in the parameters' format."),
      boolean("gathers_arrays", &System::gathers_arrays,
              "Of units that are gathered whole, a weight is whole only while an operator reads it "
              "or makes its gradient, as XLA places buffers; the collectives stay the unit's."),
      boolean("slices_arrays", &System::slices_arrays,
              "Parameters are tensors of their own, of each of which a data-parallel rank steps a "
              "slice; the fp32 weights of its slices are one tensor."),
      boolean(
          "gathers_slices", &System::gathers_slices,
          "zero1 and zero2 gather parameters through flat buffers, from which each rank's slice of "
          "each array is copied by a kernel of its own."),
      boolean("zero2_all_reduces", &System::zero2_all_reduces,
              "zero2 all-reduces gradients, and each rank keeps its slice."),
      boolean("bucket_before_overflow", &System::bucket_before_overflow,
              "A bucket is reduced before a parameter would overfill it; false: together with the "
              "parameter that fills it."),
      boolean("bucket_before_backward", &System::bucket_before_backward,
              "Flat buckets of gradients stand from the start of a backward pass (DeepSpeed up to "
              "0.18.2); false: from its first gradient."),
      boolean("backward_leftovers", &System::backward_leftovers,
              "Under zero3 the embedding, whose input has no gradient, stays whole from a "
              "micro-batch's backward pass to the next one's forward pass, and frozen parameters "
              "that a "
              "checkpoint ran again with stay for the backward pass (DeepSpeed up to 0.19.2)."),
      boolean(
          "memory_efficient_linear", &System::memory_efficient_linear,
          "DeepSpeed's option: under zero3 autograd keeps no whole weights of linears. False also "
          "where a model is built outside of deepspeed.zero.Init by DeepSpeed up to 0.19.3."),
      boolean("zero3_overlaps", &System::zero3_overlaps,
              "zero3 overlaps communication even where overlap.grad_reduce and "
              "overlap.param_gather are false."),
      boolean(
          "unit_buffers", &System::unit_buffers,
          "zero3 gathers a unit into one tensor, of which parameters are views, and copies its "
          "gradients into another, from which they are reduced; embedding, final norm and head "
          "are gathered once a step and stay (Megatron-FSDP). zero2 without overlap.grad_reduce "
          "reduces all gradients of a backward pass at once, behind it."),
      integer("unit_buffer_elements", &System::unit_buffer_elements, 0, 1'000'000'000'000'000,
              "With unit_buffers, the reductions under way have at most so many elements, and half "
              "as many are gathered ahead (suggested_communication_unit_size); 0: twice those of a "
              "unit, at least 1e9."),
      boolean("double_buffers", &System::double_buffers,
              "With unit_buffers, two tensors for gathered units and two for their gradients stand "
              "from step to step, and no more are used (fsdp_double_buffer)."),
      boolean("zero3_buckets", &System::zero3_buckets,
              "Gradients of sharded units are reduced in buckets, not unit by unit."),
      integer("reuse_elements", &System::reuse_elements, 0, 1'000'000'000'000'000,
              "A sharded unit stays gathered if it is read again before this many further "
              "parameters are."),
      boolean("gradients_in_parameters", &System::gradients_in_parameters,
              "Gradients reuse the storage of gathered parameters."),
      boolean("overlap_with_pipeline", &System::overlap_with_pipeline,
              "false: with pipeline stages, gradient reduction never overlaps."),
      boolean("align_grad_reduce", &System::align_grad_reduce,
              "Interleaved stages reduce the gradients of a chunk at the same time."),
      boolean("align_param_gather", &System::align_param_gather,
              "Interleaved stages gather the parameters of a chunk at the same time."),
      quantity("cycle_time", &System::cycle_time, false,
               "Period of the background thread that starts gradient reductions (Horovod); 0: they "
               "start at once."),
      boolean("hierarchical_all_reduce", &System::hierarchical_all_reduce,
              "Gradients are reduce-scattered within the node, all-reduced between nodes, and "
              "gathered within the node."),
      boolean("optimizer_post_validation", &System::optimizer_post_validation,
              "The optimizer step starts before the global gradient norm is known (zero bubble)."),
      integer("vocab_divisor", &System::vocab_divisor, 0, 1'000'000,
              "The vocabulary is padded to a multiple of this number times tensor; 0: 128 for "
              "Megatron, else 1."),
      boolean(
          "reshard_with_pipeline", &System::reshard_with_pipeline,
          "false: with pipeline stages, reshard_after_forward is off unless the job states it."),
      rank_order("order", &System::order,
                 "Order of the parallel dimensions over ranks where the job states none, as "
                 "cluster.order; left out: the cluster's."),
      boolean("saves_gathered_inputs", &System::saves_gathered_inputs,
              "With sequence parallelism a linear keeps the input that it gathered, where "
              "async_tensor_backward is false."),
      boolean(
          "linears_sum_apart", &System::linears_sum_apart,
          "Tensor ranks whose sequence is whole sum the input gradients of queries, keys, values "
          "and both halves of a gated MLP each by itself (DTensor's ColwiseParallel)."),
      boolean("embedding_by_width", &System::embedding_by_width,
              "Each tensor rank holds all rows and some columns of the word embedding, and its "
              "result is gathered; false: rows, and it is summed."),
      boolean("async_tensor_backward", &System::async_tensor_backward,
              "The collective of the input gradient overlaps the weight-gradient GEMM."),
      boolean("gathers_qkv", &System::gathers_qkv,
              "parallelism.tensor may be a multiple of model.kv_heads: the projections of queries, "
              "keys and values are gathered over the tensor ranks, of which each keeps its query "
              "heads and one key-value head; false: it must divide them."),
      boolean("keeps_scattered_results", &System::keeps_scattered_results,
              "memory.recompute {per_op: sac} keeps what tensor ranks reduce-scatter behind row "
              "products; false: they do so again, but for compiled layers (torchtitan 0.3)."),
      boolean("local_embedding", &System::local_embedding,
              "With norm_gradients_apart, a tensor rank makes the gradient of its own rows of the "
              "word embedding; false: of the whole table, of which it keeps its rows."),
      boolean("whole_latents", &System::whole_latents,
              "Of latent attention each tensor rank makes the latents of the whole sequence and "
              "norms them; false: those of its part of the sequence, which are gathered."),
      boolean(
          "norm_gradients_apart", &System::norm_gradients_apart,
          "With sequence parallelism the weight gradient of each norm is all-reduced by itself in "
          "every backward pass; false: all of them together once a step."),
      boolean(
          "context_in_steps", &System::context_in_steps,
          "Context parallelism of kinds p2p and all_gather runs attention in a step for each "
          "rank's keys; results and gradients are summed in fp32, and those of keys travel step "
          "by step (torch's ring attention)."),
      boolean(
          "schedules_one_stage", &System::schedules_one_stage,
          "Without pipeline stages, too, micro-batches run in the schedule's order: gpipe keeps "
          "the activations of all until the first backward pass."),
      boolean(
          "torch_orders", &System::torch_orders,
          "Orders of torch.distributed.pipelining: gpipe runs backward passes of the oldest "
          "micro-batch first, and interleaved_1f1b divides its micro-batches into micro-batches / "
          "stages groups where a job states no size."),
      boolean("round_forwards_first", &System::round_forwards_first,
              "interleaved_1f1b with as many micro-batches as stages runs all forward passes and "
              "then all backward passes (Megatron-LM up to core 0.9)."),
      boolean("stage_keeps_output", &System::stage_keeps_output,
              "With pipeline stages the last one keeps its logits from forward to backward."),
      choice("stage_receives", &System::stage_receives,
             "What becomes of what pipeline stages receive: transient (given up behind the passes "
             "that read it), held_by_losses (on the last stage until the schedule ends, and where "
             "ranks have several stages what these send back, too; their results until their "
             "backward pass), standing (a buffer for each micro-batch, of activations and of "
             "gradients, from step to step; results until the backward pass)."),
      boolean("weights_run_again", &System::weights_run_again,
              "Where the backward pass is split, layers that are recomputed run again for the "
              "input's gradient and once more for each of their weights (PyTorch's pipelines over "
              "checkpoints without reentrance)."),
      boolean("split_keeps_graph", &System::split_keeps_graph,
              "Where the backward pass is split, everything that it needs stands until weight "
              "gradients are made."),
      boolean(
          "overlap_pairs", &System::overlap_pairs,
          "The two passes of a DualPipe pair run at the same time; false: one after the other."),
      boolean("batched_p2p", &System::batched_p2p,
              "Sends and receives between stages are posted together and block compute."),
      boolean("p2p_follows_pass", &System::p2p_follows_pass,
              "Of single messages (batched_p2p false): a stage sends and then receives behind a "
              "forward pass, and receives and then sends behind a backward pass; false: odd stages "
              "receive first."),
      boolean("sync_p2p", &System::sync_p2p,
              "The host waits for the device behind every send and receive between stages."),
      boolean("scatter_gather_p2p", &System::scatter_gather_p2p,
              "Each tensor rank sends its share of an activation to the next stage, where it is "
              "gathered over NVLink."),
      boolean(
          "whole_gradients_p2p", &System::whole_gradients_p2p,
          "With scatter_gather_p2p: each tensor rank sends the whole gradient back to the stage "
          "before, and not its share of it (DeepSpeed before 0.5.4)."),
      quantity("launch", &System::launch, false, "Host time to issue one kernel."),
      quantity("layer_overhead", &System::layer_overhead, false,
               "Further host time per layer and pass."),
      quantity("adapter_overhead", &System::adapter_overhead, false,
               "Further host time per low-rank adapter of a layer and pass."),
      quantity(
          "unit_overhead", &System::unit_overhead, false,
          "Further host time per unit of sharded parameters and pass, of the hooks that gather "
          "and free them."),
      quantity("pass_overhead", &System::pass_overhead, false,
               "Further host time per pass of a chunk between pipeline stages, ahead of its first "
               "kernel: the schedule, and the modules around the layers."),
      quantity("expert_overhead", &System::expert_overhead, false,
               "Further host time per layer of experts and pass, outside CUDA graphs."),
      boolean(
          "sync_before_optimizer", &System::sync_before_optimizer,
          "In each step the host waits for the gradient norm or for the check of the loss scale."),
      boolean("sync_micro_batch", &System::sync_micro_batch,
              "The host waits for the device as each micro-batch begins."),
      boolean(
          "launch_blocking", &System::launch_blocking,
          "The host waits for each kernel that it launches, as under CUDA_LAUNCH_BLOCKING=1: the "
          "host's time adds to the device's."),
      boolean("metrics_before_backward", &System::metrics_before_backward,
              "The cross entropies of loss_metrics are computed behind the loss, while all "
              "activations stand; false: once the backward pass is through."),
      boolean(
          "narrow_log_softmax", &System::narrow_log_softmax,
          "The eager loss's log_softmax stays in the logits' format, and the likelihood reads an "
          "fp32 copy of it: cross_entropy under autocast, of logits that nothing casts."),
      boolean("holds_logits", &System::holds_logits,
              "The training loop holds the logits of a micro-batch until the next one has its own, "
              "from step to step (Composer's state.outputs)."),
      choice(
          "logit_metrics", &System::logit_metrics,
          "What the trainer computes of each micro-batch's logits behind an eager or fused loss, "
          "while all activations stand: none; accuracy (the likeliest word of each position); "
          "entropy (that, and the entropy of each position's probabilities; TRL)."),
      integer(
          "loss_metrics", &System::loss_metrics, 0, 16,
          "Further cross entropies that the trainer computes from the logits of each micro-batch."),
      quantity("context_memory", &System::context_memory, false,
               "Memory of the CUDA context and libraries; 0: by device."),
      quantity("gemm_workspace", &System::gemm_workspace, false,
               "Workspace of one cuBLAS handle, which comes from the framework's allocator; 0: by "
               "device."),
      boolean("gemm_workspace_stands", &System::gemm_workspace_stands,
              "cuBLAS's workspaces stand from their first use; false: each product takes one while "
              "it runs (torch 2.15)."),
      boolean("oldest_segment_first", &System::oldest_segment_first,
              "Of free blocks of one size the allocator takes that of the oldest segment (torch "
              "2.15); false: that at the lowest address (to torch 2.11 at least), which is the "
              "youngest segment's, since NVIDIA's driver places each below the one before it."),
      boolean(
          "routes_whole_sequence", &System::routes_whole_sequence,
          "With the dispatcher alltoall under sequence parallelism, tensor ranks that share the "
          "weights of experts gather the sequence ahead of the router, and each sends all of "
          "its tokens to the experts (torchtitan 0.2); false: each sends its part of it, which "
          "the ranks of an expert then share."),
      boolean("offloads_whole_arrays", &System::offloads_whole_arrays,
              "A share of the optimizer (memory.offload.optimizer.ratio) leaves array by array, in "
              "their order, until it is passed (Megatron-LM's HybridDeviceOptimizer)."),
      choice(
          "activation_offload", &System::activation_offload,
          "How offloaded activations are copied: unit by unit, spread over all layers (Transformer "
          "Engine's cpu_offload), or while forward-backward pairs compute (Yuan et al.)."),
      narrow_parameters(),
      schedules(),
      cannot(),
      survey(),
  };
  return table;
}

}  // namespace stepcast::config
