"""llm-foundry's MPT in Composer's Trainer: its FSDP1, its checkpoints of blocks and what it keeps between batches."""
import torch

import absent
import flash_attention

flash_attention.stand_in()
# Readers of data, writers of logs and checkpoints, models of images.
absent.stand_in_packages("PIL", "boto3", "bs4", "datasets", "git", "google", "mcli", "mlflow", "onnx", "pandas", "pyarrow", "rich", "slack_sdk",
                         "streaming", "torchvision")
import composer
import llmfoundry  # noqa: F401
from composer.core import Callback
from flash_attn import bert_padding
from llmfoundry.metrics import TokenAccuracy
from llmfoundry.models.mpt import ComposerMPTCausalLM
from llmfoundry.optim import DecoupledLionW
from composer.optim import ConstantScheduler, DecoupledAdamW

import step
import world


def record(case):
    world.join(case)
    composer.utils.dist.initialize_dist = lambda *_: None  # it would ask for NCCL
    flash_attention.longest_sample, bert_padding.unpad_input = case.sequence, unpadded
    model = build(case)
    # llm-foundry's own training file (scripts/train/yamls/pretrain/mpt-7b.yaml), as far as it is not the default.
    fsdp = {"sharding_strategy": "FULL_SHARD" if case.parallelism.get("reshard_after_forward", True) else "SHARD_GRAD_OP",
            "mixed_precision": case.option("mixed_precision", "PURE"), "activation_checkpointing": case.recompute == "full",
            "activation_checkpointing_reentrant": bool(case.option("reentrant", False)), "activation_cpu_offload": False,
            "limit_all_gathers": bool(case.option("limit_all_gathers", True))}
    marks = Marks()
    TokenAccuracy.update = compared
    update = DecoupledAdamW.adamw  # it divides by powers of the count of steps, which it reads from the device
    DecoupledAdamW.adamw = staticmethod(lambda *lists, **settings: update(*lists[:-1], [torch.ones(())] * len(lists[-1]), **settings))
    optimizers = {"adamw": DecoupledAdamW, "lion": DecoupledLionW}
    optimizer = optimizers[case.option("optimizer", "adamw")](model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.0)
    trainer = composer.Trainer(
        model=model, optimizers=optimizer, schedulers=ConstantScheduler(), max_duration="1ba", precision="amp_bf16",
        train_dataloader=composer.core.DataSpec(Batches(case), get_num_samples_in_batch=lambda batch: len(batch["input_ids"])),
        device_train_microbatch_size=case.micro_batch, parallelism_config={"fsdp": fsdp}, callbacks=[marks], progress_bar=False,
        algorithms=[composer.algorithms.GradientClipping(clipping_type="norm", clipping_threshold=1.0)] if case.option("clip", True) else [])

    def train_step(mark):
        marks.begin(mark)
        trainer.fit(duration="1ba")

    return step.measure(train_step)


def build(case):
    m = case.model
    attention = {"attn_impl": "flash"}
    kv_heads = getattr(m, "kv_heads", m.heads)
    if kv_heads != m.heads:
        attention |= {"attn_type": "grouped_query_attention", "kv_n_heads": kv_heads}
    if m.positions == "rotary":
        attention |= {"rope": True, "rope_impl": case.option("rotary", "hf"), "rope_theta": 500000}
    return ComposerMPTCausalLM(
        d_model=m.hidden, n_heads=m.heads, n_layers=m.layers, vocab_size=m.vocab, max_seq_len=case.sequence, attn_config=attention,
        ffn_config={"ffn_type": "mptglu" if m.gated_mlp else "mptmlp", "ffn_hidden_size": m.ffn, "ffn_act_fn": {"name": "silu" if m.gated_mlp else "gelu"}},
        learned_pos_emb=m.positions == "learned", no_bias=not getattr(m, "biases", False), use_cache=False,
        norm_type=case.option("norm", "low_precision_layernorm"), tie_word_embeddings=getattr(m, "tied_embeddings", False),
        init_device="meta", loss_fn=case.option("loss", "fused_crossentropy"), use_train_metrics=bool(case.option("metrics", True)))


def unpadded(hidden, mask, unused=None):
    """bert_padding.unpad_input of samples without padding: it counts the mask's ones on the device."""
    batch, length = mask.shape
    lengths = mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.zeros(batch * length, dtype=torch.int64, device=mask.device)
    ends = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    return bert_padding.index_first_axis(hidden.flatten(0, 1), indices), indices, ends, length, lengths


def compared(metric, logits, targets):
    """TokenAccuracy.update without its choice of words that are not padding: it counts them on the device."""
    metric.correct_tokens += torch.sum(torch.argmax(logits, dim=-1) == targets)
    metric.total_tokens += (targets != metric.ignore_index).sum()


class Batches:
    """A loader without end, of what a collator for language models makes."""

    def __init__(self, case):
        tokens = torch.zeros(case.micro_batch * case.accumulate, case.sequence, dtype=torch.int64)
        self.batch, self.batch_size = {"input_ids": tokens, "labels": tokens.clone()}, len(tokens)  # a mask would be read back

    def __len__(self):
        return 1_000_000

    def __iter__(self):
        while True:
            yield {name: value.clone() for name, value in self.batch.items()}


class Marks(Callback):
    """Where the parts of a step begin."""

    def begin(self, mark):
        self.mark, self.index = mark, 0

    def before_forward(self, state, logger):
        self.mark(f"forward{self.index or ''}")

    def before_backward(self, state, logger):
        self.mark(f"backward{self.index or ''}")
        self.index += 1

    def after_train_batch(self, state, logger):
        self.mark("optimizer")
