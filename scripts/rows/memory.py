"""Kernels and memory of a row: attention, loss, recomputation, allocator, formats."""
import re

from . import presets
from .cluster import device_of
from .offload import of_everything, offloaded_activations, offloaded_states
from .recomputation import PER_OP, modules_of
from .system import FULL_ITERATION_HELPERS


HOST = {"host_memory": "1152 GiB", "host_memory_bandwidth": "281.6 GB/s", "cpu_cores": 48}  # a machine of eight, configs/nodes/aws-p4d.yaml


def compiles_loss(draft):
    """torchtitan compiles the loss with the model since March 2025 (components/loss.py), when nightly builds of torch became
    2.8."""
    torch = re.search(r"torch 2\.([0-9]{1,3})", draft.row["framework_version"].text())
    return draft.job["compile"].is_true() and torch is not None and int(torch[1]) >= 8


def traces_alone(draft):
    """torchtitan's experiments trace the step into one graph and run its operators as PyTorch does, kernel by kernel: what they
    hand to Inductor is attention. graph_trainer (0.3.0 experiments/graph_trainer/configs.py:114): inductor_compilation "regional";
    compiler_toolkit before it (0.2.2 experiments/compiler_toolkit/graph_utils.py:257): no passes by default."""
    return draft.framed("torchtitan") and re.search(r"graph_trainer|compiler_toolkit|\bgraph\b", draft.row["compile"].text()) is not None


def captures_graph(draft):
    """graph_trainer's pass that captures the traced step as a CUDA graph."""
    return traces_alone(draft) and re.search(r"\+ cudagraph\b", draft.row["compile"].text()) is not None


def captures_layers(overlap):
    """NeMo's MLPerf configurations: a graph a layer."""
    return re.search(r"\b(?:LAYER|MCORE)_CUDA_GRAPH=1", overlap) is not None


def states_graphs(overlap):
    """"cuda_graph=IMPLEMENTATION:SCOPE", as Megatron-Bridge's recipes have it; its oldest form is none:full_iteration."""
    return re.search(r"\bcuda_graph=(?!(?:none|off|false|False|0)(?![\w:]))", overlap) is not None


def graphed_modules(draft, overlap):
    """What graphs capture of each layer, where they do not capture the step (kernels.cuda_graph_modules)."""
    scope = re.search(r"cuda_graph=transformer_engine:(\[[^\]]*\]|\w+)", overlap)
    if scope:
        return re.findall(r"\w+", scope[1])
    if captures_layers(overlap) or "cuda_graph=enabled:per-layer" in overlap:
        return ["attn", "mlp", "moe"]
    return []


def compiles_loss_alone(draft):
    """By torchtitan's log lines: of the loss, of each TransformerBlock or of what is most of it. In 16 bits, runs of edited
    parallelize.py compile blocks without that line. Or in words."""
    lines = draft.row["compile"]
    if draft.framed("torchtitan") and "(loss compiled)" in lines.text():
        return True
    return (lines.is_list() and draft.job["precision"].text() != "bf16"
            and not any("TransformerBlock" in line or "feed-forward" in line for line in lines.texts()))


def scales_rows(draft):
    """torchao's recipe "rowwise", the one of torchtitan's Float8Linear by 2026: a row or a column is the block that shares a
    scale."""
    return draft.framed("torchtitan") and ("rowwise" in draft.row["precision"].text() or (
        draft.row["year"].integer_or(0) >= 2026 and draft.job["compile"].is_true() and not compiles_loss_alone(draft)))


# Compute capabilities that kernels of attention need (src/job/facts.cpp), the newest first.
NEEDED = (("flash3", 9.0), ("flash2", 8.0), ("cudnn", 8.0), ("flash1", 7.5), ("efficient", 5.0), ("unfused", 0.0))


def kernel_of_device(draft, kernel):
    """A row's kernel, or where its device cannot run that one, the newest older one that it runs."""
    name = device_of(draft)
    if kernel in ("flash1", "flash3", "cudnn") and name and presets.stated_of("devices", name, r"^vendor: *(\w+)") == "amd":
        return "flash2"  # what AMD's kernels of any name are like
    stated = presets.stated_of("devices", name, r"^compute_capability: *([\d.]+)") if name else None
    names = [one for one, _ in NEEDED]
    if stated is None or kernel not in names or float(stated) >= dict(NEEDED)[kernel]:
        return kernel
    older = next(one for one, needed in NEEDED[names.index(kernel):] if float(stated) >= needed)
    draft.assume("kernels.attention", f"{older}, as {name} does not run {kernel}")
    draft.remark(f"attention {kernel} is taken as {older}, as {name} does not run it")
    return older


def write_kernels(draft):
    row, job = draft.row, draft.job
    k = {}
    if draft.attention:
        k["attention"] = kernel_of_device(draft, draft.attention)
    else:
        draft.assume("kernels.attention", "the framework's attention kernel")
    compiled = job["compile"].flag()
    if compiled is not None:
        k["compile"] = compiled and not compiles_loss_alone(draft) and not traces_alone(draft)
    elif traces_alone(draft):
        k["compile"] = False
    elif draft.framed("torchtitan"):
        draft.assume("kernels.compile", "no compiler, the framework's default")
    overlap = row["overlap"].text()
    graphs = job["cuda_graph"].flag()
    if graphs is not None:
        k["cuda_graph"] = graphs
    elif captures_graph(draft) or captures_layers(overlap) or "full_iter" in overlap or states_graphs(overlap):  # named in the recipe's helpers alone
        k["cuda_graph"] = True
    modules = graphed_modules(draft, overlap)
    if modules and k.get("cuda_graph"):
        k["cuda_graph_modules"] = modules
    if re.search(r"\bUSE_TE_OPS=(?:1|True)\b", overlap):
        k["fused_casts"] = True
    narrow = re.search(r"\bFP8_DPA=(\w+)", overlap)
    if narrow:
        k["fp8_attention"] = narrow[1] in ("1", "True")
    elif any(helper in overlap for helper in FULL_ITERATION_HELPERS):
        k["fp8_attention"] = True
    elif draft.out["system"]["use"] == "megatron-bridge-nemotron-3" and draft.release >= 2608:
        # megatron-bridge 0.6.2 perf_recipes/nemotronh/gb200/nemotronh.py:149 and :616; nvfp4 and the releases before are without.
        k["fp8_attention"] = draft.out["workload"]["precision"] == "mxfp8"
        draft.assume("kernels.fp8_attention", "the recipe's attention")
    write_loss(draft, k)
    if k:
        draft.out["kernels"] = k


def write_loss(draft, k):
    loss = draft.job["loss"].text()
    if not loss and draft.framed("Unsloth"):
        loss = "chunked"  # unsloth 2026.10.9, models/llama.py:2122: unsloth_fused_ce_loss
        draft.assume("kernels.loss", "the framework's default loss")
    titan, tune = draft.framed("torchtitan"), draft.framed("torchtune")
    if loss:
        # torchtune's chunks of logits all stand until their backward pass (CEWithChunkedOutputLoss).
        k["loss"] = "fused" if tune and loss == "chunked" else loss
    elif titan and draft.plain_loss:
        k["loss"] = "eager"
    elif titan and draft.row["year"].integer_or(0) >= 2026:
        draft.assume("kernels.loss", "the framework's default loss")
    elif titan and compiles_loss(draft):
        draft.out["system"]["compiles_loss"] = True  # loss.py: loss_fn = torch.compile(loss_fn) with [training] compile
    elif tune and draft.job["recompute"].present():
        # A study of optimisations one by one: those that it does not name are off.
        k["loss"] = "eager"
        if draft.job["compile"].is_true():
            # Of compile_loss the recipes drop the result, so that only the loss in chunks, which it changes, is compiled (torchtune
            # 0.6.1 recipes/full_finetune_distributed.py:345, training/_compile.py:76).
            draft.out["system"]["compiles_loss"] = False
        draft.assume("kernels.loss", "a plain loss")
    elif tune:
        draft.assume("kernels.loss", "the framework's default loss")


def parameter_format(draft):
    """The format in which weights stand, where the row says it (MLPerf's FP8_PARAMS; FP8_PARAM_GATHER of LoRA's rows says nothing of
    frozen weights, which are not gathered); None: the preset's."""
    stated = re.match(r"params (bfloat16|float16|float32)\b", draft.row["precision"].text())
    if stated:
        return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[stated[1]]
    precision = draft.out["workload"]["precision"]
    of_preset = presets.stated(draft.out["system"]["use"], r"dtypes: *\{[^}]*\bparameters: *(\w+)")
    if of_preset == "fp8" and precision in ("bf16", "fp16"):
        return precision  # the preset's runs have products in 8 bits
    if of_preset == "fp32" and re.search(r"\bpure[\s_-]?(?:bf|bfloat|fp)16\b|\b(?:bf16|16|fp16)[\s_-]true\b", draft.row["precision"].text(), re.IGNORECASE):
        return precision  # no copy in fp32, which the preset keeps
    if precision == "nvfp4" and draft.job["finetune"].text() == "lora":
        return "fp8"  # a frozen weight's two copies, along rows and columns, have 9 bits an element together
    stated = re.search(r"\bFP8_PARAMS=(\w+)", draft.row["overlap"].text())
    if stated and precision in ("fp8", "mxfp8"):
        return "fp8" if stated[1] in ("1", "True") else "bf16"
    return None


def write_remat_policy(draft, m):
    """MaxText's remat_policy (package maxtext 0.2.5, layers/nnx_decoders.py:1278, configs/base.yml:450): "custom" keeps
    decoder_layer_input on the device unless it says otherwise, and what else it names; False: the row names no policy."""
    policy = draft.tuning.get("remat_policy") or draft.row["recompute"].text()
    if not draft.framed("MaxText") or policy not in ("full", "custom", "qkv_proj_offloaded"):
        return False
    m["recompute"] = "full"
    if policy == "custom" and draft.tuning.get("decoder_layer_input") == "offload":
        m["offload"] = {"activations": "cpu"}
    elif policy == "qkv_proj_offloaded":
        draft.assume("memory.recompute", "queries, keys and values, which are in host memory, are computed again")
    return True


def write_parts_recomputed(draft, recompute, m):
    """Recomputation of some layers, modules or operators."""
    layers = next((key for key in ("every", "uniform", "block") if recompute[key].present()), None)
    modules, others = modules_of(recompute["modules"].texts())
    if others:
        draft.remark(f"recompute '{', '.join(others)}' is no module that is known")
        draft.assume("memory.recompute", "without the modules that are not known")
    policy = PER_OP.get(recompute["per_op"].text())
    if layers:
        m["recompute"] = {layers: recompute[layers].count()}
    elif recompute["modules"].present() and (modules or not others):
        m["recompute"] = {"modules": modules} if modules else "none"
    elif policy:
        m["recompute"] = {"per_op": policy}
    else:
        draft.assume("memory.recompute", "the framework's default recomputation")


def write_recompute(draft, m):
    if write_remat_policy(draft, m):
        return
    recompute = draft.job["recompute"]
    if recompute.is_map():
        write_parts_recomputed(draft, recompute, m)
    elif draft.job["schedule"].text() == "1f1b_recompute":
        m["recompute"] = "full"
    elif recompute.present():
        stated = recompute.text()
        m["recompute"] = stated
        if stated == "unsloth":  # layer inputs in host memory (unsloth_zoo 2026.10.9, gradient_checkpointing.py:608)
            m["recompute"] = "full"
            m["offload"] = {"activations": "cpu"}
        if draft.framed("torchtitan") and stated == "selective":
            del m["recompute"]  # the default of its mode, which is the preset's
            draft.assume("memory.recompute", "which selective mode torchtitan ran")
        layers = draft.flags["recompute-num-layers"].integer_or(1)
        method = draft.flags["recompute-method"].text()
        if stated == "full" and method in ("uniform", "block"):
            m["recompute"] = {method: layers}
    elif draft.framed("Unsloth"):  # unsloth 2026.10.9, models/llama.py:4579: use_gradient_checkpointing = "unsloth"
        m.update(recompute="full", offload={"activations": "cpu"})
        draft.assume("memory.recompute", "the framework's default: full, layer inputs in host memory")
    elif draft.framed("LLaMA-Factory"):  # llamafactory 0.9.5, hparams/model_args.py:145: disable_gradient_checkpointing False
        m["recompute"] = "full"
        draft.assume("memory.recompute", "the framework's default: full")
    else:
        draft.assume("memory.recompute", "the framework's default recomputation")


def trains_without_engine(draft):
    """LoRA by HuggingFace's Trainer without ZeRO (its own rows: on one GPU): no engine of DeepSpeed's, which would keep fp32 copies, and
    weights as the model's code loads them: in the format that trains (axolotl 0.19.0, utils/config/__init__.py:199; unsloth 2026.10.9,
    models/loader.py:1051)."""
    alone = draft.out["system"]["use"] in ("transformers", "transformers-4") or (draft.framed("HF Trainer") and draft.ranks == 1)
    return (alone and draft.job["finetune"].text() == "lora" and draft.zero_stage == 0 and not draft.parallel["fsdp"].is_true()
            and draft.job["precision"].text() == "bf16")


def state_host_memory(draft):
    """States in host memory need its size and rate, which not every reference node has."""
    cluster = draft.out["cluster"]
    node = presets.stated_of("clusters", cluster["use"], r"^node: *([\w.-]+)")
    for key, value in HOST.items():
        if node and presets.stated_of("nodes", node, rf"^({key}):") is None:
            cluster.setdefault("node", {})[key] = value
            draft.assume(f"cluster.node.{key}", f"{value}, as AWS p4d has it")


def write_memory(draft):
    job, flags = draft.job, draft.flags
    m = {}
    if draft.functional and flags["optimizer"].text() == "muon":
        m["optimizer"] = "muon"
    elif job["optimizer"].text():
        m["optimizer"] = job["optimizer"].text()
    write_recompute(draft, m)
    if job["allocator"].text():
        m["allocator"] = job["allocator"].text()
    moved = offloaded_activations(draft.row)
    if moved is not None:
        layers, modules = moved
        m["offload"] = {"activations": "cpu"}
        if modules:
            m["offload"]["activation_modules"] = modules
        if layers > 0:
            m["offload"]["activation_layers"] = layers
    states, offload = offloaded_states(draft.row), draft.row["offload"].text()
    if states is not None:
        m.setdefault("offload", {}).update(states)
    elif moved is None and not of_everything(offload) and offload.lower() not in ("", "none", "no", "false"):
        draft.remark(f"offload '{offload}' is not read")
    precision = job["precision"].text()
    if re.search(r"\bFP8_ACT(?:IVATION)?=(?:1|True)\b", draft.row["overlap"].text()):  # activation_func_fp8_input_store
        m["fp8_activation_input"] = True
    parameters = parameter_format(draft)
    if parameters:
        m["dtypes"] = {"parameters": parameters}
    if draft.out["system"]["use"].startswith("megatron-bridge-"):
        draft.assume("memory.dtypes.moments", "the recipe's formats")
    if draft.out["system"]["use"] == "nemo-launcher-2024":
        draft.assume("memory.dtypes.gradients", "gradients in bf16, as NeMo's launcher set them (from memory)")
    if "mixed_precision PURE" in draft.row["precision"].text():  # Composer's, which reduces in 16 bits as well
        m["dtypes"] = {"reduce": "fp16" if precision == "fp16" else "bf16"}
    formats = {key: flags[f"megatron-fsdp-{name}-dtype"].text()
               for key, name in (("master", "main-params"), ("gradients", "main-grads"), ("reduce", "grad-comm"))}
    formats = {key: name for key, name in formats.items() if name in ("fp32", "bf16", "fp16")}
    if formats:
        m["dtypes"] = formats
    if draft.functional and precision == "fp16" and not flags["accumulate-allreduce-grads-in-fp32"].is_true():
        m["dtypes"] = {"gradients": "fp16", "reduce": "fp16"}  # Megatron's default for --fp16
    if (draft.out["system"]["use"] == "transformers" and draft.framed("LLaMA-Factory") and not parameters
            and draft.job["finetune"].text() in ("", "none")):
        m["dtypes"] = {"parameters": "fp32"}  # llamafactory 0.9.5, model/adapter.py:314: what trains is widened, but with pure_bf16
    if trains_without_engine(draft):
        # transformers 4.32.0 training_args.py:1050 (optim "adamw_torch"), trainer.py:1038: torch.optim.AdamW without arguments, which
        # is foreach on devices (torch 2.0, optim/adamw.py: _default_to_fused_or_foreach).
        draft.out["system"]["foreach_optimizer"] = True
        if draft.year <= 2023:  # torch 2.0.1 optim/adamw.py:566; 2.1 of October 2023 adds in place
            draft.out["system"]["foreach_denominator"] = True
        if draft.year != 2024 and not draft.trains_vocabulary:
            # peft 0.5.0, tuners/lora.py:158: adapters stay in fp32. From 0.6 (November 2023) to 0.11 they take the weight's format;
            # since 0.12 (July 2024) they are cast to fp32 again (0.12.0 tuners/tuners_utils.py:316). Beside
            # the copy of 16 bits that torch.autocast keeps of each, that is a 16-bit parameter with an fp32 master copy.
            m["dtypes"] = {"parameters": "bf16", "master": "fp32", "gradients": "fp32", "reduce": "fp32", "moments": "fp32"}
            draft.out["system"]["casts_adapter_inputs"] = True  # :904
            release = "before 0.6 leaves" if draft.year <= 2023 else "since 0.12 casts"
            draft.assume("memory.dtypes.master", f"LoRA's adapters in fp32, as PEFT {release} them")
        else:
            m["dtypes"] = {"parameters": "bf16", "master": None, "gradients": "bf16", "reduce": "bf16", "moments": "bf16"}
            where = "on one GPU " if draft.ranks == 1 else ""
            draft.assume("memory.dtypes.master", f"LoRA {where}trains in the format in which the model is loaded")
    if of_everything(offload):
        m["offload"] = {"optimizer": "cpu", "parameters": "cpu", "gradients": "cpu", "prefetch": 0}
    if "offload" in m and not draft.out["cluster"]["use"].startswith("tpu"):
        state_host_memory(draft)
    if m:
        draft.out["memory"] = m
    algorithms = {"Ring": "ring", "Tree": "tree", "NVLS": "nvls", "NVLSTree": "nvlstree"}
    algorithm = algorithms.get(draft.row["env"]["NCCL_ALGO"].text())
    if algorithm:
        draft.out["nccl"] = {"algo": algorithm}
