// Megatron-LM's flags that describe the model.
#include <fmt/format.h>

#include <algorithm>

#include "../options/rule.h"
#include "../options/sizes.h"
#include "megatron.h"
#include "stepcast/text/cells.h"

namespace stepcast::interop::launch {
namespace {

void positions(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind == "learned_absolute") {
    d.set(s, key, "learned");
  } else if (kind == "rope" || kind == "mrope" || kind == "yarn") {
    d.set(s, key, "rotary");
  } else if (kind == "none") {
    d.set(s, key, "none");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected learned_absolute | rope | mrope | yarn | none",
                            s.shown, kind));
  }
}

void megatron_rotary(Draft& d, const Setting& s, std::string_view key) { d.set(s, key, "rotary"); }
void rms(Draft& d, const Setting& s, std::string_view key) { d.set(s, key, "rms"); }

void normalization(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind != "LayerNorm" && kind != "RMSNorm") {
    d.refuse(s, fmt::format("{} is '{}'; expected LayerNorm | RMSNorm", s.shown, kind));
    return;
  }
  d.set(s, key, kind == "RMSNorm" ? "rms" : "layer");
}

// The layers that are MoE: "([0]*3+[1]*58)" or "[0,1]", or a number n, which means one in n.
std::vector<int> pattern_of(const std::string& text) {
  std::vector<int> out;
  std::vector<int> group;
  constexpr std::size_t kMaxLetters = 100'000;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      group.clear();
    } else if (c == '0' || c == '1') {
      group.push_back(c - '0');
    } else if (c == ']') {
      std::size_t end = i + 1;
      std::int64_t times = 1;
      if (end < text.size() && text[end] == '*') {
        const std::size_t begin = ++end;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) {
          ++end;
        }
        times = text::number<std::int64_t>(std::string_view(text).substr(begin, end - begin))
                    .value_or(0);
      }
      for (std::int64_t k = 0; k < times && out.size() < kMaxLetters; ++k) {
        out.insert(out.end(), group.begin(), group.end());
      }
      i = end - 1;
    } else if (c != '(' && c != ')' && c != '+' && c != ',' && c != ' ') {
      return {};
    }
  }
  return out;
}

void moe_layers(Draft& d, const Setting& s, std::string_view) {
  const std::string text = plain_text(s.value);
  const bool of_card = d.stated("model.use");  // whose own layers it replaces
  if (const auto n = text::number<std::int64_t>(text)) {
    d.set(s, "model.moe.every", *n);
    if (of_card) {
      d.set(s, "model.moe.dense_layers", 0);
    }
    return;
  }
  const std::vector<int> pattern = pattern_of(text);
  const auto first = std::find(pattern.begin(), pattern.end(), 1);
  const auto dense = first - pattern.begin();
  if (!pattern.empty() && std::all_of(first, pattern.end(), [](int x) { return x == 1; })) {
    d.set(s, "model.moe.dense_layers", std::int64_t{dense});
    return;
  }
  // One in n layers, beginning with the first, as for Megatron-LM's number.
  for (std::size_t n = 2; dense == 0 && n <= pattern.size(); ++n) {
    bool fits = true;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      fits = fits && pattern[i] == (i % n == 0 ? 1 : 0);
    }
    if (fits) {
      d.set(s, "model.moe.every", static_cast<std::int64_t>(n));
      return;
    }
  }
  d.refuse(s, fmt::format("{} is '{}'; expected a number, or a pattern of dense layers before MoE "
                          "layers such as ([0]*3+[1]*58)",
                          s.shown, text));
}

void shared_expert(Draft& d, const Setting& s, std::string_view) {
  d.set(s, "model.moe.shared_experts", 1);
  d.set(s, "model.moe.shared_ffn", s.value);
}

void window(Draft& d, const Setting& s, std::string_view key) {
  // "(4096, 0)" or "4096,0": keys before and after the query.
  std::string text = plain_text(s.value);
  text.erase(std::remove_if(text.begin(), text.end(),
                            [](char c) { return c == '(' || c == ')' || c == ' '; }),
             text.end());
  const auto n = text::number<std::int64_t>(text.substr(0, text.find(',')));
  if (!n || *n < 0 || *n > kMany) {
    d.refuse(s, fmt::format("{} is '{}'; expected a window such as 4096,0", s.shown,
                            plain_text(s.value)));
  } else {
    d.set(s, key, *n + 1);  // including the query's own key
  }
}

void window_skip(Draft& d, const Setting& s, std::string_view key) {
  const auto n = text::number<std::size_t>(plain_text(s.value));
  constexpr std::size_t kMany = 1000;
  if (!n || *n == 0 || *n > kMany) {
    d.refuse(s, fmt::format("{} is '{}'; expected a number of layers, of which the last attends "
                            "to everything",
                            s.shown, plain_text(s.value)));
  } else {
    d.set(s, key, std::string_view(std::string(*n - 1, 'w') + "a"));
  }
}

// The vocabulary before padding, by tokenizer of Megatron-LM.
std::int64_t tokens_of(const std::string& tokenizer) {
  constexpr std::int64_t kGpt2 = 50257;    // megatron/training/tokenizer: gpt2-vocab.json
  constexpr std::int64_t kLlama2 = 32000;  // Llama 2's SentencePiece model
  constexpr std::int64_t kBert = 30522;    // bert-large-uncased-vocab.txt
  if (tokenizer == "GPT2BPETokenizer" || tokenizer == "gpt2bpetokenizer") {
    return kGpt2;
  }
  if (tokenizer == "llama2tokenizer") {
    return kLlama2;
  }
  return tokenizer == "bertwordpiecelowercase" || tokenizer == "bertwordpiececase" ? kBert : 0;
}

void vocabulary(Draft& d) {
  if (d.find("make-vocab-size-divisible-by") != nullptr) {
    const Setting* s = d.find("make-vocab-size-divisible-by");
    d.set(*s, "system.vocab_divisor", s->value);
  }
  if (const Setting* s = d.find("padded-vocab-size")) {
    d.set(*s, "model.vocab", s->value);
    return;
  }
  const std::string tokenizer = d.word("tokenizer-type");
  if (const Setting* s = d.find("vocab-size")) {
    // NullTokenizer adds an end-of-document token.
    const auto n = d.integer("vocab-size");
    if (n) {
      d.set(*s, "model.vocab", *n + (tokenizer == "nulltokenizer" ? 1 : 0));
    }
    return;
  }
  if (const Setting* s = d.find("tokenizer-type"); s != nullptr && tokens_of(tokenizer) > 0) {
    d.set(*s, "model.vocab", tokens_of(tokenizer));
    return;
  }
  if (tokenizer.empty()) {
    // --vocab-file with --merge-file: GPT2BPETokenizer, the default.
    for (const char* name : {"merge-file", "vocab-file"}) {
      if (const Setting* s = d.present(name)) {
        d.set(*s, "model.vocab", tokens_of("gpt2bpetokenizer"));
        return;
      }
    }
  }
}

void heads(Draft& d) {
  const Setting* groups = d.find("num-query-groups");
  if (groups != nullptr && d.on("group-query-attention")) {
    d.set(*groups, "model.kv_heads", groups->value);
  }
}

void multi_latent(Draft& d) {
  if (!d.on("multi-latent-attention")) {
    return;
  }
  const Setting& flag_set = *d.present("multi-latent-attention");
  struct Size {
    std::string_view name;
    std::string_view key;
    int otherwise;  // megatron/training/arguments.py, MLA group
  };
  static constexpr Size kSizes[] = {{"q-lora-rank", "model.mla.q_lora_rank", 0},
                                    {"kv-lora-rank", "model.mla.kv_lora_rank", 512},
                                    {"qk-head-dim", "model.mla.qk_nope_dim", 128},
                                    {"qk-pos-emb-head-dim", "model.mla.qk_rope_dim", 64},
                                    {"v-head-dim", "model.mla.v_dim", 128}};
  for (const Size& size : kSizes) {
    if (const Setting* s = d.find(size.name)) {
      d.set(*s, size.key, s->value);
    } else {
      d.set(flag_set, size.key, size.otherwise);
    }
  }
  d.drop("model.head_dim");
}

void ffn(Draft& d) {
  const auto hidden = d.integer("hidden-size");
  if (d.on("swiglu") && d.find("ffn-hidden-size") == nullptr && hidden) {
    // arguments.py: int((4 * h * 2 / 3) / 64) * 64.
    constexpr std::int64_t kMultiple = 64;
    d.set(*d.present("swiglu"), "model.ffn", 4 * *hidden * 2 / 3 / kMultiple * kMultiple);
  }
}

}  // namespace

const std::vector<Rule>& megatron_model_rules() {
  static const std::vector<Rule> rules = {
      {"num-layers", "model.layers"},
      {"hidden-size", "model.hidden"},
      {"ffn-hidden-size", "model.ffn"},
      {"num-attention-heads", "model.heads"},
      {"kv-channels", "model.head_dim"},
      flag("group-query-attention"),
      {"num-query-groups", "model.kv_heads", later},
      {"seq-length", "workload.sequence_length"},
      {"encoder-seq-length", "workload.sequence_length"},
      {"max-position-embeddings", "model.max_positions"},
      {"position-embedding-type", "model.positions", positions},
      flag("use-rotary-position-embeddings", "model.positions", megatron_rotary),
      flag("no-position-embedding"),
      {"swiglu", "model.gated_mlp", yes},
      {"normalization", "model.norm", normalization},
      flag("rms-norm", "model.norm", rms),
      flag("disable-bias-linear"),
      flag("add-qkv-bias"),
      {"qk-layernorm", "model.qk_norm", yes},
      {"untie-embeddings-and-output-weights", "model.tied_embeddings", no},
      {"attention-dropout", "model.dropout", later},
      {"hidden-dropout", "model.dropout", later},
      {"vocab-size", "model.vocab", later},
      {"padded-vocab-size", "model.vocab", later},
      {"make-vocab-size-divisible-by", "system.vocab_divisor", later},
      {"tokenizer-type", "model.vocab", later},
      flag("multi-latent-attention"),
      {"q-lora-rank", "model.mla.q_lora_rank", later},
      {"kv-lora-rank", "model.mla.kv_lora_rank", later},
      {"qk-head-dim", "model.mla.qk_nope_dim", later},
      {"qk-pos-emb-head-dim", "model.mla.qk_rope_dim", later},
      {"v-head-dim", "model.mla.v_dim", later},
      {"num-experts", "model.moe.experts"},
      {"moe-ffn-hidden-size", "model.moe.ffn"},
      {"moe-router-topk", "model.moe.topk"},
      {"moe-router-num-groups", "model.moe.router_groups"},
      {"moe-router-group-topk", "model.moe.router_group_topk"},
      spelling("topk", "moe-router-topk"),
      {"moe-layer-freq", "", moe_layers},
      {"moe-shared-expert-intermediate-size", "", shared_expert},
      {"moe-router-enable-expert-bias", "model.moe.router_bias", yes},
      {"moe-latent-size", "model.moe.latent"},
      {"moe-shared-expert-gate", "model.moe.shared_gate", yes},
      {"use-shared-expert-gate", "model.moe.shared_gate", yes},
      {"mtp-num-layers", "model.mtp_layers"},
      {"mtp-use-repeated-layer", "model.mtp_repeated", yes},
      {"window-size", "model.sliding_window", window},
      {"window-attn-skip-freq", "model.mixers", window_skip},
      {"encoder-num-layers", "model.encoder_layers"},
  };
  return rules;
}

void finish_megatron_model(Draft& d) {
  finish_megatron_hybrid(d);
  const Origin start = d.defaults();
  if (d.job().find("model") == nullptr) {
    return;
  }
  // The defaults of arguments.py.
  if (!d.on("disable-bias-linear")) {
    d.assume(start, "model.biases", scalar("true", start));
  } else if (d.on("add-qkv-bias")) {
    d.set(*d.present("add-qkv-bias"), "model.biases.qkv", true);
  } else {
    d.set(*d.present("disable-bias-linear"), "model.biases", false);
  }
  if (d.find("num-experts") != nullptr) {
    d.assume(start, "moe.grouped", scalar("false", start));
  }
  d.assume(start, "model.tied_embeddings", scalar("true", start));
  d.assume(start, "model.norm", scalar("layer", start));
  if (d.on("no-position-embedding") && d.text("model.positions").empty()) {
    // Older examples imply rotary positions by --rotary-base and similar flags.
    d.set(*d.present("no-position-embedding"), "model.positions",
          d.first({"rotary-base", "rotary-percent"}) != nullptr ? "rotary" : "none");
  }
  d.assume(start, "model.positions", scalar("learned", start));
  if (d.text("model.positions") != "learned") {
    d.drop("model.max_positions");
  }
  constexpr double kDropout = 0.1;  // of --attention-dropout and --hidden-dropout
  const double attention = d.number("attention-dropout").value_or(kDropout);
  const double hidden = d.number("hidden-dropout").value_or(kDropout);
  if (const Setting* s = d.first({"hidden-dropout", "attention-dropout"})) {
    d.set(*s, "model.dropout", std::max(attention, hidden));
  } else {
    d.assume(start, "model.dropout", scalar(fmt::format("{}", kDropout), start));
  }
  if (d.stated("model.moe.experts")) {
    constexpr const char* kTopk = "2";  // --moe-router-topk
    d.assume(start, "model.moe.topk", scalar(kTopk, start));
  } else {
    d.drop("model.moe");
  }
  heads(d);
  multi_latent(d);
  ffn(d);
  vocabulary(d);
}

}  // namespace stepcast::interop::launch
