// Words of a transformer's architecture and of fine-tuning it.
#pragma once

#include "stepcast/base/spelling.h"

namespace stepcast {

// layer_without_bias: LayerNorm with a weight alone (MPT, DBRX, Cohere); layer_without_weights: with neither (OLMo).
enum class Norm { layer, rms, layer_without_bias, layer_without_weights };

constexpr auto spellings(Norm) {
  return std::to_array<Spelling<Norm>>({{Norm::layer, "layer"},
                                        {Norm::rms, "rms"},
                                        {Norm::layer_without_bias, "layer_without_bias"},
                                        {Norm::layer_without_weights, "layer_without_weights"}});
}

// Number of parameter vectors of a norm: weight and bias, a weight, or none.
constexpr int norm_vectors(Norm norm) { return norm == Norm::layer ? 2 : norm == Norm::layer_without_weights ? 0 : 1; }

// How positions are encoded. alibi: a slope per head added to the scores; relative: a learned bias by distance (T5), one
// table each for encoder and decoder.
enum class Positions { learned, rotary, none, alibi, relative };

constexpr auto spellings(Positions) {
  return std::to_array<Spelling<Positions>>({{Positions::learned, "learned"},
                                             {Positions::rotary, "rotary"},
                                             {Positions::none, "none"},
                                             {Positions::alibi, "alibi"},
                                             {Positions::relative, "relative"}});
}

// An MLP's activation, by what it keeps for the backward pass. gelu stands for each that is one kernel and keeps what it
// reads (SiLU too); relu keeps its result; gelu_new is the form with tanh that GPT-2 was written with, relu2 the square of
// ReLU: some frameworks compose these of several kernels (System::composed_gelu).
enum class Activation { gelu, relu, gelu_new, relu2 };

constexpr auto spellings(Activation) {
  return std::to_array<Spelling<Activation>>({{Activation::gelu, "gelu"},
                                              {Activation::relu, "relu"},
                                              {Activation::gelu_new, "gelu_new"},
                                              {Activation::relu2, "relu2"}});
}

// What is trained of a frozen base model; none: all parameters are trained. adapter: bottlenecks in every layer.
// llama_adapter: prompts that attention reads beside the tokens, from some layer up (LLaMA-Adapter, arXiv 2303.16199);
// llama_adapter_v2: with a scale and a bias behind each product, and the norms (arXiv 2304.15010).
enum class FinetuneKind { none, lora, qlora, adapter, llama_adapter, llama_adapter_v2 };

constexpr auto spellings(FinetuneKind) {
  return std::to_array<Spelling<FinetuneKind>>({{FinetuneKind::none, "none"},
                                                {FinetuneKind::lora, "lora"},
                                                {FinetuneKind::qlora, "qlora"},
                                                {FinetuneKind::adapter, "adapter"},
                                                {FinetuneKind::llama_adapter, "llama_adapter"},
                                                {FinetuneKind::llama_adapter_v2, "llama_adapter_v2"}});
}

// Who rounded the 4-bit weights of a frozen base: bitsandbytes (NF4) or AutoGPTQ.
enum class QuantizedBase { nf4, gptq };

constexpr auto spellings(QuantizedBase) {
  return std::to_array<Spelling<QuantizedBase>>({{QuantizedBase::nf4, "nf4"}, {QuantizedBase::gptq, "gptq"}});
}

// Who puts 4-bit modules in the place of linears. hugging_face: Transformers, all but the head. lightning: its Fabric's
// plugin, the head too, from fp16, so that bf16 products cast what was dequantised. stable_embedding: as lightning, and
// litgpt's embedding in the place of the frozen one, which the optimizer holds on to: nothing updates it or sets its
// gradient to zero.
enum class Quantizer { hugging_face, lightning, stable_embedding };

constexpr auto spellings(Quantizer) {
  return std::to_array<Spelling<Quantizer>>({{Quantizer::hugging_face, "hugging_face"},
                                             {Quantizer::lightning, "lightning"},
                                             {Quantizer::stable_embedding, "stable_embedding"}});
}

}  // namespace stepcast
