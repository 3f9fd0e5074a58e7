"""The product's words for what rows say in words of their own. Each table: a form of the row's word without case, spaces, dashes
and underscores, and the word of a job; the first that matches whole."""
import re

from .fields import Field, Number
from .recomputation import recomputation

SCHEDULES = (
    (r"gpipe(style)?|afab|fthenb|allforwardallbackward", "gpipe"),
    (r"(noninterleaved|plain|standard)?1f1b(noninterleaved|baseline|schedule|pipeline)?|pipedreamflush|dapple", "1f1b"),
    (r"1f1bredis(tributed?)?", "1f1b_redis"),
    (r"interleaved|interleaved1f1b|1f1bi(nterleaved?)?|interleaved(schedule|pipeline)|vpp|virtualpipeline", "interleaved_1f1b"),
    (r"loopedbfs|bfs|breadthfirst(pipeline)?", "looped_bfs"),
    # Of Zero Bubble's paper: two schedules by hand, and two that its search finds in one and two times 1F1B's memory.
    (r"(zerobubble)?(zb|zerobubble)h1", "zb_h1"),
    (r"(zerobubble)?(zb|zerobubble)h2", "zb_h2"),
    (r"(zerobubble)?(zb|zerobubble)(auto)?1p", "zb_auto_1p"),
    (r"(zerobubble)?(zb|zerobubble)(auto)?2p", "zb_auto_2p"),
    (r"(zb|zerobubble)v(zerobubble)?", "zb_v"),
    (r"vhalf", "v_half"),
    (r"vmin", "v_min"),
    (r"dualpipev", "dualpipe_v"),
    (r"dualpipe", "dualpipe"),
    (r"chimera(direct)?", "chimera"),
    (r"(1f1b)?interlaced", "interlaced"),
    (r"(1f1b)?vocab1", "vocab_1"),
    (r"(1f1b)?vocab2", "vocab_2"),
    (r"interleavedzb|interleavedzerobubble", "interleaved_zb"),
    (r"zb|zerobubble(pipeline|schedule|parallelism|pp)*", "zb_h1"),  # of which frameworks have the first
)
RECOMPUTES = (
    (r"(none|no|off|false|disabled|without)(activation|gradient)?(checkpoint(ing|s)?|recomput(ation|e|ing)|ac)?", "none"),
    (r"unsloth", "unsloth"),
    (r"(ac|recompute)?(full|all)(activation|gradient|layer)?(checkpoint(ing|s)?|recomput(ation|e|ing)|ac)?|true|on|yes|uniform|everylayer|perlayer|layerwise|block|"
     r"(activation|gradient)(checkpointing|recomputation)|recomputation|fullac", "full"),
    (r"(ac)?selective(activation)?(checkpointing|recomput(ation|e|ing)|ac)?|(selective)?(coreattn|coreattention|attention)(only|recomput(e|ation|ing))?", "selective"),
)
PRECISIONS = (
    (r"(amp|mixed|pure|compute)*(bf16|bfloat16)(compute)?(mixed|amp|true|fp32)?(precision|training)?(fp32master(weights)?)?", "bf16"),
    (r"(amp|mixed|pure|compute)*(fp16|float16|half|16mixed|16true)(mixed|amp|ampo[0-3]|true|fp32)?(precision|training)?", "fp16"),
    (r"fp32|float32", "fp32"),
    (r"tf32|tensorfloat32", "tf32"),
    (r"(amp|bf16)*(fp8|float8)(blockwise|block|blockscaling|128x128|subchannel|hybrid|e4m3)*(blockwise|block|blockscaling|128x128|subchannel)"
     r"(hybrid|e4m3)*|block(wise|scaled)fp8", "fp8_block"),
    (r"mxfp8(e4m3|hybrid|mixed|bf16)*|fp8mx|(fp8)?mx(fp8)?scaling", "mxfp8"),
    (r"(nvfp4|fp4)(bf16|mixed)*", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"(amp|mixed|bf16)*(fp8|float8)(hybrid|e4m3|e5m2|delayed|current|scaling|ds|cs|tensorwise|pertensor|rowwise|full|dynamic|te|transformerengine|linears?|mixed)*"
     r"(bf16|precision)?", "fp8"),
)
LOSSES = (
    (r"eager|plain|unfused", "eager"),
    (r"(te|transformerengine|apex|triton)?fused(crossentropy|ce)?|compiled|te|transformerengine|apex|triton", "fused"),
    (r"chunked|liger(fused)?|fusedlinear(crossentropy|ce)?|cut(crossentropy)?|cce", "chunked"),
    (r"vocabparallel(crossentropy|ce)?|lossparallel", "vocab_parallel"),
)
DISPATCHERS = (
    (r"allgather", "allgather"),
    (r"alltoall(seq)?|a2a", "alltoall"),
    (r"deepep|flex|flexdeepep", "deepep"),
    (r"hybridep|flexhybridep", "hybridep"),
)
ALLOCATORS = (
    (r"default|native|caching", "default"),
    (r"expandable(segments)?(true)?", "expandable_segments"),
)
OPTIMIZERS = (
    (r"(fused|foreach|apex|distributed|torch)*adamw?(fused|torch|torchfused|apexfused|fp32|32bit)?", "adamw"),
    (r"adamw?(8bit|bnb8bit|int8)|(bnb|bitsandbytes)?8bitadamw?", "adamw_8bit"),
    (r"pagedadamw?8bit|(bnb|bitsandbytes)?8bitpagedadamw?", "adamw_8bit_paged"),
    (r"sgd(momentum)?", "sgd"),
    (r"adafactor", "adafactor"),
    (r"lion", "lion"),
    (r"(distributed|dist)?muon(clip)?", "muon"),
    (r"(distributed|fused)*lamb|(deepspeed)?cpuadam", "adamw"),  # with as many moments
)
FINETUNES = (
    (r"none|no|(continued|continual)?pretrain(ing)?|cpt|full|sft|full(parameter)?(finetun(e|ing)|sft)", "none"),
    (r"lora(r(ank)?\d+)?(alpha\d+)?|peft|dora|rslora", "lora"),
    (r"qlora(4bit|nf4|int4)?(r(ank)?\d+)?|(lora)?4bit(lora)?", "qlora"),
    (r"adapter", "adapter"),
)
# A key of `job`, its table, and words of rows that are a form of their own, which another file reads.
TABLES = {
    "schedule": (SCHEDULES, r"zb_auto(_[12]p)?|1f1b_(redis|recompute|overlap)|vocab_[12](\+\w+)?|circular|csv"),
    "recompute": (RECOMPUTES, None),
    "precision": (PRECISIONS, None),
    "loss": (LOSSES, r"chunk_list|output_chunks"),
    "dispatcher": (DISPATCHERS, None),
    "allocator": (ALLOCATORS, r"compiled"),
    "optimizer": (OPTIMIZERS, None),
    "finetune": (FINETUNES, None),
}


# Formats from the narrowest on: of products in two formats, the narrower is that of the linear layers.
NARROWEST = ("nvfp4", "mxfp4", "mxfp8", "fp8_block", "fp8", "fp16", "bf16", "tf32", "fp32")
A_FORMAT = r"(?:fp|bf|tf|float|bfloat|int|nf|mxfp|nvfp)\d"
# What else a format is stated of, beside the products.
NO_PRODUCTS = r"accumul|reduc|master|param|weight|optimi|moment|grad|state|gather|\bbase\b|copy|logits|softmax|router|embedding|mixed_precision|quant"


def word_of(table, text):
    """The word of what fits a form whole, else without what stands in brackets; None: nothing does."""
    for part in (text, re.sub(r"\([^)]*\)", "", text)):
        plain = re.sub(r"[\s_+.,:;=/()-]", "", part.lower())
        found = next((word for form, word in table if re.fullmatch(form, plain)), None)
        if found:
            return found
    return None


def format_in_clauses(text):
    """The format of the products in "bf16, gradients accumulated in fp32" or "float8 tensorwise linears + bf16"; None: a format is stated of
    something that nobody knows."""
    found = []
    for clause in re.split(r"[,;+&/]|\band\b|\bwith\b", re.sub(r"\([^)]*\)", "", text.lower())):
        if not re.search(A_FORMAT, clause) or re.search(NO_PRODUCTS, clause):
            continue
        found.append(word_of(PRECISIONS, re.sub(r"\b(?:compute[sd]?|training|linears?|gemms?|matmuls?|in)\b|\blayers \d+-\d+|\btail\b", "", clause)))
    return min(found, key=NARROWEST.index) if found and None not in found else None


def meaning(key, stated):
    """The job's word for what a row states under `key` of its `job`, or a form of memory.recompute; None: nobody knows it."""
    table, forms = TABLES[key]
    if key == "schedule":
        stated = re.sub(r"^Schedule(?=[A-Z0-9])", "", stated)  # torch's classes
    if not stated or forms and re.fullmatch(forms, stated):
        return stated
    if any(stated == word for _, word in table):
        return stated
    if key == "recompute":
        return recomputation(stated) or word_of(table, stated)
    found = word_of(table, stated)
    if found is None and key == "precision":
        return format_in_clauses(stated)
    if found is None and key == "schedule":  # "zero-bubble-2p, all-reduce optimizer synchronisation"
        return word_of(table, re.split("[,;]", stated)[0])
    return found


def shown(word):
    return word if isinstance(word, str) else ", ".join(f"{key} {' '.join(value) if isinstance(value, list) else value}" for key, value in word.items())


def understood(job, remark):
    """`job` of a row, a dict, with words of its own replaced; `remark` is told of each, and of what is left to the framework's
    default because nobody knows it."""
    out = dict(job)
    for key in TABLES:
        stated = job.get(key)
        if key == "recompute" and isinstance(stated, dict) and isinstance(stated.get("as_stated"), str) and meaning(key, stated["as_stated"]):
            stated = stated["as_stated"]
        if isinstance(stated, list) or isinstance(stated, dict) and key != "recompute":
            raise Field(stated, f"job.{key}").wrong("a word")
        if isinstance(stated, bool):
            stated = str(stated)
        if not isinstance(stated, str) or not stated:
            continue
        word = None if isinstance(stated, Number) else meaning(key, stated)
        if word == job[key]:
            continue
        out[key] = word
        remark(f"{key} '{stated}' is unknown" if word is None else f"{key} '{stated}' is taken as {shown(word)}")
    return out
