"""nanotron's DistributedTrainer over its Llama: its own tensor and pipeline parallelism, gradient accumulator and ZeRO-1."""
import os
import sys
import tempfile

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # asynchronous tensor parallelism insists on this

import torch
import yaml

import absent
import flash_attention

flash_attention.stand_in()
# The published wheel imports itself in a circle: its logging asks its configuration for an annotation (logging.py:38), which asks
# the pipeline's engine, which asks its logging. Its logging comes first, beside a configuration that is put away again.
absent.stand_in("nanotron.config", "nanotron.config.config")
import nanotron.logging

for name in ("nanotron.config", "nanotron.config.config"):
    del sys.modules[name]
from nanotron.parallel.pipeline_parallel import p2p
from nanotron.parallel.pipeline_parallel.tensor_pointer import TensorPointer
from nanotron.trainer import DistributedTrainer

import step
import world

# torch.jit.script's fuser would compile the mean of the loss for a GPU; eager code has the same tensors.
torch._C._jit_set_texpr_fuser_enabled(False)


def record(case):
    world.join(case)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(configuration(case), file)
        file.flush()
        trainer = DistributedTrainer(file.name)
    model = trainer.unwrapped_model
    if case.recompute == "selective":  # an attribute that no configuration sets (models/llama.py:193)
        for module in model.modules():
            if hasattr(module, "checkpoint_attention"):
                module.checkpoint_attention = True
    elif case.recompute != "none":
        raise ValueError("nanotron 0.4 recomputes attention cores or nothing")
    model.module_id_to_prefix = {id(module): f"{name}." for name, module in model.named_modules()} | {id(model): ""}
    trainer.pipeline_engine = trainer.config.parallelism.pp_engine
    trainer.pipeline_engine.nb_microbatches = case.accumulate
    trainer.iteration_step = 10
    known_shapes(case, model)

    def train_step(mark):
        mark("forward")
        trainer.training_step(iter(lambda: batch(case, model), None))

    return step.measure(train_step)


def batch(case, model):
    """What its collator gives: tokens on the first stage, labels on the last, a pointer elsewhere."""
    here = torch.distributed.get_rank(model.parallel_context.pp_pg)
    shape = (case.micro_batch, case.sequence)
    make = lambda dtype, rank: torch.ones(shape, dtype=dtype, device="cuda") if here == rank else TensorPointer(rank)
    return {"input_ids": make(torch.long, model.input_pp_rank), "input_mask": make(torch.bool, model.input_pp_rank),
            "label_ids": make(torch.long, model.output_pp_rank), "label_mask": make(torch.bool, model.output_pp_rank)}


def known_shapes(case, model):
    """Both sides of a message read its shape from the device, where it is zero. A receiver gets hidden states and then their mask
    forward where it has layers, which alone read the mask, and their gradient backward; the two messages that tell the shape stay."""
    here = torch.distributed.get_rank(model.parallel_context.pp_pg)
    rows = case.sequence // (case.tensor if case.parallelism.get("sequence_parallel") else 1)
    hidden = ((rows, case.micro_batch, case.model.hidden), torch.bfloat16)
    mask = ((case.micro_batch, case.sequence), torch.bool)
    read = (hidden, mask) if any(block.rank == here for block in model.model.decoder) else (hidden,)
    received = [0]

    def tell(self, tensor, to_rank, tag):
        for buffer in (self.first_metadata, self.second_metadata[:2 * tensor.dim()]):
            torch.distributed.send(buffer, dst=torch.distributed.get_global_rank(self.pg, to_rank), group=self.pg, tag=tag)

    def hear(self, from_rank, tag):
        forward = from_rank < here
        shape, dtype = read[received[0] % len(read)] if forward else hidden
        received[0] += forward
        for buffer in (self.first_metadata, self.second_metadata[:2 * len(shape)]):
            torch.distributed.recv(buffer, src=torch.distributed.get_global_rank(self.pg, from_rank), group=self.pg, tag=tag)
        like = torch.empty(shape, dtype=dtype, device="meta")
        return p2p.P2PTensorMetaData(shape=shape, stride=like.stride(), is_contiguous=True, untyped_storage_size=like.untyped_storage().size(),
                                     storage_offset=0, dtype=dtype, requires_grad=forward and dtype == torch.bfloat16)

    p2p.P2P._send_meta, p2p.P2P._recv_meta = tell, hear


def configuration(case):
    m = case.model
    return {
        "general": {"project": "recorded", "run": "recorded", "seed": 1}, "tokenizer": {}, "logging": {},
        "checkpoints": {"checkpoints_path": tempfile.gettempdir() + "/recorded-nowhere", "checkpoint_interval": 1000000},
        "parallelism": {"dp": case.data, "pp": case.pipeline, "tp": case.tensor,
                        "pp_engine": {"1f1b": "1f1b", "gpipe": "afab"}[case.parallelism.get("schedule", "gpipe")],
                        "tp_mode": "REDUCE_SCATTER" if case.parallelism.get("sequence_parallel") else "ALL_REDUCE",
                        "tp_linear_async_communication": bool(case.option("async_communication", False))},
        "model": {"init_method": {"std": 0.02}, "dtype": "bfloat16", "model_config": {
            "is_llama_config": True, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": m.hidden, "initializer_range": 0.02,
            "intermediate_size": m.ffn, "max_position_embeddings": case.sequence, "num_attention_heads": m.heads, "num_hidden_layers": m.layers,
            "num_key_value_heads": m.kv_heads, "pad_token_id": None, "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_scaling": None,
            "tie_word_embeddings": bool(getattr(m, "tied_embeddings", False)), "use_cache": False, "vocab_size": m.vocab}},
        "tokens": {"sequence_length": case.sequence, "train_steps": 1000, "micro_batch_size": case.micro_batch,
                   "batch_accumulation_per_replica": case.accumulate},
        "optimizer": {"zero_stage": 1 if case.parallelism.get("sharding") == "zero1" else 0, "weight_decay": 0.01, "clip_grad": 1.0,
                      "accumulate_grad_in_fp32": True, "adam_eps": 1e-8, "adam_beta1": 0.9, "adam_beta2": 0.95,
                      "torch_adam_is_fused": case.option("optimizer", "fused") == "fused",
                      "learning_rate_scheduler": {"learning_rate": 1e-4, "lr_warmup_steps": 2, "lr_warmup_style": "linear", "lr_decay_style": "linear"}}}
