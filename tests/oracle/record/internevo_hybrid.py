"""InternEvo's InternLM under its HybridZeroOptimizer and its schedulers, as its train.py puts them together.

flash-attn's loss and attention are its own Python (flash_attention.py). Two extensions have no Python: `rotary_emb`, which writes in
place, and apex's norm, which saves its input, its weight and a sum of each row.
"""
import os
import sys
import types

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

import torch

import absent
import flash_attention

flash_attention.stand_in()
absent.stand_in("boto3", "botocore", "torch.utils.tensorboard", "torch_scatter")


class Norm(torch.autograd.Function):
    """apex's FusedRMSNormAffineMixedDtypesFunction (apex/normalization/fused_layer_norm.py)."""

    @staticmethod
    def forward(ctx, x, weight):
        sums = torch.empty(x.shape[:-1].numel(), dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, weight, sums)
        return torch.empty_like(x, dtype=weight.dtype)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, _ = ctx.saved_tensors
        parts = torch.empty(16, weight.numel(), dtype=torch.float32, device=x.device)  # csrc/layer_norm_cuda_kernel.cu: part_size 16
        out = torch.empty_like(x), torch.empty_like(weight)
        del parts
        return out


class MixedFusedRMSNorm(torch.nn.Module):
    def __init__(self, shape, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(shape))

    def reset_parameters(self):
        pass

    def forward(self, x):
        return Norm.apply(x, self.weight)


def extensions():
    rotary = types.ModuleType("rotary_emb")
    rotary.apply_rotary = lambda *_: None
    norms = types.ModuleType("apex.normalization.fused_layer_norm")
    norms.MixedFusedRMSNorm = MixedFusedRMSNorm
    sys.modules.update({"rotary_emb": rotary, "apex": types.ModuleType("apex"), "apex.normalization": types.ModuleType("apex.normalization"),
                        "apex.normalization.fused_layer_norm": norms})


extensions()

import internlm
from internlm.core.context import ParallelMode
from internlm.core.context import global_context as gpc
from internlm.initialize import launch
from internlm.model.losses import FlashGPTLMLoss
from internlm.model.metrics import AccPerplex
from internlm.model.modules import embedding
from internlm.solver.optimizer import hybrid_zero_optim
from internlm.train import pipeline
from internlm.utils.common import get_current_device

import step
import world


def record(case):
    world.join(case)
    stand_alone(case)
    launch.launch_from_torch(config=configuration(case), backend="fake", seed=1024)
    launch.args_sanity_check()
    model = pipeline.initialize_model()
    communicator = pipeline.initialize_isp_communicator(model)
    optimizer, beta2, rate = pipeline.initialize_optimizer(model, communicator)
    metric = AccPerplex(device=get_current_device(), tp_pg=gpc.get_group(ParallelMode.TENSOR), dp_pg=gpc.get_group(ParallelMode.DATA))
    trainer, *_ = internlm.initialize_trainer(
        model=model, optimizer=optimizer, criterion=FlashGPTLMLoss(parallel_output=True, label_smoothing=0), lr_scheduler=rate,
        beta2_scheduler=beta2, scheduler_hooks=pipeline.get_scheduler_hooks(metric, optimizer, communicator))
    trainer.train()
    packed = case.micro_batch * case.sequence
    ends = [i * case.sequence for i in range(case.micro_batch + 1)]

    def batch():
        tokens = torch.ones(case.accumulate, packed, dtype=torch.long)
        return {"input_ids": tokens, "cu_seqlens": [torch.tensor(ends, dtype=torch.int32)] * case.accumulate,
                "indexes": torch.arange(packed).remainder(case.sequence).repeat(case.accumulate, 1)}, tokens.clone()

    def train_step(mark):
        mark("forward")
        trainer.zero_grad()
        trainer.execute_schedule(batch(), forward_only=False, return_loss=True, return_output_label=False)
        mark("optimizer")
        trainer.step()

    return step.measure(train_step)


def stand_alone(case):
    """What is read from the device or asks for another backend: groups for checkpoints, overflow."""
    group = torch.distributed.new_group
    torch.distributed.new_group = lambda *args, **kwargs: group(*args, **{**kwargs, "backend": None})
    torch.distributed.init_process_group = lambda *_, **__: None  # world.join has
    launch.try_bind_numa = lambda **_: None
    hybrid_zero_optim.DynamicGradScaler._sanity_checks = lambda self: None  # it reads its own scale
    hybrid_zero_optim.DynamicGradScaler.update = lambda self, overflow: None
    flash_attention.longest_sample = case.sequence
    rotate = embedding.RotaryEmbedding._update_cos_sin_cache
    embedding.RotaryEmbedding._update_cos_sin_cache = lambda self, x, _: rotate(self, x, case.sequence - 1)  # the last position
    norm = hybrid_zero_optim.compute_norm
    hybrid_zero_optim.compute_norm = lambda *args, **kwargs: max(norm(*args, **kwargs), 0) or 1.0


def configuration(case):
    m, parallelism = case.model, case.parallelism
    overlap = parallelism.get("overlap", {})
    steps = 1000
    checkpoint = {"none": False, "full": True}[case.recompute]
    return {
        "JOB_NAME": "recorded", "model_type": "INTERNLM", "ckpt": {"enable_save_ckpt": False, "auto_resume": False},
        "data": {"seq_len": case.sequence, "micro_num": case.accumulate, "micro_bsz": case.micro_batch, "valid_micro_num": 1, "valid_every": 0,
                 "pack_sample_into_one": False, "total_steps": steps, "skip_batches": "", "rampup_batch_size": "", "min_length": 50,
                 "empty_cache_and_diag_interval": 500, "diag_outlier_ratio": 1.1, "num_worker": 0, "type": "tokenized", "train_folder": None,
                 "valid_folder": None},
        "grad_scaler": {"fp16": {"initial_scale": 2**16, "min_scale": 1, "growth_interval": 1000}, "growth_factor": 2, "backoff_factor": 0.5,
                        "max_scale": 2**24, "hysteresis": 2},
        "hybrid_zero_optimizer": {"overlap_sync_grad": bool(overlap.get("grad_reduce")), "overlap_sync_param": bool(overlap.get("param_gather")),
                                  "reduce_bucket_size": case.option("reduce_bucket_size", 512 * 1024 * 1024), "clip_grad_norm": 1.0},
        "loss": {"label_smoothing": 0},
        "adam": {"lr": 1e-4, "adam_beta1": 0.9, "adam_beta2": 0.95, "adam_beta2_c": 0, "adam_eps": 1e-8, "weight_decay": 0.01},
        "lr_scheduler": {"total_steps": steps, "init_steps": 0, "warmup_ratio": 0.01, "eta_min": 1e-5, "last_epoch": -1},
        "beta2_scheduler": {"init_beta2": 0.95, "c": 0, "cur_iter": -1},
        "model": {"checkpoint": checkpoint, "num_attention_heads": m.heads, "embed_split_hidden": True, "vocab_size": m.vocab, "embed_grad_scale": 1,
                  "parallel_output": True, "hidden_size": m.hidden, "num_layers": m.layers, "mlp_ratio": 8 / 3, "apply_post_layer_norm": False,
                  "dtype": "torch.bfloat16", "norm_type": "rmsnorm", "layer_norm_epsilon": 1e-5, "use_flash_attn": True, "num_chunks": 1},
        "parallel": {"zero1": {"size": parallelism.get("shard_size", -1) if parallelism.get("sharding") == "zero1" else 1},
                     "tensor": {"size": case.tensor, "mode": "msp" if parallelism.get("sequence_parallel") else "mtp"},
                     "pipeline": {"size": case.pipeline, "interleaved_overlap": True}, "weight": {"size": 1, "overlap": True, "memory_pool": True}},
        "cudnn_deterministic": False, "cudnn_benchmark": False,
        "monitor": {"alert": {"enable_feishu_alert": False, "feishu_alert_address": None, "light_monitor_address": None}}}
