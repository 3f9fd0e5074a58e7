// Genuine config.json files: the shapes that their publishers state. The files are in
// configs/models.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "stepcast/config/config.h"

using namespace stepcast;

namespace {

std::filesystem::path write(const std::string& name, const std::string& text) {
  const auto folder = std::filesystem::temp_directory_path() / "stepcast_huggingface_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name) << text;
  return folder / name;
}

}  // namespace

TEST_CASE("dense Llama and Qwen configs") {
  const auto llama = config::model("llama-3.1-405b");
  CHECK(llama.layers == 126);
  CHECK(llama.hidden == 16384);
  CHECK(llama.heads == 128);
  CHECK(llama.kv_heads == 8);
  CHECK(llama.head_dim == 128);
  CHECK(llama.ffn == 53248);
  CHECK(llama.norm == job::Norm::rms);
  CHECK(llama.positions == job::Positions::rotary);
  CHECK_FALSE(llama.biases.qkv);

  const auto multi_head = config::model("llama-2-7b");
  CHECK(multi_head.kv_heads == 32);
  CHECK(multi_head.vocab == 32000);

  const auto qwen = config::model("qwen3-0.6b");
  CHECK(qwen.qk_norm);
  CHECK(qwen.tied_embeddings);
  CHECK(qwen.head_dim == 128);  // larger than hidden / heads
  CHECK(qwen.hidden / qwen.heads == 64);
}

TEST_CASE("mixtures of experts") {
  const auto mixtral = config::model("mixtral-8x22b");
  REQUIRE(mixtral.moe);
  CHECK(mixtral.moe->experts == 8);
  CHECK(mixtral.moe->topk == 2);
  CHECK(mixtral.moe->ffn == 16384);
  CHECK(mixtral.moe->shared_experts == 0);

  const auto qwen = config::model("qwen3-30b-a3b");
  REQUIRE(qwen.moe);
  CHECK(qwen.moe->experts == 128);
  CHECK(qwen.moe->topk == 8);
  CHECK(qwen.moe->ffn == 768);

  const auto deepseek = config::model("deepseek-v3");
  REQUIRE(deepseek.moe);
  REQUIRE(deepseek.mla);
  CHECK(deepseek.moe->experts == 256);
  CHECK(deepseek.moe->shared_experts == 1);
  CHECK(deepseek.moe->dense_layers == 3);
  CHECK(deepseek.moe->router_bias);
  CHECK(deepseek.mla->q_lora_rank == 1536);
  CHECK(deepseek.mla->kv_lora_rank == 512);
  CHECK(deepseek.head_dim == 192);
}

TEST_CASE("families of the GPT line") {
  const auto gpt2 = config::model(
      write("gpt2.json", R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
    "n_positions": 1024, "vocab_size": 50257, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
    "activation_function": "gelu_new"})")
          .string());
  CHECK(gpt2.ffn == 3072);
  CHECK(gpt2.max_positions == 1024);
  CHECK(gpt2.tied_embeddings);
  CHECK(gpt2.biases.qkv);
  CHECK(gpt2.biases.mlp);
  CHECK_FALSE(gpt2.biases.head);
  CHECK(gpt2.dropout == 0.1);
  CHECK(gpt2.activation == job::Activation::gelu_new);

  const auto gptj = config::model(
      write("gptj.json", R"({"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16,
    "n_positions": 2048, "rotary_dim": 64, "vocab_size": 50400, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0,
    "tie_word_embeddings": false})")
          .string());
  CHECK(gptj.parallel_block);
  CHECK(gptj.biases.head);
  CHECK_FALSE(gptj.biases.qkv);
  CHECK(gptj.positions == job::Positions::rotary);
  CHECK(gptj.activation == job::Activation::gelu_new);  // its configuration's default

  const auto opt = config::model(
      write("opt.json", R"({"model_type": "opt", "num_hidden_layers": 24, "hidden_size": 2048,
    "num_attention_heads": 32, "ffn_dim": 8192, "vocab_size": 50272, "max_position_embeddings": 2048,
    "word_embed_proj_dim": 2048, "activation_function": "relu", "dropout": 0.1})")
          .string());
  CHECK(opt.max_positions == 2050);  // two rows of offset
  CHECK(opt.tied_embeddings);
  CHECK(opt.activation == job::Activation::relu);
}

TEST_CASE("a feature that is switched off is no fault") {
  const auto off = config::model(
      write("off.json", R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
    "sliding_window": null})")
          .string());
  CHECK(off.layers == 32);
  CHECK_NOTHROW(config::model(
      write("unused.json", R"({"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 512,
    "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 1024, "vocab_size": 32000,
    "use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 28})")
          .string()));
}

TEST_CASE("a window that is null is none, in families that have one by default") {
  const std::string shapes =
      R"("num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 1024, "vocab_size": 32000)";
  for (const char* family : {"ministral", "olmo3", "exaone4", "cohere2"}) {
    INFO(family);
    const std::string type = R"({"model_type": ")" + std::string(family) + "\", ";
    const auto none = config::model(
        write("null.json", type + R"("sliding_window": null, )" + shapes + "}").string());
    CHECK(none.sliding_window == 0);
    CHECK(none.mixers.empty());
    const auto absent = config::model(write("absent.json", type + shapes + "}").string());
    CHECK(absent.sliding_window == 4096);
  }
}

TEST_CASE("the includer may switch a window or the prediction layers off") {
  const auto path = write("window.json",
                          R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
    "sliding_window": 4096})");
  CHECK(config::model(path.string()).sliding_window == 4096);
  const std::string rest =
      "\ncluster: {use: dgx-h100, nodes: 1}\nworkload: {sequence_length: 4096, global_batch: 8}\n";
  const auto full =
      config::parse("model: {use: " + path.string() + ", sliding_window: null}" + rest, "job.yaml");
  CHECK(full.job.model.hidden == 4096);
  CHECK(full.job.model.sliding_window == 0);
  CHECK(config::model("deepseek-v3-mtp").mtp_layers == 1);
  CHECK(config::model("deepseek-v3").mtp_layers == 0);
}

TEST_CASE("a vision tower is a fault unless the includer leaves it out") {
  const auto path = write("vision.json", R"({"model_type": "qwen3_vl", "tie_word_embeddings": true,
    "vision_config": {"depth": 27}, "text_config": {"model_type": "qwen3_vl_text",
    "num_hidden_layers": 28, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936}})");
  CHECK_THROWS_AS(config::model(path.string()), InputError);
  const auto text = config::parse("model: {use: " + path.string() + ", vision: null}" +
                                      "\ncluster: {use: dgx-h100, nodes: 1}\nworkload: "
                                      "{sequence_length: 4096, global_batch: 8}\n",
                                  "job.yaml");
  CHECK(text.job.model.layers == 28);
  CHECK(text.job.model.tied_embeddings);
}

TEST_CASE("two parallel norms: GPT-NeoX and Falcon-40B") {
  const auto neox = config::model(
      write("neox.json", R"({"model_type": "gpt_neox", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "intermediate_size": 16384, "vocab_size": 50432, "use_parallel_residual": true})")
          .string());
  CHECK(neox.parallel_block);
  CHECK(neox.parallel_norms);
}

TEST_CASE("Gemma 4: heads of both kinds of layers, keys as values, experts beside a dense MLP") {
  const auto m = config::model("gemma-4-26b-a4b");
  CHECK(m.mixers == "wwwwwa");
  CHECK(m.head_dim == 512);
  CHECK(m.kv_heads == 2);
  REQUIRE(m.window_heads);
  CHECK(*m.window_heads == job::WindowHeads{16, 8, 256, 0});
  CHECK(m.keys_as_values);
  CHECK(m.value_norm);
  REQUIRE(m.moe);
  CHECK(m.moe->branch_norms);
  CHECK(m.moe->shared_ffn == 2112);
}

TEST_CASE("Llama-Nemotron: blocks of unlike shapes") {
  const auto m = config::model("llama-3.3-nemotron-super-49b-v1");
  CHECK(m.kv_heads == 8);
  CHECK(m.ffn == 28672);
  REQUIRE(m.ffns.size() == 80);
  CHECK(m.ffns[0] == 14336);
  CHECK(m.ffns[6] == 14336);
  CHECK(m.ffns[11] == 17920);  // 2 x 3.28125 x 8192 / 3
  CHECK(m.ffns[54] == 5632);   // of 5461, to a multiple of 256
  CHECK(m.mixers.substr(0, 12) == "aaaaaa--aaa-");
}

TEST_CASE("MiniMax M3: blocks of keys behind three dense layers") {
  const auto m = config::model("minimax-m3");
  REQUIRE(m.indexer);
  CHECK(m.indexer->block == 128);
  CHECK(m.indexer->topk == 2048);
  CHECK(m.indexer->layers == "aaa" + std::string(57, 'i'));
  CHECK(m.mlps == "ddd" + std::string(57, 'e'));
  CHECK(m.ffn == 12288);
  CHECK(m.mtp_layers == 0);
}

TEST_CASE("layers that differ become letters") {
  const auto oss = config::model("gpt-oss-20b");
  CHECK(oss.mixers == "wa");
  CHECK(oss.sliding_window == 128);
  CHECK(oss.sinks);
  const auto next = config::model("qwen3.5-35b-a3b");
  CHECK(next.mixers == "llla");
  CHECK(next.attention_gate);
  CHECK(next.mtp_layers == 1);
  REQUIRE(next.linear);
  CHECK(next.linear->value_heads == 32);
  const auto hybrid = config::model("nemotron-h-56b");
  CHECK(hybrid.layers == 118);
  CHECK(hybrid.mixers.substr(0, 9) == "m-m-m-ma-");
  CHECK(hybrid.mlps.substr(0, 9) == "-d-d-d--d");
  const auto scout = config::model("llama-4-scout");
  CHECK(scout.chunked_window);
  CHECK(scout.sliding_window == 8192);
  CHECK(scout.moe->every == 1);
  CHECK(config::model("llama-4-maverick").moe->every == 2);
  const auto bert = config::model("bert-large");
  CHECK(bert.encoder_layers == 24);
  CHECK(bert.post_norm);
}
