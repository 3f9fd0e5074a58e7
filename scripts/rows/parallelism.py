"""Batch, parallelism, schedule and overlap of a row."""
import re

from . import presets
from .cluster import device_of
from .finetune import write_finetune
from .layout import check_layout, chunks_of_stage, fitting_batch, interleaves_unsaid, share_states
from .memory import scales_rows
from .skips import Skipped
from .system import FULL_ITERATION_HELPERS, runs_fsdp


def write_workload(draft):
    row, flags = draft.row, draft.flags
    w = {}
    length = row["seq_len"].integer()
    w["sequence_length"] = flags["decoder-seq-length"].integer_or(length) if draft.arch == "t5" else length
    data = draft.dp
    accumulation = row["grad_accum"].count()
    micro = row["micro_batch"].count()
    batch = row["global_batch"].count()
    if batch is None and not row["num_gpus"].present() and draft.zero_stage > 0:
        raise Skipped("incomplete", "neither the number of GPUs nor the batch, with sharded states")
    if not row["num_gpus"].present() and not draft.parallel["dp"].present() and draft.zero_stage > 0 and draft.fewest_ranks > 8:
        raise Skipped("incomplete", "the number of GPUs, over which states are sharded")
    if batch is None and micro is not None:
        # Any batch that fills the pipeline has the same memory; groups of an interleaved schedule are stages wide.
        batch = micro * data * (2 * draft.pp if accumulation is None else accumulation)
        draft.assume("workload.global_batch", "the global batch")
    if batch is None:
        raise Skipped("incomplete", "neither the global batch nor the micro-batch is stated")
    if micro is None and accumulation is not None:
        micro = batch // data // accumulation
        if micro < 1:
            raise Skipped("not possible", f"a batch of {batch} over {data} ranks and {accumulation} accumulations")
    if micro is None and draft.framed("MaxText") and draft.lists_tuning and draft.pp == 1 and batch % data == 0:
        micro = batch // data  # packages maxtext 0.1.0 to 0.2.5, configs/base.yml: gradient_accumulation_steps: 1
        draft.assume("workload.micro_batch", "the framework's default: gradients are not accumulated")
    if micro is None:
        draft.micro_batch_open = True
        draft.assume("workload.micro_batch", "the largest micro-batch that fits")
    w["global_batch"] = fitting_batch(draft, batch, micro)
    if micro is not None:
        w["micro_batch"] = micro
    precision = draft.job["precision"].text()
    if not precision and row["precision"].text() in ("bf16", "fp8_full"):  # MaxText's names (quantization: fp8_full)
        precision = {"fp8_full": "fp8"}.get(row["precision"].text(), row["precision"].text())
    if not precision:
        precision = "bf16" if trains_in_bf16(draft) else "fp16"
        draft.assume("workload.precision", precision)
    if precision == "fp8" and draft.logs_mxfp8:
        precision = "mxfp8"
    # Transformer Engine's recipe Float8BlockScaling, "blockwise" to Megatron-LM's --fp8-recipe.
    if precision == "fp8" and (scales_rows(draft) or re.search(r"block-?wise|block scal|128 ?x ?128", row["precision"].text(), re.IGNORECASE)):
        precision = "fp8_block"
    if "bf16 tail" in row["precision"].text():
        draft.assume("workload.precision", "all layers alike, where the last ran in bf16")
    w["precision"] = precision
    write_finetune(draft, w)
    draft.out["workload"] = w


def trains_in_bf16(draft):
    """Whether the device has products in bf16: Volta has none."""
    name = device_of(draft)
    return not name or "/" in name or presets.stated_of("devices", name, r"^(name):") is None or (
        presets.stated_of("devices", name, r"^ +bf16: *(\S+)") is not None)


def overlaps_tensor(draft):
    text = draft.row["overlap"].text()
    return "TP comm overlap" in text or "--tp-comm-overlap" in text


def write_parallelism(draft):
    check_layout(draft)
    torchtitan = draft.framed("torchtitan")
    p = {"data": draft.dp, "tensor": draft.tp, "pipeline": draft.pp}
    chunks = chunks_of_stage(draft)
    if chunks > 1:
        p["virtual_pipeline"] = chunks
        if interleaves_unsaid(draft):
            draft.assume("parallelism.virtual_pipeline", f"{chunks} chunks a stage")
    if draft.cp > 1:
        # PyTorch's context parallelism gathers keys and values by default (torchtitan's context_parallel_rotate_method "allgather", torch's
        # _ContextParallelOptions.rotate_method); its load balance is on (enable_load_balance), as that of all others.
        # MaxText gathers them as well (its context_parallel_strategy).
        trades = trades_heads(draft)
        gathers = torchtitan or draft.framed("MaxText")
        p["context"] = {"size": draft.cp, "kind": "all_gather" if gathers else "a2a" if trades else "p2p"}
        heads = draft.out["model"].get("heads", 0) // draft.tp
        if p["context"]["kind"] == "a2a" and heads % draft.cp != 0:
            raise Skipped("not possible", f"{heads} heads of a tensor rank traded among {draft.cp} ranks")
        if draft.cuts_of_a_sequence > 1:
            draft.assume("parallelism.context", f"sequences divided among {draft.cp} chips, as there are fewer than chips")
    write_experts(draft, p)
    write_buffers(draft)
    sequence_parallel = draft.parallel["sequence_parallel"].flag()
    if sequence_parallel is not None:
        p["sequence_parallel"] = sequence_parallel and draft.tp > 1  # without tensor parallelism it does nothing
    elif draft.tp > 1 and (draft.ep > 1 or overlaps_tensor(draft) or trains_experts_in_core(draft)):
        # Megatron-LM refuses experts over tensor ranks, and --tp-comm-overlap, without it.
        p["sequence_parallel"] = True
    elif draft.tp > 1 and draft.framed("Megatron-Core") and not (draft.has_recipes or draft.functional or draft.job["finetune"].text() not in ("", "none")):
        # A library, whose default is off; recipes for it that train from scratch switch it on wherever they cut tensors
        # (megatron-bridge 0.3.1, recipes/llama/llama3.py:681).
        p["sequence_parallel"] = True
        draft.assume("parallelism.sequence_parallel", "on, as in the recipes for Megatron-Core")
    elif draft.uses_megatron and not draft.has_recipes:
        p["sequence_parallel"] = False
    write_sharding(draft, p)
    share_states(draft, p)
    if draft.slices > 1 and not draft.shards_over_slices and p.get("sharding") == "zero3":
        p["shard_size"] = draft.dp // draft.slices  # MaxText's dcn_data_parallelism is -1: slices are replicas
    write_quantised_zero(draft, p)
    write_float8_gather(draft, p)
    write_schedule(draft, p)
    write_overlap(draft, p, torchtitan)
    write_layers_per_stage(draft, p)
    if draft.flags["defer-embedding-wgrad-compute"].is_true():
        p["deferred_head_wgrad"] = draft.flags["wgrad-deferral-limit"].integer_or(0) or "all"  # 0: no limit
    draft.out["parallelism"] = p


def trades_heads(draft):
    """DeepSpeed's Ulysses and Megatron-LM's cp_comm_type a2a: all-to-all over heads."""
    text = draft.row["attention"].text() + "; " + draft.framework
    return "CP all-to-all" in text or (re.search(r"ulysses|\ball-?to-?all\b|\ba2a\b", text, re.IGNORECASE) is not None
                                       and not re.search(r"\bring\b|\busp\b", text, re.IGNORECASE))


def write_quantised_zero(draft, p):
    """ZeRO++ by the names of its parts; by its own alone, all three."""
    text = draft.row["overlap"].text() + "; " + draft.framework
    parts = [name for name in ("qwZ", "hpZ", "qgZ") if re.search(rf"\b{name}\b", text, re.IGNORECASE)]
    if not parts and re.search(r"ZeRO\s?\+\+", text, re.IGNORECASE):
        parts = ["qwZ", "hpZ", "qgZ"]
        draft.assume("parallelism.zeropp", "all of ZeRO++")
    if not parts or p.get("sharding") != "zero3":
        return
    z = {"weights": "int8"} if "qwZ" in parts else {}
    if "hpZ" in parts:
        z["partition"] = draft.out["cluster"]["gpus_per_node"]
    if "qgZ" in parts:
        z["gradients"] = "int4"
    p["zeropp"] = z


def write_float8_gather(draft, p):
    """torchtitan's float8.enable_fsdp_float8_all_gather; recipes other than one scale a tensor refuse it."""
    text = draft.row["precision"].text() + "; " + draft.row["overlap"].text()
    if not re.search(r"(float8|fp8) (FSDP )?all-gather", text) or p.get("sharding") != "zero3" or draft.out["workload"]["precision"] != "fp8":
        return
    p["float8_all_gather"] = "precomputed"
    if "precompute" not in text:
        # torchtitan's configurations that gather so do (llama3_405b.toml: precompute_float8_dynamic_scale_for_fsdp = true)
        draft.assume("parallelism.float8_all_gather", "scales of all weights found behind the optimizer")


def write_overlap(draft, p, torchtitan):
    overlap = draft.row["overlap"]
    if overlap.is_map():
        o = {}
        for key in overlap.value:
            if key not in ("grad_reduce", "param_gather"):
                draft.remark(f"'overlap.{key}' is not read")
        for key in ("grad_reduce", "param_gather"):
            on = overlap[key].flag()
            if on is not None:
                o[key] = on
        if draft.functional and draft.flags["tp-comm-overlap"].is_true() and draft.tp > 1:
            o["tensor"] = "ring"
        p["overlap"] = o
        return
    text = overlap.text()
    if re.match(r"none|no (?:communication )?overlap\b(?! stated)", text) and not torchtitan:
        # torchtitan's says that tensor parallelism is not asynchronous: fully_shard always overlaps.
        p["overlap"] = {"tensor": False, "pipeline": False, "grad_reduce": False, "param_gather": False}
        return
    o = {}
    if overlaps_tensor(draft):
        o["tensor"] = "ring"
    elif "async TP" in text or "AsyncTP" in text:
        o["tensor"] = "async"
    both = "grad reduce-scatter + param all-gather overlap" in text
    if both or re.search(r"overlap[-_]grad[-_]reduce(?!=False)|(?<!no )\bDP (?:communication )?overlap\b|"
                         r"\bgrad\w* (?:all-?reduce|reduce-?scatter|reduction) overlap", text):
        o["grad_reduce"] = True
    if both or re.search(r"overlap[-_]param[-_]gather(?!=False)", text):
        o["param_gather"] = True
    if draft.framed("nanotron") and "DDP" in text and draft.zero_stage == 0:
        o["grad_reduce"] = True  # DistributedDataParallel's hooks; with ZeRO-1 nanotron does without it (its trainer.py:608)
    if "moe EP a2a overlapped" in text or any(helper in text for helper in FULL_ITERATION_HELPERS):
        o["expert"] = True
    elif "expert" in p and draft.pp > 1 and not pairs_passes(p) and presets.stated(draft.out["system"]["use"], r"overlap: *\{[^}]*\bexpert: *(\w+)") == "true":
        o["expert"] = False
        draft.assume("parallelism.overlap.expert", "experts' messages beside nothing: the schedule has no pairs of passes")
    if o:
        p["overlap"] = o
    elif overlap.present() and (re.search("overlap|async|prefetch", text) or not overlap.is_text()):
        draft.remark(f"overlap '{text or overlap.value}' is left to the preset")


def pairs_passes(p):
    """Schedules that run a forward beside a backward pass of another micro-batch."""
    schedule = p.get("schedule", "")
    return (schedule["name"] if isinstance(schedule, dict) else schedule) in ("", "interleaved_1f1b", "dualpipe", "dualpipe_v")


def write_schedule(draft, p):
    """Of the rows' short names: an automatic schedule with its memory limit, vocabulary passes over 1F1B, redistributed layers,
    full recomputation."""
    name = draft.job["schedule"].text()
    stated = draft.stated.get("schedule") or draft.parallel["schedule"].text()
    if stated and not name and draft.pp > 1:
        draft.assume("parallelism.schedule", f"the framework's schedule, for '{stated}'")
    if draft.pp == 1 and draft.framed("nanotron"):
        # Its engines differ without stages too. One script wrote the configurations of its sweep, with and without (pp_engine).
        p["schedule"] = "1f1b"
    if draft.pp == 1 or not name:
        return
    if name in ("zb_auto_1p", "zb_auto_2p"):
        p["schedule"] = {"name": "zb_auto", "memory_limit": 1 if name == "zb_auto_1p" else 2}
    elif name == "1f1b_redis":
        p["schedule"] = "1f1b"
        p["layers_per_stage"] = "redistribute"
    elif name == "1f1b" and chunks_of_stage(draft) > 1:
        p["schedule"] = "interleaved_1f1b"
        draft.assume("parallelism.schedule", "1F1B of several chunks a stage is the interleaved one")
    elif name == "1f1b_recompute":
        p["schedule"] = "1f1b"
    elif name in ("vocab_1", "vocab_2"):
        p["schedule"] = "1f1b+" + name
    elif name.startswith("vocab_") and len(name) > 8 and name[7] == "+":
        p["schedule"] = name[8:] + "+" + name[:7]
    else:
        group = group_that_fits(draft) if name == "interleaved_1f1b" else 0
        p["schedule"] = {"name": name, "group": group} if group > 0 else name


def group_that_fits(draft):
    """Megatron-LM refuses groups of micro-batches whose last one is smaller than the stages: where those of its default, as wide
    as the stages, are, the run had others. The least that does; 0: the default."""
    w = draft.out["workload"]
    stages = draft.pp
    micro_batches = w["global_batch"] // w.get("micro_batch", 1) // max(1, draft.dp)

    def fits(group):
        return micro_batches % group == 0 or micro_batches % group >= stages

    if chunks_of_stage(draft) == 1 or micro_batches <= stages or fits(stages):
        return 0
    return next(group for group in range(stages, micro_batches + 1) if fits(group))


def write_buffers(draft):
    """MaxText's experts with sparse_matmul False (maxtext 0.2.5, layers/moe.py: dense_matmul): a capacity above 0 gives each a
    buffer, which products with masks fill and empty."""
    capacity = float(draft.tuning.get("capacity_factor", -1))
    if draft.framed("MaxText") and draft.tuning.get("sparse_matmul") == "False" and capacity > 0:
        draft.out.setdefault("moe", {}).update(capacity_factor=capacity, one_hot=True)


def trains_experts_in_core(draft):
    """Megatron-Core's MoELayer raises where it trains on several tensor ranks without sequence parallelism, whatever the
    size of the expert group (megatron-core 0.9.0, transformer/moe/moe_layer.py:103; 0.16.1, :379)."""
    return draft.framed("Megatron-Core", "NeMo", "Bridge") and draft.model["moe"].is_map()


DISPATCHES = ("deepseek",)  # presets whose source states the dispatcher


def write_experts(draft, p):
    """How many ranks cut an expert, where the row does not say: the preset's."""
    if not draft.model["moe"].is_map() and not (draft.published and draft.ep > 1):
        return
    job, flags = draft.job, draft.flags
    overlap = draft.row["overlap"].text()
    p["expert"] = draft.ep
    e = {}
    dispatcher = job["dispatcher"].text()
    if not dispatcher:
        text = "; ".join((overlap, draft.row["attention"].text(), draft.framework)).lower()
        dispatcher = next((name for name, form in (("hybridep", r"hybrid-?ep"), ("deepep", r"deep-?ep")) if re.search(rf"(?<![a-z]){form}\b(?!=)", text)), "")
    if not dispatcher and "full_iter" in overlap:
        dispatcher = "hybridep"  # a graph of the whole step leaves no host to read all-to-all's counts
    if not dispatcher and draft.minimal_async_ep:
        # torchtitan 0.3.0 distributed/minimal_async_ep/api.py: kernels that store rows into the peers' memory, whose counts stay
        # on the device: HybridEP's form.
        dispatcher = "hybridep"
        draft.assume("moe.dispatcher", "MinimalAsyncEP moves tokens as HybridEP does")
    if not dispatcher and draft.ep > 1 and not draft.functional:
        # A performance recipe of Megatron-Bridge that names no backend has all-to-all, also where the recipe that it starts from
        # takes DeepEP (0.6.2 perf_recipes/qwen/h100/qwen3_moe.py:140, b200/qwen3_moe.py:57).
        if not draft.has_recipes and draft.out["system"]["use"] not in DISPATCHES:
            dispatcher = "alltoall"  # NVIDIA's papers of expert parallelism use it; Megatron-LM's default is an all-gather
        of_preset = presets.stated(draft.out["system"]["use"], r"^ +dispatcher: *(\w+)")
        of_recipe = not dispatcher and (of_preset == "hybridep" or draft.out["system"]["use"] in DISPATCHES)
        draft.assume("moe.dispatcher", "the recipe's dispatcher" if of_recipe else "the all-to-all dispatcher")
    flag = flags["moe-token-dispatcher-type"].text()
    if flag and flag != "flex":
        dispatcher = flag
    if dispatcher:
        e["dispatcher"] = dispatcher
    # Recipes with DeepEP's kind of dispatchers leave fine-grained experts whole: so do all of NVIDIA's rows with them that state
    # a size; Megatron-LM's own default is the tensor size.
    cut = draft.parallel["etp"].count_or(1 if dispatcher in ("deepep", "hybridep") else 0)
    ranks = draft.ranks // draft.pp  # of a stage
    if cut == 0 and draft.tp > 1 and not draft.has_recipes and ranks % (draft.ep * draft.tp) != 0 and ranks % draft.ep == 0:
        cut = 1
        draft.assume("parallelism.expert_tensor", "whole experts, as a stage has too few ranks to cut them")
    if cut > 0:
        p["expert_tensor"] = cut
    capacity = job["moe_capacity"].number()
    if capacity is not None:
        e["capacity_factor"] = capacity
    if job["moe_balance"].text() in ("forced", "balanced"):
        e["balance"] = job["moe_balance"].text()
    if draft.functional and not flags["moe-grouped-gemm"].is_true():
        e["grouped"] = False
    if e:
        draft.out["moe"] = e


# Frameworks that place layers by a rule of their own, which their presets have.
SPLITTERS = ("nanotron", "InternEvo", "DeepSpeed", "torchtitan", "Colossal", "AutoModel")


def write_layers_per_stage(draft, p):
    """Layers of each virtual stage where they do not divide. Megatron-LM's runs count embedding and loss as a layer each; where
    that does not divide either, the surplus lies behind the first stage. Other frameworks' presets have their own rule."""
    layers = draft.layers if draft.published else draft.out["model"]["layers"]
    if layers is None:
        return
    flags = draft.flags
    chunks = draft.pp * chunks_of_stage(draft)
    # A prediction layer stands on the last stage in place of one of the model's.
    predictions = draft.out["model"].get("mtp_layers", 0)
    stated = (flags["account-for-embedding-in-pipeline-split"].is_true()
              and flags["account-for-loss-in-pipeline-split"].is_true())
    if "layers_per_stage" in p or chunks < 2 or chunks > 100_000 or (layers % chunks == 0 and not stated):
        return
    ends_count = (layers + 2) % chunks == 0
    if any(draft.framed(name) for name in SPLITTERS):
        if ends_count and draft.framed("DeepSpeed"):  # partition_method type:transformer|embedding
            p["embedding_as_layer"] = p["loss_as_layer"] = True
            draft.assume("parallelism.embedding_as_layer", "how the layers lie on the stages")
        return
    split = [(layers + (2 if ends_count else 0)) // chunks] * chunks
    if not ends_count and predictions > 0 and (layers + predictions) % chunks == 0 and predictions < (layers + predictions) // chunks:
        split = [(layers + predictions) // chunks] * chunks
        split[-1] -= predictions
    elif ends_count:
        split[0] -= 1
        split[-1] -= 1
    else:
        for i in range(1, layers % chunks + 1):
            split[i % chunks] += 1
    if not stated:
        draft.assume("parallelism.layers_per_stage", "how the layers lie on the stages")
    p["layers_per_stage"] = split


# Presets that shard states and reduce gradients once a step: there is no second stage, though papers name one.
REDUCES_ONCE = ("megascale", "deepseek", "megatron-lm-2022", "megatron-lm-2023", "megatron-lm-2024", "megatron-lm")


def write_sharding(draft, p):
    stage = draft.zero_stage if draft.parallel["zero_stage"].present() else None
    if runs_fsdp(draft):
        p["sharding"] = "zero3"
    elif stage == 2 and draft.keeps_last_layers:
        p["sharding"] = "zero3"
        draft.out["system"]["keeps_last_layer"] = True
        draft.assume("parallelism.sharding", "by the run's folder its last layers alone stay gathered; one is forecast so")
    elif stage == 2 and draft.out["system"]["use"] in REDUCES_ONCE:
        p["sharding"] = "zero1"
        draft.assume("parallelism.sharding", "gradients reduced once a step, which papers call ZeRO-2 as well")
    elif stage is not None and 0 <= stage <= 3:
        p["sharding"] = ("none", "zero1", "zero2", "zero3")[stage]
    elif draft.parallel["fsdp"].is_true():
        p["sharding"] = "zero3"
    elif draft.framed("DeepSpeed (HF)"):
        # accelerate 1.6.0, utils/dataclasses.py:1136: without a configuration file the stage is 2
        p["sharding"] = "zero2"
        draft.assume("parallelism.sharding", "the stage that HuggingFace's accelerate takes where none is stated")
    elif "--overlap-param-gather" in draft.row["overlap"].text():
        p["sharding"] = "zero1"  # which it refuses to run without
    elif draft.framed("Megatron-Core") and not draft.framed("unit test") and not draft.has_recipes and draft.dp * draft.cp > 1:
        # A library: its configuration's default is off, the recipes that are published for it switch it on
        # (megatron-bridge 0.3.1 recipes/common.py:82, nemo-toolkit 2.0.0 recipes/optim/adam.py).
        p["sharding"] = "zero1"
        draft.assume("parallelism.sharding", "the distributed optimizer, as in the recipes for Megatron-Core")
    elif draft.uses_megatron and not draft.has_recipes and not draft.framed("Megatron-LLaMA"):
        p["sharding"] = "none"
    ranks = draft.dp * draft.cp
    group = draft.job["zero_group"].integer_or(draft.parallel["hsdp_shard"].integer_or(ranks))
    instances = draft.flags["num-distributed-optimizer-instances"].integer()
    if instances is not None:
        group = ranks // max(1, instances)
    if 0 < group < ranks and p.get("sharding", "none") != "none":
        p["shard_size"] = group
