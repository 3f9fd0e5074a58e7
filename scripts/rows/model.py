"""The model of a row."""
import re

from .skips import Skipped, measures_experts

# GPT-2's byte-pair vocabulary, the default of the frameworks' GPT examples.
DEFAULT_VOCAB = 50257
# Llama's: with it, counted once, the zero-bubble models of 6.2B and 14.6B have as many parameters as they are named by (with
# GPT-2's 6.3 and 14.7).
LLAMA_VOCAB = 32000
# Megatron-LM, --hidden-dropout and --attention-dropout.
MEGATRON_DROPOUT = 0.1


def likely_heads(hidden, groups=1):
    """Heads nearest to 128 wide, in eights so that tensor ranks divide them, and in whole groups of keys and values."""
    if groups > 8 and hidden % groups == 0:
        return max(1, round(hidden / groups / 128)) * groups
    eighths = hidden // 8 if hidden > 0 and hidden % 8 == 0 else 0
    divisors = {d for n in range(1, int(eighths**0.5) + 1) if eighths % n == 0 for d in (n, eighths // n)}
    best = 1
    for heads in (8 * d for d in sorted(divisors)):
        if abs(hidden // heads - 128) < abs(hidden // best - 128):
            best = heads
    return best


def write_model(draft):
    if draft.published:
        draft.out["model"] = {"use": draft.published}
        return
    model, flags = draft.model, draft.flags
    m = {}
    hidden = model["hidden"].integer()
    if hidden < 1:
        raise Skipped("not possible", f"a width of {hidden}")
    heads = model["heads"].integer()
    if draft.arch == "t5":  # both stacks; the decoder's length is the workload's
        encoder = flags["encoder-num-layers"].integer_or(0)
        m["layers"] = encoder + flags["decoder-num-layers"].integer_or(0)
        m["encoder_layers"] = encoder
        m["encoder_sequence"] = draft.row["seq_len"].integer()
    elif flags["hybrid-layer-pattern"].present():
        write_hybrid_layers(flags, hidden, m)
    else:
        m["layers"] = model["layers"].integer()
        if m["layers"] is None:
            raise Skipped("incomplete", "the number of layers")
        if draft.arch == "bert":
            m["encoder_layers"] = m["layers"]
    if m["layers"] < 1:
        raise Skipped("not possible", f"{m['layers']} layers")
    if measures_experts(draft.row):
        m["mixers"] = "-"
    m["hidden"] = hidden
    m["heads"] = likely_heads(hidden, model["kv_heads"].integer_or(1)) if heads is None else heads
    if heads is None:
        draft.assume("model.heads", f"{m['heads']} heads")
    for key in ("kv_heads", "head_dim"):
        if model[key].present():
            m[key] = model[key].integer()
    moe = model["moe"]
    expert_ffn = moe["moe_ffn"].integer_or(model["ffn"].integer_or(4 * hidden))
    m["ffn"] = model["ffn"].integer_or(expert_ffn if moe.is_map() else 4 * hidden)
    write_vocab(draft, m)
    m["gated_mlp"] = flag_or(model["gated_mlp"], draft.llama_like)
    m["tied_embeddings"] = flag_or(model["tied_embeddings"], not draft.llama_like)
    write_positions(draft, m)
    rms = flags["normalization"].text() == "RMSNorm" if draft.functional else draft.llama_like
    m["norm"] = "rms" if rms else "layer"
    m["biases"] = (not flags["disable-bias-linear"].is_true() if draft.functional
                   else flag_or(model["biases"], not draft.llama_like))
    m["dropout"] = dropout(draft)
    if flags["qk-layernorm"].is_true() or norms_heads(draft):
        m["qk_norm"] = True
    if moe.is_map():
        if not moe["experts"].present():
            raise Skipped("incomplete", "the number of experts")
        m["moe"] = experts(moe, expert_ffn)
        write_layer_frequency(moe, m)
    write_window(model, m)
    predictions = model["mtp_layers"].integer_or(flags["mtp-num-layers"].integer_or(0))
    repeated = predictions > 1 and flags["mtp-use-repeated-layer"].is_true()
    if predictions > 0:
        m["mtp_layers"] = predictions
    if repeated:
        m["mtp_repeated"] = True
    write_latent_attention(draft, m)
    draft.out["model"] = m


# Letters of Megatron-LM's --hybrid-layer-pattern (megatron-core 0.19.2, models/hybrid/hybrid_layer_allocation.py: Symbols): a layer's
# mixer and MLP.
LETTERS = {"M": "m-", "*": "a-", "-": "-d", "E": "-e"}


def write_hybrid_layers(flags, hidden, m):
    """Layers that are a mixer or an MLP each; behind a stroke stand prediction layers. Sizes of Mamba that no flag states are
    megatron-core's (0.16.1, transformer/transformer_config.py:846 to :857, ssm/mamba_mixer.py:164: twice the width in heads, chunks of
    128 tokens)."""
    layers = flags["hybrid-layer-pattern"].text().split("/")[0]
    if not layers or set(layers) - set(LETTERS):
        raise Skipped("architecture", "layers " + layers)
    m["layers"] = len(layers)
    m["mixers"], m["mlps"] = ("".join(LETTERS[letter][part] for letter in layers) for part in (0, 1))
    if "M" in layers:
        width = flags["mamba-head-dim"].integer_or(64)
        m["mamba"] = {"heads": flags["mamba-num-heads"].integer_or(2 * hidden // width), "head_dim": width,
                      "state": flags["mamba-state-dim"].integer_or(128), "groups": flags["mamba-num-groups"].integer_or(8), "chunk": 128}


def norms_heads(draft):
    """Families whose attention norms each head's query and key, which no field says (transformers 5.24.0,
    models/qwen3/modeling_qwen3.py and models/gemma3/modeling_gemma3.py: q_norm and k_norm)."""
    return re.match(r"qwen-?3|gemma-?3", draft.model["name"].text().rsplit("/", 1)[-1].lower()) is not None


# Keys of a job's model.mla, and how rows name them.
LATENT = (("q_lora_rank", ("q_lora_rank", "q_lora")), ("kv_lora_rank", ("kv_lora_rank", "kv_lora")),
          ("qk_nope_dim", ("qk_nope_head_dim", "qk_nope_dim", "qk_nope")),
          ("qk_rope_dim", ("qk_rope_head_dim", "qk_rope_dim", "qk_rope")), ("v_dim", ("v_head_dim", "v_dim", "v")))


def write_latent_attention(draft, m):
    """Multi-head latent attention, which rows state beside the model's shape or among that of its experts; launch flags have
    Megatron-LM's defaults."""
    flags = draft.flags
    stated = next((f["mla"] for f in (draft.model, draft.model["moe"]) if f["mla"].is_map()), None)
    if stated is not None:
        m["mla"] = {key: next((stated[name].integer() for name in names if stated[name].present()), 0) for key, names in LATENT}
        missing = [key for key, size in m["mla"].items() if size <= 0 and key != "q_lora_rank"]
        if missing:
            raise Skipped("incomplete", "the sizes of latent attention: " + ", ".join(missing))
    elif flags["multi-latent-attention"].is_true():
        m["mla"] = {"q_lora_rank": flags["q-lora-rank"].integer_or(0),
                    "kv_lora_rank": flags["kv-lora-rank"].integer_or(32),
                    "qk_nope_dim": flags["qk-head-dim"].integer_or(128),
                    "qk_rope_dim": flags["qk-pos-emb-head-dim"].integer_or(64),
                    "v_dim": flags["v-head-dim"].integer_or(128)}
    if "mla" in m:  # whose heads have sizes of their own
        m.pop("kv_heads", None)
        m.pop("head_dim", None)


def flag_or(field, otherwise):
    found = field.flag()
    return otherwise if found is None else found


# ALiBi is a bias on the attention scores: no parameters, nothing moved; nor have sinusoids any.
POSITIONS = ((r"rot|rope|mrope|yarn", "rotary"), (r"learned|absolute|trained", "learned"), (r"none|nope|no|alibi|sinus", "none"), (r"relative|t5", "relative"))


def write_positions(draft, m):
    positions = draft.model["position"].text()
    if draft.functional:
        positions = draft.flags["position-embedding-type"].text()
        positions = "learned" if positions in ("", "learned_absolute") else positions
    if not positions:
        positions = "rotary" if draft.llama_like else "learned"
    m["positions"] = next((kind for form, kind in POSITIONS if re.match(form, positions.lower())), None)
    if m["positions"] is None:
        draft.remark(f"position '{positions}' is unknown")
        m["positions"] = "rotary" if draft.llama_like else "learned"
    if m["positions"] == "learned":
        m["max_positions"] = draft.flags["max-position-embeddings"].integer_or(draft.row["seq_len"].integer())


def write_window(model, m):
    """Every layer has the window, but for "alternate layers sliding/full" (gpt-oss)."""
    window = model["sliding_window"].integer()
    if window is None or window <= 0:
        return
    m["sliding_window"] = window
    if "alternate" in model["window_pattern"].text():
        m["mixers"] = "wa"


def write_vocab(draft, m):
    vocab = draft.job["vocab"].integer()
    if vocab is None:
        vocab = draft.model["vocab"].integer()
    if vocab is None:
        vocab = LLAMA_VOCAB if draft.zero_bubble else DEFAULT_VOCAB
        if not measures_experts(draft.row):
            draft.assume("model.vocab", f"a vocabulary of {vocab}")
    unit = (128 if draft.uses_megatron else 1) * draft.tp  # --make-vocab-size-divisible-by
    padded = draft.job["vocab"].present() and vocab % draft.tp == 0
    m["vocab"] = vocab if padded else (vocab + unit - 1) // unit * unit


def dropout(draft):
    if draft.functional:
        stated = draft.flags["hidden-dropout"].number()
        return MEGATRON_DROPOUT if stated is None else stated
    return 0.0 if draft.llama_like or not draft.uses_megatron else MEGATRON_DROPOUT


# Layers of experts among dense ones: every n-th, in words.
FREQUENCIES = ((r"every (?:other|second)(?: layer)?|alternat(?:e|ing)(?: layers)?", 2), (r"every third(?: layer)?", 3),
               (r"every fourth(?: layer)?|every 4th(?: layer)?", 4))


def layer_frequency(field):
    """The n of experts in every n-th layer; None: of another form."""
    text = field.text().strip().lower()
    if re.fullmatch(r"[1-9][0-9]?", text):
        return int(text)
    return next((n for form, n in FREQUENCIES if re.fullmatch(form, text)), None)


def write_layer_frequency(moe, m):
    """Megatron-LM's --moe-layer-freq (megatron-core 0.16.1, models/gpt/gpt_layer_specs.py, get_gpt_decoder_layer_specs: a layer whose
    index is a multiple of n has experts), a number, words, or its list's usual form (leading_dense_layers)."""
    field = moe["layer_freq"]
    if not field.present() or leading_dense_layers(moe) > 0 or re.fullmatch(r"\(?\[1\]\*[0-9]{1,4}\)?", field.text().replace(" ", "")):
        return
    every = layer_frequency(field)
    if every is None:
        raise Skipped("architecture", f"experts in layers '{field.text() or field.value}'")
    if every > 1:
        m["mlps"] = "e" + "d" * (every - 1)


def leading_dense_layers(moe):
    """Of Megatron-LM's --moe-layer-freq in its usual form, ([0]*dense+[1]*experts)."""
    found = re.fullmatch(r"\(\[0\]\*([0-9]{1,4})\+\[1\]\*[0-9]{1,4}\)", moe["layer_freq"].text().replace(" ", ""))
    return int(found[1]) if found else 0


def experts(moe, ffn):
    e = {"experts": moe["experts"].integer_or(0), "topk": moe["topk"].integer_or(1), "ffn": ffn}
    shared_ffn = moe["shared_ffn"].integer_or(0)
    shared = moe["shared_experts"].integer_or(0)
    if shared > 0 or shared_ffn > 0:
        e["shared_experts"] = max(shared, 1)
        if shared_ffn > 0:
            e["shared_ffn"] = shared_ffn // max(shared, 1)
    dense = moe["dense_layers"].integer_or(moe["first_dense_layers"].integer_or(leading_dense_layers(moe)))
    if dense > 0:
        e["dense_layers"] = dense
    latent = next((moe[name].integer() for name in ("latent", "latent_size", "moe_latent_size") if moe[name].present()), 0)
    if latent > 0:
        e["latent"] = latent
    return e
