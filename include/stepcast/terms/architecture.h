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

// What is trained of a frozen base model; none: all parameters are trained.
enum class FinetuneKind { none, lora, qlora, adapter };

constexpr auto spellings(FinetuneKind) {
  return std::to_array<Spelling<FinetuneKind>>({{FinetuneKind::none, "none"},
                                                {FinetuneKind::lora, "lora"},
                                                {FinetuneKind::qlora, "qlora"},
                                                {FinetuneKind::adapter, "adapter"}});
}

// Who rounded the 4-bit weights of a frozen base: bitsandbytes (NF4) or AutoGPTQ.
enum class QuantizedBase { nf4, gptq };

constexpr auto spellings(QuantizedBase) {
  return std::to_array<Spelling<QuantizedBase>>({{QuantizedBase::nf4, "nf4"}, {QuantizedBase::gptq, "gptq"}});
}

}  // namespace stepcast
