"""TRL's SFTTrainer over the models of transformers_trainer: its loss, its metrics, its settings. What reads data sets is left out, and
every position but the last has a label."""
import collections
import contextlib
import functools

import absent

absent.stand_in_packages("datasets", "pandas", "pyarrow")  # which TRL imports ahead of all else

import torch  # noqa: E402
import transformers  # noqa: E402
import triton  # noqa: E402
import trl  # noqa: E402
import trl.trainer.sft_trainer as sft  # noqa: E402

import transformers_trainer  # noqa: E402


class Trainer(trl.SFTTrainer):
    """As __init__ leaves it, without a tokenizer and a data set (1.16.0, trainer/sft_trainer.py:1144 to 1225)."""

    def __init__(self, model, args):
        transformers.Trainer.__init__(self, model=model, args=args)
        whole = model.get_base_model() if sft.is_peft_model(model) else model
        if hasattr(sft, "add_fused_lm_head"):  # since 1.15
            sft.add_fused_lm_head(whole, outputs=("log_probs", "entropy", "is_top1"))
        elif getattr(args, "loss_type", None) == "chunked_nll":
            sft._patch_chunked_ce_lm_head(whole, chunk_size=sft._CHUNKED_LM_HEAD_CHUNK_SIZE)
        self.maybe_activation_offload_context = contextlib.nullcontext()
        self._metrics = {"train": collections.defaultdict(list), "eval": collections.defaultdict(list)}
        self._total_train_tokens = self.num_virtual_tokens = 0
        self._tp_size = 1
        self.aux_loss_enabled = False


def record(case):
    labels_are_told(case)
    # Kernels write what Python has allocated, so that none need be compiled.
    triton.runtime.jit.JITFunction.run = lambda *_, **__: None
    loss = {"loss_type": case.option("loss")} if "loss" in case.options else {}
    return transformers_trainer.record(case, Trainer, functools.partial(trl.SFTConfig, gradient_checkpointing=False, **loss),
                                       position_ids=positions)


def positions(tokens):
    return torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)


def labels_are_told(case):
    """Which positions have a label, and how many, the device does not tell here: all but each sequence's last."""
    read = torch.Tensor.__getitem__

    def rows(self, index):
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool and index.is_cuda:
            found = torch.zeros(index.numel(), index.dim(), dtype=torch.long, device=index.device)  # as nonzero leaves it
            return read(self, found.unbind(1))
        return read(self, index)

    def count(self):  # in whole chunks (1.14.2, trainer/sft_trainer.py:205)
        labels = case.micro_batch * (case.sequence - 1)
        return -(-labels // sft._CHUNKED_LM_HEAD_CHUNK_SIZE) * sft._CHUNKED_LM_HEAD_CHUNK_SIZE

    torch.Tensor.__getitem__ = rows
    torch.Tensor.masked_scatter = lambda self, mask, source: self + source.view(mask.shape)
    if hasattr(sft, "_CHUNKED_LM_HEAD_CHUNK_SIZE"):
        torch.Tensor.__index__ = count
