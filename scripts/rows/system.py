"""The preset of configs/systems that stands for a row's training system, and what the row says against it."""
import re

from . import presets


# Functions of Megatron-Bridge's performance recipes that a row names: graphs of whole steps, attention in 8 bits, and experts'
# exchange beside the passes of another micro-batch (0.6.2 perf_recipes/qwen/common.py:35, gpt_oss/common.py:52).
FULL_ITERATION_HELPERS = ("_enable_hybridep_full_iteration_mxfp8", "_apply_gpt_oss_120b_full_iter_fp8mx_configs")


def nemo(draft):
    if draft.framed("MLPerf") and draft.job["finetune"].text() == "lora":
        return ("nemo-mlperf-lora",)
    # Published pre-training of 2024 ran by NeMo's launcher. Then the containers of NeMo 2.2, 2.3 and 2.4.
    tuned = draft.job["finetune"].text() not in ("", "none")
    generations = ((2502, "nemo-2024" if tuned else "nemo-launcher-2024"), (2504, "nemo-2025-02"), (2507, "nemo-2025-04"))
    return (next((name for until, name in generations if draft.release < until), "nemo"),)


def bridge(draft):
    """Recipes of some families of models have presets of their own, named by the family; of others the releases count: that of
    26.04 has the package 0.4.0, that of 26.06 0.5 or later."""
    own = (name for name in presets.names("systems") if name.startswith("megatron-bridge-"))
    families = (name for name in own if str(draft.published).startswith(name.removeprefix("megatron-bridge-")))
    return (*families, "megatron-bridge-2026-04" if draft.release < 2606 else "megatron-bridge")


def automodel(draft):
    experts = draft.model["moe"].is_map() or draft.ep > 1
    return ("nemo-automodel-moe" if experts else "nemo-automodel",)


def torchtitan(draft):
    """By the dates of v0.2 and of the code between it and v0.3. Qwen3 is in no package before v0.2 (0.1.0 and 0.2.0, models/)."""
    old = draft.release < 2510 and not draft.model["name"].text().lower().startswith("qwen3")
    name = "torchtitan-2024" if old else "torchtitan-2025" if draft.release < 2603 else "torchtitan"
    return (name, "torchtitan", "pytorch-fsdp2")


def flash(draft):
    return "flash" in draft.attention or "cudnn" in draft.attention


def core_release(draft):
    """The middle of the time of the Megatron-Core whose version a row names, as draft.release has it; None: it names none."""
    core = re.search(r"\bcore[\s_-]*[rv]?0\.(\d+)", draft.framework.lower() + "; " + draft.row["framework_version"].text().lower())
    if core is None:
        return None
    return 2406 if int(core[1]) < 11 else 2506 if int(core[1]) < 15 else 2601  # 0.11 is of March 2025, 0.15 of December


def megatron(draft):
    if draft.flags["use-megatron-fsdp"].is_true():
        return ("megatron-fsdp",)
    year = draft.year
    old_features = (not flash(draft) and draft.ep == 1 and draft.parallel["sequence_parallel"].flag() is None
                    and draft.job["recompute"].text() == "full")
    if year <= 2021:
        return ("megatron-lm-2021",)
    if year <= 2022 or (year < 9999 and old_features):  # nothing newer shows
        return ("megatron-lm-2022",)
    if year <= 2024 and not draft.framed("Core"):
        return ("megatron-lm-2023", "megatron-lm")
    release = core_release(draft) or draft.release
    generations = ((2501, "megatron-lm-2024"), (2512, "megatron-lm-2025"))
    return (next((name for until, name in generations if release < until), "megatron-lm"), "megatron-lm")


def accumulates_in_fp32(draft):
    """Whether DeepSpeed's BF16_Optimizer ran, which sums gradients in fp32. BLOOM's runs of early 2022 went over to it when
    embedding and head became layers of the split (--pp-partition-method type:transformer|embedding): a row that does not say
    how it accumulates shows it by layers that divide only with both. Later it is what bf16 without ZeRO gets."""
    if draft.job["precision"].text() != "bf16":
        return False
    stated = draft.row["precision"].text()
    if "accumulation" in stated:
        return "fp32 gradient accumulation" in stated
    if draft.year > 2022:
        return draft.zero_stage == 0
    layers = draft.model["layers"].integer_or(0)
    return layers % draft.pp != 0 and (layers + 2) % draft.pp == 0


def megatron_deepspeed(draft):
    if draft.year <= 2021:
        return ("megatron-deepspeed-2021", "megatron-deepspeed")
    return ("megatron-deepspeed-bf16",) if accumulates_in_fp32(draft) else ("megatron-deepspeed",)


def neox(draft):
    """Version 2.0, of 2023, left DeeperSpeed for DeepSpeed itself."""
    return "gpt-neox" if draft.year <= 2022 else "megatron-deepspeed"


def runs_fsdp(draft):
    """InternEvo states FSDP as a form of its ZeRO-1 (parallel.zero1.fsdp); it is ZeRO-3. Modules are wrapped, and
    their optimizer is FSDP's, on one data rank too (0.2.2 train/training_internlm.py:124, :190)."""
    return draft.framed("InternEvo") and draft.parallel["fsdp"].is_true()


def internevo(draft):
    if runs_fsdp(draft):
        return ("internevo-fsdp",)
    # A document of 2024 that states no version measures FSDP as well, whose modules 0.2.2 of January 2024 is the last package to
    # wrap; from 0.3.10 of May 2024 on its AdamW is fused.
    old = draft.year <= 2023 or (draft.year == 2024 and not draft.row["framework_version"].present())
    return ("internevo-2023", "internevo") if old else ("internevo",)


def maxtext(draft):
    """Scripts for TPUs before Ironwood reduce gradients alone, with nothing beside."""
    device = str(draft.out["cluster"].get("device", ""))
    return ("maxtext-v6e", "maxtext") if device in ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e") else ("maxtext",)


def torchtune(draft):
    """Full fine-tuning on one device has recipes of its own; a study of optimisations one by one leaves theirs off."""
    batch, micro = draft.row["global_batch"].count_or(1), draft.row["micro_batch"].count_or(1)
    accumulates = draft.row["grad_accum"].count_or(batch // micro) > 1  # which steps in the backward pass refuse (0.6.1, recipes/full_finetune_single_device.py:153)
    alone = (draft.ranks == 1 and draft.job["finetune"].text() == "none" and not accumulates
             and not draft.job["recompute"].present())
    return ("torchtune-single", "torchtune") if alone else ("torchtune",)


def hf_trainer(draft):
    """HuggingFace's Trainer has DDP or FSDP of its own, and the stages of ZeRO from DeepSpeed."""
    if "DeepSpeed" in draft.framework or draft.zero_stage > 0 and not draft.parallel["fsdp"].is_true() and "fsdp" not in draft.framework.lower():
        return ("transformers-deepspeed",)
    return ("transformers-fsdp2",) if shards(draft) and re.search(r"fsdp\s?v?2", draft.framework.lower()) else (trainer(draft),)


def trainer(draft):
    """The generation of transformers: the major version that the row names, else by the date of 5.0.0, January 2026."""
    version = re.search(r"transformers[\s=_-]*v?(\d+)\.\d", f"{draft.framework} {draft.row['framework_version'].text()}".lower())
    old = int(version[1]) < 5 if version else draft.release < 2601
    return "transformers-4" if old else "transformers"


def composer(draft):
    """llm-foundry's training files set more than Composer does; its releases on torch before 2.1 took Composer before 0.17."""
    if not re.search("llm-?foundry", draft.framework.lower()):
        return ("composer",)
    version = re.search(r"torch (\d+)\.(\d+)", draft.row["framework_version"].text())
    early = version is not None and (int(version[1]), int(version[2])) < (2, 1)
    if early:
        return ("composer-2023",)
    return ("llm-foundry-2023" if draft.release < 2408 else "llm-foundry", "llm-foundry", "composer")  # 0.10.0 is of the end of July 2024


# Part of a framework's name, and its presets: the first that exists, as a generation that has no file falls back on its
# ancestor. The first line that fits.
FRAMEWORKS = (
    ("zero-bubble", ("zero-bubble", "megatron-lm-2023")),
    ("VocabularyParallelism", ("vocabulary-parallelism", "zero-bubble", "megatron-lm-2023")),
    ("MaxText", maxtext),
    ("Bridge", bridge),
    ("AutoModel", automodel),
    ("NeMo", nemo),
    ("Megatron-DeepSpeed", megatron_deepspeed),
    ("Megatron-LLaMA", ("megatron-llama", "megatron-lm-2023")),
    ("Megatron-Kwai", ("megatron-kwai", "megatron-lm-2023")),
    ("Megatron", megatron),
    ("torchtune", torchtune),
    ("torchtitan", torchtitan),
    ("Composer", composer),
    ("Aleph Alpha", ("aleph-alpha-scaling",)),
    ("InternEvo", internevo),
    ("litgpt", lambda draft: ("litgpt-fsdp" if draft.zero_stage == 3 or draft.parallel["fsdp"].is_true() else "litgpt", "litgpt")),
    ("nanotron", ("nanotron",)),
    ("HF Trainer", hf_trainer),
    ("DeepSpeed", ("deepspeed",)),
)

# Forms of other frameworks' names, in lower case: those that have a preset of their own.
OTHER_FRAMEWORKS = (
    (r"\balpa\b", "alpa"),
    (r"angel-?ptm", "angel-ptm"),
    (r"coloss", "colossal-ai"),
    (r"\bhai-?llm|deepseek", "deepseek"),
    (r"fairscale", "fairscale"),
    (r"flexflow", "flexflow"),
    (r"gpipe", "gpipe"),
    (r"horovod", "horovod"),
    (r"lightseq", "lightseq"),
    (r"llm-?foundry", lambda draft: composer(draft)[0]),
    (r"megascale", "megascale"),
    (r"mindnlp", "mindnlp"),
    (r"neox|deeperspeed", neox),
    (r"nnscaler", "nnscaler"),
    (r"\bolmoe?\b(?![-_ ]?core)", "olmo"),
    (r"paddle", "paddlenlp"),
)

FSDP = "FSDP of the year"

# And those of frameworks that nobody describes, which behave as a preset of their kind.
KINDS = (
    (r"mosaic", "composer"),
    (r"olmo-?core", "pytorch-fsdp2"),  # ai2-olmo-core 3.0.0, nn/transformer/model.py: fully_shard
    (r"\bfms\b|foundation model stack", "pytorch-fsdp1"),  # fms-fsdp is in no package: from memory
    # From memory: what these are made of, whose own code decides.
    (r"nanogpt", "pytorch-ddp"),
    (r"llama-?factory|unsloth|xtuner|ms-swift|axolotl|\btrl\b", "transformers"),
    (r"levanter|easylm", "maxtext"),
    (r"metaseq|fairseq", "fairscale"),  # FairScale's sharding, its tensor-parallel layers Megatron-LM's
    (r"deepspeed|\bzero\b|zero-?[123]\b|zero-infinity", "deepspeed"),
    (r"\bjax\b|gspmd|\bflax\b|\bt5x\b|\bpax|\bxla\b|\btpu", "maxtext"),
    (r"hugging ?face|\bhf\b|transformers|accelerate", "transformers"),
    (r"fsdp-?1\b|fsdp v1", "pytorch-fsdp1"),
    (r"fsdp\s?v?2|fully_shard", "pytorch-fsdp2"),
    (r"fsdp|fully.?shard", FSDP),
    (r"torch|lightning|\bddp\b|distributed ?data ?parallel", "pytorch-ddp"),
)
IN_WORDS = {
    "composer": "Composer",
    "fairscale": "FairScale",
    "deepspeed": "DeepSpeed",
    "maxtext": "MaxText",
    "pytorch-fsdp1": "PyTorch's first FSDP",
    "pytorch-fsdp2": "PyTorch's FSDP2",
    "pytorch-ddp": "PyTorch's DistributedDataParallel",
    "transformers": "HuggingFace's Trainer",
    "transformers-4": "HuggingFace's Trainer",
    "torchtitan": "torchtitan",
}


def torch_preset(draft, named):
    """The preset of PyTorch's own parallelism that runs what the row states. `named`: what the framework's name says."""
    if draft.zero_stage == 1:
        return "deepspeed"  # neither DDP nor FSDP shards optimizer states alone
    if max(draft.tp, draft.pp, draft.cp, draft.ep) > 1:
        return "torchtitan"  # which combines FSDP with DTensor and pipelines
    if named == FSDP or named == "pytorch-ddp" and shards(draft):
        # fully_shard, the second FSDP, is in torch since 2.4 of July 2024 (distributed/_composable/fsdp).
        return "pytorch-fsdp1" if draft.year <= 2023 else "pytorch-fsdp2"
    return named


def shards(draft):
    """Whether gradients or parameters are sharded."""
    return draft.zero_stage > 1 or draft.parallel["fsdp"].is_true()


def named_kind(text):
    return next((preset for form, preset in KINDS if re.search(form, text.lower())), None)


def kind_of(draft):
    """The preset for a framework that nobody describes; None: Megatron-LM's."""
    named = named_kind(in_front(draft)) or named_kind(draft.framework)
    if named in ("composer", "deepspeed", "maxtext", "fairscale"):
        return named
    if named is None and not shards(draft):
        return None
    return torch_preset(draft, named or FSDP)


def in_front(draft):
    """The name itself: brackets behind it say what it is made of, "metaseq (fairseq + Megatron-LM's layers)"."""
    return draft.framework.split(" (")[0]


def described(draft, text):
    """The presets of the framework that a text names, best first; None: nobody describes it."""
    for name, wanted in FRAMEWORKS:
        if name in text:
            return wanted(draft) if callable(wanted) else wanted
    for form, preset in OTHER_FRAMEWORKS:
        if re.search(form, text.lower()):
            return (preset(draft) if callable(preset) else preset,)
    return None


def systems(draft):
    """The presets that the row's framework wants, best first."""
    of_a_kind = (described(draft, in_front(draft)) is None and named_kind(in_front(draft))
                 and "backend" not in draft.framework.lower())  # "ms-swift (Megatron backend)"
    wanted = None if of_a_kind else described(draft, draft.framework)
    if wanted:
        return wanted
    kind = kind_of(draft)
    if kind == "transformers":
        kind = trainer(draft)
    if kind in presets.names("systems"):
        assume(draft, IN_WORDS[kind])
        return (kind,)
    assume(draft, "Megatron-LM")
    return ("megatron-lm-2023" if flash(draft) or draft.year > 2022 else "megatron-lm-2022", "megatron-lm")


def assume(draft, name):
    why = f"'{draft.framework}' behaves as {name}"
    draft.assume("system", why)
    draft.remark(f"framework {why}")


def lift_limits(draft, s):
    """A framework that behaves as a preset need not have its limits; nor has a fork of a framework that ran a schedule which the
    framework lacks."""
    if "system" in draft.assumed:
        s.update(cannot={}, schedules=[])
        return
    # The rows' short names (parallelism.py: write_schedule) by the schedule that they vary.
    stated = re.sub(r"^(zb_auto|1f1b(?!_overlap)).*", r"\1", draft.job["schedule"].text())
    known = presets.schedules(s["use"])
    if draft.pp > 1 and stated and known and stated not in known and not stated.startswith("vocab"):
        s["schedules"] = []
        draft.assume("system.schedules", f"this {draft.framework} runs {stated}")


def write_system(draft):
    wanted = systems(draft)
    s = {"use": next((name for name in wanted if name in presets.names("systems")), wanted[-1])}
    lift_limits(draft, s)
    flags = draft.flags
    if draft.functional:
        s["gradient_accumulation_fusion"] = not flags["no-gradient-accumulation-fusion"].is_true()
        if flags["transformer-impl"].text() == "local":
            s["transformer_engine"] = False
        # CUBLAS_WORKSPACE_CONFIG=:KiB:count sets the workspace of a cuBLAS handle.
        workspace = re.fullmatch(r":([0-9]{1,7}):([0-9]{1,3})", draft.row["env"]["CUBLAS_WORKSPACE_CONFIG"].text())
        if workspace:
            s["gemm_workspace"] = f"{int(workspace[1]) * int(workspace[2])} KiB"
        if flags["no-masked-softmax-fusion"].is_true():
            s["fused_softmax"] = False
        if flags["no-rope-fusion"].is_true():
            s["fused_rotary"] = False
    if "all-reduce optimizer synchronisation" in draft.parallel["schedule"].text():
        s["optimizer_post_validation"] = False
    if "tp_linear_async_communication" in draft.row["overlap"].text():  # nanotron's option
        s["async_tensor_backward"] = True
    if draft.row["env"]["CUDA_LAUNCH_BLOCKING"].text() == "1":
        s["launch_blocking"] = True
    if draft.aleph_alpha:  # "+ RMS kernel": FlashAttention's fused norm, else PyTorch's operators
        raw = draft.row["attention"].text()
        s["fused_norm"] = "RMS kernel" in raw
        s["fused_softmax"] = raw == "fused"  # Megatron-LM's kernel, against torch's operators
    draft.out["system"] = s
