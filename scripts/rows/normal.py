"""A row with the names and forms of its format. Other tables name the same fields otherwise (as HuggingFace's config.json or Megatron-LM's
arguments), write numbers and flags as text, or say "n/a" for nothing: what is read behind this has one name and one form for each."""
import re

from .fields import Number

NOTHING = ("", "-", "--", "?", "n/a", "na", "nan", "null", "not stated", "not printed", "not given", "not reported", "not specified", "unknown", "unspecified")


def plain(name):
    return re.sub(r"[\s_.-]", "", name.lower())


def names(**others):
    """{plain name: key} of each key and of its other names."""
    return {plain(name): key for key, other in others.items() for name in (key, *other.split())}


ROW = names(
    framework="trainer", framework_version="version", year="", gpu="accelerator gpu_type gpu_model", metric="", value="", model="", parallel="parallelism",
    job="", num_gpus="gpus n_gpus world_size num_devices num_chips num_accelerators gpu_count", gpus_per_node="num_gpus_per_node gpus_per_host devices_per_node",
    inter_node="network interconnect", seq_len="sequence_length seq_length context_length max_seq_len max_seq_length",
    global_batch="global_batch_size gbs", micro_batch="micro_batch_size mbs per_device_batch_size per_device_train_batch_size local_batch_size",
    grad_accum="gradient_accumulation_steps gradient_accumulation grad_accumulation grad_accum_steps accumulation_steps", precision="dtype",
    recompute="activation_checkpointing activation_recomputation activation_recompute gradient_checkpointing recomputation",
    attention="attention_kernel attn_implementation attn_impl", compile="torch_compile", overlap="", offload="", optimizer="")
MODEL = names(
    name="model_name", arch="architecture model_type family", layers="num_layers num_hidden_layers n_layers n_layer",
    hidden="hidden_size d_model n_embd dim model_dim embed_dim", heads="num_heads num_attention_heads n_heads n_head attention_heads",
    kv_heads="num_key_value_heads num_kv_heads n_kv_heads num_query_groups", head_dim="kv_channels head_size", moe="",
    ffn="intermediate_size ffn_hidden_size ffn_dim d_ff n_inner mlp_hidden_size", vocab="vocab_size padded_vocab_size vocabulary vocabulary_size",
    gated_mlp="swiglu glu gated gated_linear_unit", tied_embeddings="tie_word_embeddings tie_embeddings tied weight_tying", mla="",
    mtp_layers="num_nextn_predict_layers mtp_num_layers n_mtp_layers", sliding_window="window window_size", biases="bias add_bias_linear use_bias",
    position="positions position_embedding_type position_embedding")
EXPERTS = names(
    experts="num_experts n_routed_experts num_local_experts num_moe_experts moe_num_experts routed_experts n_experts num_routed_experts",
    topk="num_experts_per_tok num_experts_per_token moe_router_topk top_k moe_top_k active_experts n_activated_experts",
    moe_ffn="moe_intermediate_size moe_ffn_hidden_size expert_ffn expert_hidden expert_ffn_hidden_size expert_intermediate_size ffn intermediate_size",
    shared_experts="n_shared_experts num_shared_experts", shared_ffn="shared_expert_intermediate_size moe_shared_expert_intermediate_size",
    dense_layers="first_dense_layers first_k_dense_replace num_dense_layers n_dense_layers",
    layer_freq="moe_layer_freq moe_layer_frequency decoder_sparse_step interleave_moe_layer_step")
LATENT = names(q_lora_rank="q_lora", kv_lora_rank="kv_lora", qk_nope_head_dim="qk_nope_dim qk_head_dim", qk_rope_head_dim="qk_rope_dim qk_pos_emb_head_dim",
               v_head_dim="")
PARALLEL = names(
    dp="data data_parallel data_parallel_size dp_size", tp="tensor tensor_parallel tensor_parallel_size tensor_model_parallel_size tp_size",
    pp="pipeline pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp_size",
    vpp="vp virtual_pipeline virtual_pipeline_size virtual_pipeline_model_parallel_size num_model_chunks",
    cp="context context_parallel context_parallel_size cp_size", ep="expert expert_parallel expert_parallel_size expert_model_parallel_size ep_size",
    etp="expert_tensor expert_tensor_parallel expert_tensor_parallel_size", sequence_parallel="sp", zero_stage="zero zero_optimization_stage",
    fsdp="", hsdp_shard="hsdp_shard_size", schedule="pipeline_schedule")
NODES = ("nodes", "numnodes", "nnodes")
# HuggingFace's configurations are flat: fields that stand for experts or latent attention alone, and what shows that there are some.
FLAT = (("moe", {name: key for name, key in EXPERTS.items() if name not in MODEL}, "experts"), ("mla", LATENT, "kv_lora_rank"))

NUMBERS = {"row": ("num_gpus", "gpus_per_node", "seq_len", "global_batch", "micro_batch", "grad_accum"),
           "parallel": ("dp", "tp", "pp", "vpp", "cp", "ep", "etp", "hsdp_shard"),
           "model": ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "mtp_layers", "sliding_window"),
           "moe": ("experts", "topk", "moe_ffn", "shared_experts", "shared_ffn", "dense_layers"),
           "job": ("vocab", "zero_group", "moe_capacity")}
FLAGS = {"parallel": ("sequence_parallel", "fsdp"), "model": ("gated_mlp", "tied_embeddings", "biases"), "job": ("compile", "cuda_graph")}
NONE_IS_0 = ("vpp", "cp", "ep", "etp", "hsdp_shard", "sliding_window")
THOUSANDS = {"seq_len": 1024, "global_batch": 1024, "vocab": 1000}  # of "4k", by what is counted
NUMBER = re.compile(r"(?:[A-Za-z_-]+\s*[=:]?\s*)??(\d{1,3}(?:[, _]\d{3})+|\d+(?:\.\d+)?)\s*(k)?(?:\s*(?:sequences|samples|gpus|layers|heads))?(?:\s*\([^()]*\))?",
                    re.IGNORECASE)


def is_words(value):
    return isinstance(value, str) and not isinstance(value, Number)


def renamed(part, known):
    """`part` with its keys under the names of the format, each the first time that it says something; `unread` names the others."""
    out = {}
    for key, value in part.items():
        meant = known.get(plain(key), key)
        if key == meant:
            if value is not None or key not in out:
                out[key] = value
        elif part.get(meant) is None and out.get(meant) is None:
            out[meant] = value
        elif value is not None:
            out[key] = value
    return out


def as_flag(value):
    """True or false of a text or a number that means it; else the value."""
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("yes", "true", "on", "enabled", "1"):
        return True
    return False if word in ("no", "false", "off", "disabled", "none", "0") else value


def as_number(key, value):
    """The number that a text states: "1,024", "GBS 1024", "4k", "96 layers"; else the value."""
    text = value.strip() if is_words(value) else ""
    found = NUMBER.fullmatch(text.removesuffix("tokens").strip() if key == "seq_len" else text)
    if not found or found[2] and key not in THOUSANDS:
        return value
    digits = re.sub("[, _]", "", found[1])
    return Number(round(float(digits) * THOUSANDS[key])) if found[2] else Number(digits)


def as_stage(value):
    """The stage of "ZeRO-2", "zero3_offload", "FSDP", "distributed optimizer"; else the value."""
    word = value.strip().lower() if is_words(value) else ""
    found = re.match(r"(?:deepspeed[\s-]*)?(?:zero)?[\s_-]*(?:stage)?[\s_-]*([0-3])(?![\da-z.])", word)
    if found:
        return Number(found[1])
    names_of = ((r"(?:no|none|off|false|ddp)\b", "0"), (r"(?:\w+[\s_-])?(?:distributed|sharded)[\s_-]optimi[sz]er", "1"), (r"zero[\s-]?offload", "2"),
                (r"zero[\s-]?(?:\+\+|infinity)|fsdp|hsdp|full[\s_-]shard", "3"))
    return next((Number(stage) for form, stage in names_of if re.match(form, word)), value)


def as_year(value):
    found = re.search(r"(?<!\d)(?:19|20)\d\d(?!\d)", value) if is_words(value) else None
    return Number(found[0]) if found else value


def with_values(kind, part):
    """`part` without words that say nothing, and with numbers and flags as such."""
    out = {key: None if is_words(value) and value.strip().lower() in NOTHING else value for key, value in part.items()}
    for key in NUMBERS.get(kind, ()):
        if key in out:
            number = as_number(key, out[key])
            out[key] = None if key in NONE_IS_0 and number == "0" else number
    for key in FLAGS.get(kind, ()):
        if key in out:
            out[key] = as_flag(out[key])
    return out


def with_strategy(parallel):
    """Torch's names of FSDP's strategies (ShardingStrategy) as `fsdp` and the stage of ZeRO that they are."""
    word = plain(parallel["fsdp"]) if is_words(parallel.get("fsdp")) else ""
    for form, sharded, stage in (("noshard|ddp", False, "0"), ("gradop|zero2", True, "2"), ("full|fsdp|hsdp|hybrid|zero3", True, "3")):
        if re.search(form, word):
            stated = parallel.get("zero_stage")
            return {**parallel, "fsdp": sharded, "zero_stage": Number(stage) if stated is None else stated}
    return parallel


def in_parts(model):
    """A flat model with the shapes of its experts and of its latent attention in parts of their own."""
    for part, only, sign in FLAT:
        flat = {key: value for key, value in model.items() if plain(key) in only and value is not None}
        if flat and model.get(part) is None and sign in renamed(flat, only):
            model = {**{key: value for key, value in model.items() if key not in flat}, part: renamed(flat, only)}
    return model


def with_parallel(row):
    """Degrees that stand beside the other fields, or in words ("TP8 PP4"), as a part of their own."""
    stated = row.get("parallel")
    if is_words(stated):
        degrees = {name.lower(): Number(degree) for name, degree in re.findall(r"\b(dp|tp|pp|vpp|cp|ep|etp)\s*[=:]?\s*(\d+)", stated, re.IGNORECASE)}
        return {**row, "parallel": degrees} if degrees else row
    beside = {key: value for key, value in row.items() if plain(key) in PARALLEL and plain(key) not in ROW}
    if stated is not None or not beside:
        return row
    return {**{key: value for key, value in row.items() if key not in beside}, "parallel": beside}


def with_devices(row):
    """The bare name of a device, and how many there are where only its text ("8x A100", "H100 x 64") or a number of nodes says it."""
    gpu = row.get("gpu") if is_words(row.get("gpu")) else ""
    found = re.fullmatch(r"\s*(\d{1,6})\s*[x×*]\s*([A-Za-z].*)|(.*[A-Za-z0-9)])\s*[x×*]\s+?(\d{1,6})\s*", gpu)
    if found:
        row = {**row, "gpu": found[2] or found[3]}
    if row.get("num_gpus") is not None:
        return row
    nodes = next((key for key in row if plain(key) in NODES), None)
    counts = [as_number("nodes", row[key]) for key in (nodes, "gpus_per_node") if row.get(key) is not None]
    if len(counts) == 2 and all(isinstance(count, Number) and count.isdigit() for count in counts):
        return {**{key: value for key, value in row.items() if key != nodes}, "num_gpus": Number(int(counts[0]) * int(counts[1]))}
    return {**row, "num_gpus": Number(found[1] or found[4])} if found else row


def with_sequences(row):
    """A global batch in tokens ("4M tokens") as sequences: a million is 10^6 or 2^20, whichever the length divides."""
    batch, length = row.get("global_batch"), row.get("seq_len")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|m)?(?:illion)?\s*tokens", batch.strip(), re.IGNORECASE) if is_words(batch) else None
    if not found or not isinstance(length, Number) or not length.isdigit() or int(length) == 0:
        return row
    units = {"": (1,), "k": (1000, 1024), "m": (1000**2, 1024**2)}[(found[2] or "").lower()]
    tokens = [float(found[1]) * unit for unit in units]
    exact = next((number for number in tokens if number % int(length) == 0), tokens[0])
    return {**row, "global_batch": Number(round(exact / int(length)))}


def without_prose(job):
    """`job` with nothing for what {as_stated: ...} says that only words state; how it recomputes is read of the words themselves."""
    return {key: None if key != "recompute" and isinstance(value, dict) and set(value) == {"as_stated"} else value for key, value in job.items()}


def with_recipe(row, job):
    """Where prose names the run's configuration file, its name says how it fine-tunes (litgpt's config_hub: full.yaml, lora.yaml, qlora.yaml):
    one word may stand for a whole table of such files."""
    named = re.search(r"\bconfig \S*/(full|lora|qlora|adapter)\.ya?ml\b", str(row.get("notes")))
    if named and is_words(job.get("finetune")):
        job["finetune"] = named[1] if named[1] != "full" else "none"
    return job


def normal(row):
    """`row`, a dict as fields.parse reads it, with the names and forms of its format."""
    row = with_sequences(with_values("row", with_devices(with_parallel(renamed(row, ROW)))))
    row["year"] = as_year(row.get("year"))
    model, parallel, job = (row.get(key) for key in ("model", "parallel", "job"))
    if is_words(model):
        row["model"] = {"name": model}
    elif isinstance(model, dict):
        row["model"] = model = with_values("model", renamed(in_parts(model), MODEL))
        if isinstance(model.get("moe"), dict):
            model["moe"] = with_values("moe", renamed(model["moe"], EXPERTS)) or None
    if isinstance(parallel, dict):
        row["parallel"] = parallel = with_values("parallel", with_strategy(renamed(parallel, PARALLEL)))
        parallel["zero_stage"] = as_stage(parallel.get("zero_stage"))
        if isinstance(parallel.get("sequence_parallel"), Number) and parallel["sequence_parallel"] == parallel.get("tp"):
            parallel["sequence_parallel"] = True
    if isinstance(job, dict):
        row["job"] = with_recipe(row, with_values("job", without_prose(job)))
    return row
