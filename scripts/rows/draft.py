"""A row's configuration on its way to a job: what several of its parts ask."""
import json
import re

from . import presets
from .fields import Field, Number
from .known_models import known_model, with_predictions
from .unread import unread
from .words import meaning, understood

# What no job may depend on: a field that repeats measured values, or prose. `gpu` counts where one operator was measured.
NOT_CONFIGURATION = ("id", "source", "value", "other_metrics", "notes", "metric", "memory_kind", "flops_convention", "verified", "gpu",
                     "inferred", "command", "p20", "p80")

# Frameworks as the tables below spell them; other rows write them in other cases.
SPELLINGS = ("Megatron-LM", "Megatron-Core", "Megatron-Bridge", "Megatron-DeepSpeed", "Megatron-LLaMA", "Megatron", "AutoModel", "NeMo", "MaxText",
             "torchtune", "torchtitan", "llm-foundry", "Composer", "InternEvo", "litgpt", "nanotron", "HF Trainer",
             "DeepSpeed", "LLaMA-Factory", "Unsloth", "MLPerf", "Aleph Alpha", "VocabularyParallelism", "zero-bubble")


# Families by the name of their architecture (transformers' model_type and its kin), without spaces, points and dashes: decoders as GPT-3
# (layer norm, biases), or as Llama (RMS norm, rotary, gated).
FAMILIES = (
    (r"gpt\d?|gpt(2|3|neo|neox|j|bigcode)|opt|bloom|falcon|mpt|starcoder\d?|codegen|pythia|cerebrasgpt|megatron(gpt)?|metaseq|turingnlg|galactica", "gpt"),
    (r"llama\d*|(code)?llama|mistral|mixtral|qwen\d*(moe)?|yi|internlm\d*|baichuan\d*|gemma\d*|phi[34]|olmo\d?|olmoe|aquila\d*|deepseek(v\d)?(moe)?|dbrx|grok\d*|"
     r"(chat)?glm[45]?(moe)?|minicpm\d?|palm|smollm\d?|kimi(k2)?|granite(moe)?|cohere\d?|commandr|exaone\d?|skywork(moe)?|xverse(moe)?|hunyuan(moe)?|gptoss|ernie45?(moe)?|apertus|"
     r"seedoss|minimax(m\d)?|stablelm", "llama"),
    (r"moe|mixtureofexperts|moetransformer", "moe"),
)

OTHERS = ("bert", "t5", "hybrid", "single MoE layer")  # which a row states in a form of its own


def family_of(name):
    """The family of an architecture's name; None: nobody knows it."""
    return next((family for form, family in FAMILIES if re.fullmatch(form, re.sub(r"[\s_.-]", "", name.lower()))), None)


# kernels.attention of a job file.
ATTENTION_KERNELS = ("unfused", "efficient", "flash1", "flash2", "flash3", "cudnn")


def spelled(framework):
    framework = re.sub(r"deepspeed\s?[-+/&]\s?megatron(?![A-Za-z])", "Megatron-DeepSpeed", framework, flags=re.IGNORECASE)
    framework = re.sub(r"megatron(?:[\s_-]?lm)?\s?(?:[+&]|\band\b|\bwith\b|\bon\b)\s?deepspeed(?![A-Za-z])", "Megatron-DeepSpeed", framework, flags=re.IGNORECASE)
    framework = re.sub(r"megatron[\s_-]?(lm|core|bridge|deepspeed|llama|kwai)(?![A-Za-z])", r"Megatron-\1", framework, flags=re.IGNORECASE)
    framework = re.sub(r"\bllm[\s_]?foundry\b", "llm-foundry", framework, flags=re.IGNORECASE)
    framework = re.sub(r"\bllama[\s_]?factory\b", "LLaMA-Factory", framework, flags=re.IGNORECASE)
    framework = re.sub(r"\blit-?gpt\b", "litgpt", framework, flags=re.IGNORECASE)
    framework = re.sub(r"\bm-?core\b", "Megatron-Core", framework, flags=re.IGNORECASE)
    framework = re.sub(r"\bhugging\s?face(?:'s)?(?=[\s+/)-])|\bhf(?=[\s+/)-])", "HF", framework, flags=re.IGNORECASE)
    framework = re.sub(r"\bHF (?:transformers )?trainer\b", "HF Trainer", framework, flags=re.IGNORECASE)
    for name in SPELLINGS:
        framework = re.sub(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", name, framework, flags=re.IGNORECASE)
    return framework


def with_job(row):
    """Where `job` leaves the device open, the name of `gpu` stands. A row without `job` states all in its other fields."""
    gpu, job = row.get("gpu"), row.get("job")
    if job is None:
        job = {}
    if not isinstance(job, dict):
        raise Field(job, "job").wrong("an object")
    if isinstance(gpu, str) and not isinstance(gpu, Number) and job.get("device") is None:
        job = {**job, "device": gpu}
    return {**row, "job": job}


def compiles(field):
    """Whether a row's words say that torch.compile ran: a flag, a word, or the lines of a log that name what was compiled; None: they do not."""
    if isinstance(field.value, bool):
        return field.value
    if field.is_list():
        return True if any(line.startswith("Compiling") for line in field.texts()) else None
    word = field.text().strip().lower()
    if re.match(r"torch\.?compile\b|compiled?\b|inductor\b", word):
        return True
    return True if word in ("yes", "on", "true") else False if re.match(r"(?:no|off|false|eager|none|not)\b", word) else None


# Keys of `job` that other fields state in words: taken where `job` leaves them open and the words are understood whole.
IN_WORDS = (("precision", ("precision",)), ("recompute", ("recompute",)), ("compile", ("compile",)), ("optimizer", ("optimizer",)),
            ("schedule", ("parallel", "schedule")))


def with_words(row, remark):
    """`job` with what the row's other fields say in words that are understood; `remark` is told of those that are not."""
    job = dict(row["job"])
    of_maxtext = "maxtext" in str(row.get("framework")).lower()  # whose policies memory.py reads
    for key, path in IN_WORDS:
        stated = Field(row)
        for part in path:
            stated = stated[part]
        if job.get(key) is not None or not stated.present():
            continue
        if key == "compile":
            job[key] = compiles(stated)
        elif (stated.is_text() or isinstance(stated.value, bool)) and (key == "optimizer" or meaning(key, stated.text())):
            job[key] = stated.text()
        elif stated.text() and not (of_maxtext and key == "recompute"):
            remark(f"{key} '{stated.text()}' is not understood")
    return {**row, "job": job}


def with_memory_of(row):
    """Torch's log gives memory as a share of the device's, which tells a GB200 (184 GiB) from a B200 (178 GiB): configs/devices,
    usable_memory."""
    gpu, job = row.get("gpu"), row.get("job")
    if isinstance(gpu, str) and re.match(r"B200-18[45]GiB", gpu) and isinstance(job, dict) and job.get("device") == "b200-sxm":
        return {**row, "job": {**job, "device": "gb200"}}
    return row


def tuning(prose):
    """A recipe's settings by name, which stand as JSON behind "tuning:" in the prose alone; {}: none."""
    found = re.search(r"tuning: (\{[^{}]*\})", prose)
    try:
        return {str(k): str(v) for k, v in json.loads(found[1]).items()} if found else {}
    except ValueError:
        return {}


class Draft:
    def __init__(self, row):
        """`row`: a dict as fields.parse reads it."""
        self.assumed = {}  # key of the job: why
        self.remarks = [f"'{path}' is not read" for path in unread(row)]  # what was not known
        stated = {key: value for key, value in with_words(with_memory_of(with_job(row)), self.remark).items() if key not in NOT_CONFIGURATION}
        self.stated = stated["job"]  # in the row's words
        stated["job"] = understood(stated["job"], self.remark)
        self.unknown = [key for key, value in stated["job"].items() if value is None and self.stated[key] is not None]
        if isinstance(stated.get("model"), dict):
            stated["model"] = self.with_family(stated["model"])
        self.row = Field(stated)
        self.model, self.parallel, self.job, self.flags = (self.row[key] for key in ("model", "parallel", "job", "extra_args"))
        # No field says whether LoRA trains the vocabulary's layers as well: a table's "LoRA (emb)" is in the prose alone.
        # litgpt's tutorials: "Finetuning with Adapter on 1 GPU adapter_v2", whose quantised rows are filed as qlora.
        named = re.search(r"\bwith Adapter\b(?:.*?\b(adapter_v2)\b)?", str(row.get("notes")))
        self.adapter_of_prose = named and (named[1] or "adapter")
        self.trains_vocabulary = "LoRA (emb)" in str(row.get("notes"))
        self.slices = 1  # of a TPU pod
        prose = str(row.get("notes"))
        # The name of a run's folder, in its command: its last layers are not resharded behind the forward pass. The row's ZeRO stage
        # is then 2, as of a run of which no layer is.
        self.keeps_last_layers = re.search(r"last-(?:\w+-)?layers?-no-reshard", str(row.get("command"))) is not None
        self.logs_mxfp8 = "to MXFP8Training" in prose  # torchtitan's log of torchao's tensors
        # Nor does any name torchtitan's dispatcher.
        self.minimal_async_ep = "MinimalAsyncEP" in prose
        self.plain_loss = prose.startswith("plain CrossEntropyLoss")
        self.shards_over_slices = "dcn_fsdp_parallelism" in prose
        self.tuning = tuning(prose)
        self.lists_tuning = "tuning: {" in prose
        # The first line of a study one by one that packs sequences from its second line on.
        self.unpacked = prose.startswith("cumulative: Baseline;") and "baseline is unpacked" in prose
        self.framework = spelled(self.row["framework"].text())
        # A model that states no width is a published one, whose shape its name stands for.
        self.published = None if self.model["hidden"].present() else known_model(self.model["name"].text())
        self.functional = self.flags.is_map()  # a test of a framework's own, with its launch flags
        self.out = {}      # the job
        self.take_predictions()
        self.micro_batch_open = False

    def with_family(self, model):
        """The model's `arch` as the tables know it, where the row names its family, or the gate of its MLP or its name alone say which."""
        arch = model.get("arch")
        experts = isinstance(model.get("moe"), dict)
        if isinstance(arch, str) and arch:
            found = family_of(arch) or next((one for one in OTHERS if one.lower() == arch.lower()), None)
            if found is None:
                return model
            if found != arch:
                self.remark(f"arch '{arch}' is taken as {found}")
            return {**model, "arch": found}
        name = model.get("name")
        gated = model.get("gated_mlp")
        named = family_of(re.sub(r"[\s_-]?\d+(?:[.x]\d+)*[bmt]\b.*", "", name.lower())) if isinstance(name, str) else None
        if arch is None and model.get("hidden") is not None and (isinstance(gated, bool) or named):
            found = "moe" if experts else named if gated is None else "llama" if gated else "gpt"
            self.assumed["model.norm"] = f"a decoder like {'GPT-3' if found == 'gpt' else 'Llama'}'s"
            return {**model, "arch": found}
        return model

    def assume(self, key, why):
        self.assumed.setdefault(key, why)

    def take_predictions(self):
        """Megatron-Bridge's recipes of published models train their prediction layers (megatron-bridge 0.6.2,
        recipes/nemotronh/h100/nemotron_3_super.py:98, recipes/deepseek/h100/deepseek_v3.py:123)."""
        trained = with_predictions(self.published)
        if self.framed("Bridge") and trained != self.published:
            self.published = trained
            self.assume("model.mtp_layers", "the recipe's prediction layers")

    def remark(self, text):
        self.remarks.append(text)

    def framed(self, *words):
        return any(word in self.framework for word in words)

    @property
    def arch(self):
        return self.model["arch"].text()

    @property
    def llama_like(self):
        return self.arch != "gpt"

    @property
    def year(self):
        return self.row["year"].integer_or(9999)

    # ---- degrees
    @property
    def tp(self):
        return self.parallel["tp"].count_or(1)

    @property
    def pp(self):
        return self.parallel["pp"].count_or(1)

    @property
    def cp(self):
        return self.parallel["cp"].count_or(1) * self.cuts_of_a_sequence

    @property
    def cuts_of_a_sequence(self):
        """Among how many chips MaxText divides a sequence where a batch has fewer sequences than there are chips: a batch of less than a
        sequence a device is not possible without (its per_device_batch_size is a fraction then)."""
        batch = self.row["global_batch"].count()
        each = (self.row["num_gpus"].count() or 1) // (self.tp * self.pp * self.parallel["cp"].count_or(1))
        return each // batch if self.framed("MaxText") and batch and each > batch and each % batch == 0 else 1

    @property
    def ep(self):
        return self.parallel["ep"].count_or(1)

    @property
    def stated_ranks(self):
        """The number of GPUs, or what data parallelism or the batch says of it; None: the row does not say."""
        row = self.row
        stated, dp = row["num_gpus"].count(), self.parallel["dp"].count()
        if stated is None and dp is None:
            batch, micro, accumulation = (row[key].count() for key in ("global_batch", "micro_batch", "grad_accum"))
            dp = batch // (micro * accumulation) if batch and micro and accumulation and batch % (micro * accumulation) == 0 else None
        return stated if stated is not None or dp is None else dp * self.tp * self.pp * self.parallel["cp"].count_or(1)

    @property
    def ranks(self):
        model_parallel = self.tp * self.pp * self.cp
        stated = self.stated_ranks
        # Functional tests run on one node of eight.
        return stated if stated is not None else max(8, self.fewest_ranks) // model_parallel * model_parallel

    @property
    def fewest_ranks(self):
        """Of the layout, and of its experts, which are cut as the rest of a layer where nothing else is said (megatron-core 0.16.1,
        parallel_state.py:786)."""
        return max(self.tp * self.pp * self.cp, self.pp * self.ep * self.parallel["etp"].count_or(self.tp))

    @property
    def dp(self):
        """What the number of GPUs leaves for it: a row may count context parallelism as data parallelism, or experts' ranks alone."""
        model_parallel = self.tp * self.pp * self.cp
        stated = self.parallel["dp"].count_or(max(1, self.ranks // model_parallel))
        return stated if self.ranks % model_parallel != 0 else self.ranks // model_parallel

    @property
    def layers(self):
        """The number of layers, also of a published model; None: not known."""
        return presets.size_of(self.published, "layers") if self.published else self.model["layers"].integer()

    @property
    def states_no_degree(self):
        return not any(self.parallel[key].present() for key in ("dp", "tp", "pp", "cp", "ep", "zero_stage", "fsdp"))

    @property
    def zero_stage(self):
        stage = self.parallel["zero_stage"].integer(0, 3) or 0
        # --data-parallel-sharding-strategy is Megatron-FSDP's (megatron-core 0.16.1, distributed/fsdp/mcore_fsdp_adapter.py).
        if self.functional and stage > 1 and not self.flags["use-megatron-fsdp"].is_true():
            return 1 if self.flags["use-distributed-optimizer"].is_true() else 0
        return stage

    # ---- whose row it is
    @property
    def uses_megatron(self):
        return self.framed("Megatron", "NeMo")

    @property
    def has_recipes(self):
        """Whether the preset has what NVIDIA's recipes switch on, against Megatron-LM's own defaults."""
        return self.framed("NeMo", "Bridge", "AutoModel")

    @property
    def aleph_alpha(self):
        return self.framed("Aleph Alpha")

    @property
    def zero_bubble(self):
        return self.framed("zero-bubble")

    @property
    def release(self):
        """The release YY.MM that a framework's version names (NVIDIA's containers and recipes), as 100 YY + MM, or that of the
        PyTorch it names; else the middle of the row's year; 9999 where that is open as well."""
        version = re.sub(r"ubuntu\s*[\d.]+", "", self.row["framework_version"].text(), flags=re.IGNORECASE) or self.framework
        found = re.search(r"(?:^|[^\d.])(2\d)\.(\d\d)(?!\d)", version, re.ASCII)
        middle = 100 * (self.year - 2000) + 6 if self.year < 2100 else 9999
        # Two years before the row, it is that of another image than the one that ran.
        if found and not (self.year < 2100 and int(found[1]) < self.year - 2001):
            return 100 * int(found[1]) + int(found[2])
        pytorch = (2310, 2401, 2404, 2407, 2410, 2501)  # 2.1 to 2.6
        found = re.search(r"PyTorch 2\.([1-6])\.", version)
        if found:
            return pytorch[int(found[1]) - 1]
        return middle

    @property
    def attention(self):
        raw = self.row["attention"].text()
        if self.aleph_alpha:
            # Its kernels have names of their own: "torch" and "fused" keep the scores.
            return "unfused" if raw in ("torch", "fused") else "flash1" if "attentionv1" in raw else "flash2"
        if "cuDNN" in raw and re.search(r"\bFP8_DPA=(?:1|True)\b", self.row["overlap"].text()):
            return "cudnn"  # no other kernel of Transformer Engine's reads 8 bits
        # Transformer Engine of 2023 took FlashAttention where cuDNN's kernels do now; version 2 since autumn.
        if self.framed("NeMo") and "flash" in raw and self.release < 2400:
            return "flash2" if self.release >= 2308 else "flash1"
        if self.framed("NeMo") and "cuDNN/flash" in raw:
            return "cudnn"  # since then it takes cuDNN's on Hopper and later
        if "FlexAttn" in raw:
            return "flash2"  # Triton's kernels of torch's flex_attention are at most as fast; Transformer Engine does the rest
        if "attn_impl=triton" in raw:
            return "flash1"  # Triton's port of the first FlashAttention (llm-foundry's attn_impl: triton)
        # The row's words are read where `job` has none; TPUs have one kernel (splash).
        return self.kernel_of(self.job["attention"].text() or ("" if self.framed("MaxText") or "splash" in raw else raw))

    def kernel_of(self, stated):
        """The product's kernel for a row's word, where that word is another: flash attention without a version is that of its
        year (FlashAttention-2 appeared in July 2023, arXiv 2307.08691). What nobody knows is told, and left to the preset."""
        word = stated.lower()
        if not word or word in ATTENTION_KERNELS:
            return word
        if re.match(r"(?:torch |pytorch )?(?:naive|eager|math|standard|vanilla|plain|unfused|non-?fused|local)(?: attention| softmax)?(?:\s*[(,;].*)?$", word):
            return "unfused"
        if re.search(r"sdpa|scaled.dot.product|flex", word) and ("flash" in word or "cudnn" not in word):
            # torch's kernels are those of FlashAttention-2 since 2.2, of January 2024; its flex_attention's are at most as fast.
            kernel = "flash2" if self.year >= 2024 else "flash1"
            self.assume("kernels.attention", f"'{stated}' is {kernel} in {self.year}")
            return kernel
        version = re.search(r"flash[a-z _-]*v?([123])|\bfa-?v?([123])\b", word)
        if version:
            return "flash" + (version[1] or version[2])
        if "cudnn" in word or "fused attention" in word or word == "fused":
            return "cudnn"
        if "triton" in word and "flash" in word and self.year <= 2023:
            return "flash1"  # Triton's ports were of the first
        if re.search(r"composable|\bck\b|aiter", word):
            return "flash2"  # AMD's kernels, in FlashAttention-2's form
        if "flash" in word or "xformers" in word or "efficient" in word:
            kernel = "flash1" if self.year <= 2022 else "flash2"
            self.assume("kernels.attention", f"'{stated}' is {kernel} in {self.year}")
            return kernel
        self.remark(f"attention '{stated}' is unknown")
        return ""
