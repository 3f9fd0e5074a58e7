"""What was measured, in SI units: the quantities of a run that a forecast also gives."""
import re

from .fields import Number
from .skips import Skipped

GIB = 1024.0 * 1024.0 * 1024.0
KINDS = ("allocated", "active", "reserved", "process")

# Name in a row's file, quantity of a run, factor to SI units. The order is that of a run's quantities behind its primary one.
NAMES = (
    ("iteration_s", "step_time", 1),
    ("iteration_ms", "step_time", 1e-3),
    ("tflops_per_gpu", "model_flops_per_second_per_gpu", 1e12),
    ("tokens_per_s_per_gpu", "tokens_per_second_per_gpu", 1),
    ("samples_per_s_per_gpu", "sequences_per_second_per_gpu", 1),
    ("samples_per_s", "sequences_per_second", 1),
    ("tokens_per_s", "tokens_per_second", 1),
    ("mfu", "mfu", 1),
    ("hfu", "hfu", 1),
    ("layer_fwd_bwd_ms", "layer_time", 1e-3),
    ("layer_combined_ms", "layer_time", 1e-3),
    ("layer_forward_ms", "layer_forward_time", 1e-3),
    ("layer_backward_ms", "layer_backward_time", 1e-3),
    ("peak_memory_gib", "peak_memory", GIB),
    ("peak_memory_gb", "peak_memory", 1e9),
    ("peak_allocated_bytes", "peak_memory", 1),
    ("steady_allocated_bytes", "steady_memory", 1),
    ("peak_reserved_gib", "peak_memory", GIB),
    ("peak_allocated_gib", "peak_memory", GIB),
    ("peak_active_gib", "peak_memory", GIB),
    ("peak_memory_mib", "peak_memory", 1024.0 * 1024.0),
    ("nvidia_smi_gb", "peak_memory", 1e9),
    ("oom", "outcome", 1),
)
# Other names of a row's metric, without underscores: those of other tables. Of other_metrics, only the names above count.
A_GPU = r"(?:gpu|device|chip|accelerator)"
OTHER_NAMES = (
    (r"(?:(?:step|iter(?:ation)?)(?:time|duration)?|timeper(?:step|iter(?:ation)?))(?:s|sec|secs|seconds)?|(?:s|sec|seconds)per(?:step|iter(?:ation)?)", "iteration_s"),
    (r"(?:(?:step|iter(?:ation)?)(?:time|duration)?|timeper(?:step|iter(?:ation)?))(?:ms|milliseconds)|msper(?:step|iter(?:ation)?)", "iteration_ms"),
    (rf"(?:model)?tflops?(?:pers)?(?:per{A_GPU})?", "tflops_per_gpu"),
    (rf"(?:(?:throughput)?tokens?per(?:s|sec|second)per{A_GPU}|tokensper{A_GPU}per(?:s|sec|second)|tpsper{A_GPU}|tgs)", "tokens_per_s_per_gpu"),
    (rf"(?:samples|sequences)per(?:s|sec|second)per{A_GPU}", "samples_per_s_per_gpu"),
    (r"(?:throughput)?tokens?per(?:s|sec|second)", "tokens_per_s"),
    (r"(?:throughput)?(?:samples|sequences)per(?:s|sec|second)", "samples_per_s"),
    (r"(mfu|hfu)(?:pct|percent|percentage)", r"\1"),
    (r"(?:peak|max)?(?:gpu)?(?:memory|mem)(?:allocated|usage)?(gib|gb|mib)", r"peak_memory_\1"),
    (r"(?:peak|max)(?:memory|mem)?(allocated|reserved|active)(?:memory|mem)?gib", r"peak_\1_gib"),
)
# What rows write of an outcome in words: whether memory ran out.
OUTCOMES = {"oom": True, "out of memory": True, "cuda out of memory": True, "true": True, "yes": True, "ran": False, "ok": False, "success": False,
            "fits": False, "completed": False, "pass": False, "false": False, "no": False}
OF_A_STEP = ("step_time", "model_flops_per_second_per_gpu", "tokens_per_second_per_gpu", "sequences_per_second_per_gpu",
             "sequences_per_second", "tokens_per_second", "mfu", "hfu")
RATES = tuple(q for q in OF_A_STEP if q.endswith(("_per_second", "_per_gpu")))

# Conventions by which FLOPs are counted (job.flops).
FLOPS = ("sc21_hardware", "sc21_model", "korthikanti_model", "palm", "palm_both_embeddings", "megatron_full", "megatron_causal",
         "megatron_causal_frozen")
# And those by which a framework itself counts. AutoModel: nemo-automodel 0.7.0 recipes/llm/benchmark.py:236, the whole model's FLOPs
# (components/utils/flops_utils.py, half of causal scores) times (2 + adapters / base) / 3 with PEFT; the others as their rows state it.
FLOPS_OF = (("AutoModel", "megatron_causal_frozen"), ("torchtitan", "palm"), ("nanotron", "palm"), ("llm-foundry", "palm"))
COUNTED = ("model_flops_per_second_per_gpu", "mfu", "hfu")
# Formulas in words, without spaces and signs of multiplication.
FORMULAS = ((r"96b", "sc21_hardware"), (r"72b.*12h?l", "korthikanti_model"), (r"72b", "sc21_model"), (r"6n\b|6p\b|6n_params|6\(?params|6nd|palm|32n_params", "palm"),
            (r"causal|(?:attention|scores).{0,20}half|half.{0,20}(?:attention|scores)", "megatron_causal"), (r"fullattention", "megatron_full"))


def convention(draft, whole, quantities):
    """The convention of a row's FLOPs: `job.flops`, a formula that its text states, or the framework's own; "": open, or nothing counts."""
    stated = draft.job["flops"].text()
    if stated or not any(quantity in COUNTED for quantity in quantities):
        return stated or next((name for word, name in FLOPS_OF[:1] if draft.framed(word)), "")
    text = re.sub(r"[\s*·×x]", "", whole["flops_convention"].text().lower())
    return next((name for form, name in FORMULAS if re.search(form, text)), None) or next((name for word, name in FLOPS_OF if draft.framed(word)), "")


def usual_name(metric):
    """The name above of what a row calls its metric; the metric's own where none fits."""
    if any(metric == name for name, _, _ in NAMES):
        return metric
    if metric == "outcome":
        return "oom"
    plain = re.sub(r"[\s_()-]", "", metric.lower().replace("/", "per"))
    found = next(((match, name) for match, name in ((re.fullmatch(form, plain), name) for form, name in OTHER_NAMES) if match), None)
    return found[0].expand(found[1]) if found else metric


def kind_in_name(name):
    """Some names say themselves which number of memory they are."""
    for part, kind in (("reserved", "reserved"), ("allocated", "allocated"), ("active", "active"), ("nvidia_smi", "process")):
        if part in name:
            return kind
    return ""


def fraction(printed):
    """Some files print mfu in percent: no utilisation reaches 1.5, and none that anyone published is below 1.5 percent."""
    return printed / 100 if printed > 1.5 else printed


def number_in(field):
    if isinstance(field.value, bool):
        return 1.0 if field.value else 0.0
    return field.number() if isinstance(field.value, Number) else None


class Collector:
    """Quantities as (quantity, value, kind of memory, rank), each kind of quantity once: rates of a step count as one."""

    def __init__(self, memory_kind):
        self.memory_kind = memory_kind
        self.found = []
        self.seen = set()

    def take(self, name, field):
        known = next((entry for entry in NAMES if entry[0] == name), None)
        value = number_in(field)
        if name == "oom" and value is None and field.text().strip().lower() in OUTCOMES:
            value = float(OUTCOMES[field.text().strip().lower()])
        if known is None or value is None or value < 0:
            return
        _, quantity, factor = known
        kind = (kind_in_name(name) or self.memory_kind) if quantity == "peak_memory" else ""
        self.add(quantity, fraction(value) if quantity in ("mfu", "hfu") else value * factor, kind, None)

    def add(self, quantity, value, kind, rank):
        key = ("a rate" if quantity in RATES else quantity, kind, rank)
        if key not in self.seen:
            self.seen.add(key)
            self.found.append((quantity, value, kind, rank))


def collect(whole, memory_kind, timed=True):
    """Every quantity of the row that a forecast also gives, the row's own metric first."""
    collector = Collector(memory_kind)
    collector.take(usual_name(whole["metric"].text()), whole["value"])
    others = whole["other_metrics"]
    for name, quantity, _ in NAMES:
        if timed or quantity not in OF_A_STEP:
            collector.take(name, others[name])
    by_rank = others["peak_memory_by_rank_mb"]
    for rank in by_rank.value if by_rank.is_map() else ():
        for name, kind in (("max_allocated_mb", "allocated"), ("max_reserved_mb", "reserved")):
            mib = number_in(by_rank[rank][name])  # torch's byte counts over 2^20
            if mib is not None and re.fullmatch(r"[0-9]{1,9}", rank):
                collector.add("peak_memory", mib * 1024.0 * 1024.0, kind, int(rank))
    return collector.found


def whole_number(value):
    return int(value) if value == int(value) else value


def kinds_named(text):
    """The kinds of memory that the words beside a figure name."""
    return [kind for kind, word in (("allocated", r"(?<![a-z])alloc"), ("active", r"(?<![a-z])active"), ("reserved", r"(?<![a-z])reserved"), ("process", r"nvidia[-_]smi"))
            if re.search(word, text, re.IGNORECASE)]


def memory_kind(draft, whole):
    # Where the source's own words name several kinds, it printed one of them without saying which. torchtune's README does; its 0.6.1
    # recipe for 70B with the optimizer on the CPUs, run without a GPU as tests/oracle does, allocates 8.94 GiB plus 64 MiB a layer, 13.9
    # GiB for 80, and reserves 17.0 GiB for two layers already: what the README prints is not the reserved memory.
    text = whole["other_metrics"]["memory_kind"].text()
    if len(kinds_named(text)) > 1:
        draft.remark(f"'{text}' leaves open which memory; it is taken as allocated")
        return "allocated"
    # InternEvo's log holds no figure of the allocator (train/pipeline.py, record_current_batch_training_metrics): a reading of its
    # memory is the process's.
    stated = whole["memory_kind"].text() or ("process" if draft.framed("InternEvo") else "allocated")
    if stated in KINDS:
        return stated
    if len(kinds_named(stated)) == 1:  # "max_memory_reserved"
        return kinds_named(stated)[0]
    draft.remark(f"memory_kind '{stated}' is taken as allocated")
    return "allocated"


def check_any(whole, found):
    """Raises Skipped where nothing is left to compare with; returns what is."""
    # An outcome of 0 says that the run did not run out of memory.
    valued = [entry for entry in found if entry[0] == "outcome" or entry[1] > 0]
    metric = whole["metric"].text()
    if valued:
        return valued
    if metric != "outcome" and (found or any(usual_name(metric) == name for name, _, _ in NAMES)):
        text = whole["value"]
        raise Skipped("no value", f"{metric}: '{text.text()}' is text" if text.is_text() else metric)
    if metric == "outcome":
        raise Skipped("no value", f"the outcome '{whole['value'].text()}' does not tell a crash from memory that ran out")
    raise Skipped("calculation" if re.search("simulated|calculated|estimated|theoretical", metric) else "quantity",
                  f"{metric} is no quantity of a forecast")


def measured(draft, whole, experts_alone):
    """The run's `measured`. `whole`: the row with its measured values."""
    timed = not draft.functional and not experts_alone
    out = {}
    for quantity, value, kind, rank in check_any(whole, collect(whole, memory_kind(draft, whole), timed)):
        if quantity == "outcome":
            out[quantity] = "out of memory" if value > 0 else "ran"
        elif quantity in ("peak_memory", "steady_memory"):
            entry = {"kind": kind or "allocated"}
            # Functional tests log one rank, the last, from the process's start, on toy models.
            if rank is not None or draft.functional:
                entry["rank"] = draft.ranks - 1 if rank is None else rank
            entry["bytes"] = whole_number(value)
            if draft.functional and quantity == "peak_memory":
                entry["since"] = "start"
            out.setdefault(quantity, []).append(entry)
        else:
            out[quantity.replace("layer_", "experts_") if experts_alone else quantity] = value
    for quantity in ("peak_memory", "steady_memory"):
        if quantity in out and len(out[quantity]) == 1 and set(out[quantity][0]) == {"kind", "bytes"} \
                and out[quantity][0]["kind"] == "allocated":
            out[quantity] = out[quantity][0]["bytes"]  # of the fullest rank
    return out


def measured_operator(whole):
    found = collect(whole, whole["memory_kind"].text() or "allocated")
    peak = [value for quantity, value, _, _ in check_any(whole, found) if quantity == "peak_memory"]
    if not peak:
        raise Skipped("no value", "the operator's memory")
    return {"peak_memory": whole_number(peak[-1])}
