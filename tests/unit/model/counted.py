"""Writes counted.tsv beside it: parameters of transformers' causal language models by their config.json, a line each.

    PYTHON tests/unit/model/counted.py > tests/unit/model/counted.tsv

PYTHON has transformers and torch, such as that of an environment of scripts/oracle. Models are made on the meta device, with the
default sizes of their configuration and few layers, and once more with fewer heads of keys and values and every switch turned
over that the model has. What a router adds to the scores of its experts counts (e_score_correction_bias), which transformers
registers as a buffer.
"""
import importlib
import json

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()

LAYERS = 8
# Settings without which a configuration makes no model, and whose defaults are not known to the library.
NEEDED = {
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8}, "hunyuan_v1_dense": {"head_dim": 128}, "ministral": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 16, "moe_topk": 2},
    "dots1": {"n_routed_experts": 32, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "dbrx": {"attn_config": {"rope_theta": 5e5, "kv_n_heads": 8}, "d_model": 6144, "n_heads": 48, "n_layers": LAYERS,
             "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752, "hidden_size": 6144}},
    "deepseek_v2": {"num_experts_per_tok": 6, "first_k_dense_replace": 1}, "deepseek_v3": {"num_nextn_predict_layers": 0},
    "glm4_moe": {"num_nextn_predict_layers": 0, "head_dim": 128}, "bamba": {"attn_layer_indices": [2, 5]},
    "granitemoehybrid": {"layer_types": ["mamba", "mamba", "attention", "mamba"] * 2},
    "ernie4_5_moe": {"moe_layer_interval": 2}, "gpt_neo": {"num_hidden_layers": 4, "attention_types": [[["global", "local"], 2]]}, "qwen3_next": {"num_experts": 32}, "minimax_m2": {"num_local_experts": 16},
}
FAMILIES = """afmoe arcee bamba bert bloom camembert codegen cohere cohere2 cwm dbrx deepseek_v2 deepseek_v3 dots1 ernie4_5 ernie4_5_moe exaone4
exaone_moe falcon flex_olmo gemma gemma2 gemma3_text glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite
granite_swa granitemoe granitemoe_swa granitemoehybrid granitemoeshared helium hunyuan_v1_dense hunyuan_v1_moe hy_v3 hyperclovax internlm3 jais2 llama
llama4_text mamba2 mellum minicpm3 minimax_m2 ministral ministral3 mistral mixtral mpt nemotron olmo olmo2 olmo3 olmoe opt phi phi3 phimoe qwen2
qwen2_moe qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next roberta seed_oss smollm3 solar_open stablelm starcoder2 vaultgemma xlm-roberta
youtu""".split()
SWITCHES = ("attention_bias", "attention_out_bias", "mlp_bias", "use_bias", "use_qkv_bias", "qkv_bias", "use_qk_norm", "lm_head_bias", "use_post_norm",
            "use_parallel_residual", "multi_query", "parallel_attn", "bias", "tie_word_embeddings", "use_sliding_window")
# Switches that turn on what is refused (biases in latent attention, in Mamba's projections, of one kind of MLP), or that a model does not read.
LEFT_ALONE = {
    "deepseek_v2": {"attention_bias", "mlp_bias"}, "deepseek_v3": {"attention_bias"}, "glm4_moe_lite": {"attention_bias"},
    "glm_moe_dsa": {"attention_bias", "mlp_bias"}, "minicpm3": {"attention_bias"}, "youtu": {"attention_bias"}, "mamba2": {"use_bias"},
    "dbrx": {"tie_word_embeddings"}, "phimoe": {"tie_word_embeddings"}, "bert": {"tie_word_embeddings"}, "roberta": {"tie_word_embeddings"},
    "camembert": {"tie_word_embeddings"}, "xlm-roberta": {"tie_word_embeddings"}, "ernie4_5_moe": {"tie_word_embeddings", "use_bias"},
    "afmoe": {"attention_bias"}, "hy_v3": {"mlp_bias"},
}


# Language models of vision models, by module and class; they have no head of their own.
TEXTS = {"qwen2_vl": "Qwen2VLTextModel", "qwen2_5_vl": "Qwen2_5_VLTextModel", "glm4v": "Glm4vTextModel", "glm4v_moe": "Glm4vMoeTextModel"}


def line(kind, settings):
    config = CONFIG_MAPPING[kind](**settings)
    with torch.device("meta"):
        write(config, transformers.AutoModelForCausalLM.from_config(config), 0)


def text_line(kind, name):
    config = CONFIG_MAPPING[kind]().text_config
    config.num_hidden_layers = LAYERS
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:LAYERS]
    with torch.device("meta"):
        model = getattr(importlib.import_module(f"transformers.models.{kind}.modeling_{kind}"), name)(config)
    write(config, model, 0 if getattr(config, "tie_word_embeddings", False) else config.vocab_size * config.hidden_size)


def write(config, model, head):
    count = head + sum(p.numel() for p in model.parameters())
    count += sum(b.numel() for name, b in model.named_buffers() if name.endswith("e_score_correction_bias"))
    stated = {k: v for k, v in json.loads(config.to_json_string()).items() if k not in ("transformers_version", "rope_parameters", "id2label", "label2id")}
    print(f"{count}\t{json.dumps(stated, separators=(',', ':'))}")


def main():
    for kind in FAMILIES:
        settings = {"num_hidden_layers": LAYERS} | NEEDED.get(kind, {})
        default = CONFIG_MAPPING[kind](**settings)
        line(kind, settings)
        turned = {key: not getattr(default, key) for key in SWITCHES
                  if isinstance(getattr(default, key, None), bool) and key not in LEFT_ALONE.get(kind, ())}
        if getattr(default, "num_key_value_heads", None) and "kv_lora_rank" not in vars(default):
            turned["num_key_value_heads"] = max(default.num_key_value_heads // 2, 1)
        if turned:
            line(kind, settings | turned)
    for kind, name in TEXTS.items():
        text_line(kind, name)


main()
