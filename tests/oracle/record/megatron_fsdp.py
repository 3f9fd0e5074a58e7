"""megatron-core's GPTModel by its local layer spec under Megatron-FSDP (megatron.core.distributed.fsdp), with the optimizer and
schedules of megatron_core.py. Nothing of Transformer Engine runs.
"""
import megatron_core  # first: it sets the environment

import os

os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)  # training/arguments.py refuses 1 with Megatron-FSDP

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallelConfig, finalize_model_grads
from megatron.core.distributed.fsdp import mcore_fsdp_adapter
from megatron.core.distributed.fsdp.src.megatron_fsdp import param_and_grad_buffer
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

import megatron_fusions
import step
import world

STRATEGIES = {"none": "no_shard", "zero1": "optim", "zero2": "optim_grads", "zero3": "optim_grads_params", "hsdp": "optim_grads_params"}


def record(case):
    world.join(case)
    megatron_core.stand_alone()
    megatron_fusions.stand_in()
    # It reads the shards' edges of other ranks, which the fake world does not send.
    param_and_grad_buffer.validate_uneven_dtensor = lambda tensor: None
    mcore_fsdp_adapter.TELinear = type(None)  # a stand-in that isinstance() refuses where Transformer Engine is not installed
    accepted = megatron_core.accepted
    overlap = case.parallelism.get("overlap", {})
    parallel_state.initialize_model_parallel(
        case.tensor, case.pipeline, context_parallel_size=case.context, expert_model_parallel_size=case.expert,
        **accepted(parallel_state.initialize_model_parallel, {
            "expert_tensor_parallel_size": case.expert_tensor, "create_gloo_process_groups": False,
            "num_distributed_optimizer_instances": case.replicas}))
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = megatron_core.configuration(case)
    model = megatron_core.chunk(case, config, 0)
    fp32 = case.memory.get("dtypes", {}).get("reduce", "fp32") == "fp32"
    gathers = bool(overlap.get("param_gather"))
    # training/models/dist_utils.py:294 of 0.19.2: buckets where gradients are asked to be reduced beside the backward pass.
    bucket = max(40_000_000, 1_000_000 * case.data * case.context) if overlap.get("grad_reduce") else None
    settings = {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": STRATEGIES[case.parallelism.get("sharding", "none")],
                "use_distributed_optimizer": True, "overlap_grad_reduce": bool(overlap.get("grad_reduce")),
                "overlap_param_gather": gathers, "grad_reduce_in_fp32": fp32, "bucket_size": bucket,
                "num_distributed_optimizer_instances": case.replicas, "fsdp_double_buffer": bool(case.option("double_buffer"))}
    # From 0.19 on gradients have formats of their own, and grad_reduce_in_fp32 says nothing of them (training/arguments.py:3524, :3528).
    formats = {"fp32": torch.float32, "bf16": torch.bfloat16}
    dtypes = case.memory.get("dtypes", {})
    settings |= {"megatron_fsdp_main_grads_dtype": formats[dtypes.get("gradients", "fp32")],
                 "megatron_fsdp_grad_comm_dtype": formats[dtypes.get("reduce", "fp32")]}
    ddp = DistributedDataParallelConfig(**accepted(DistributedDataParallelConfig, settings))
    model = mcore_fsdp_adapter.FullyShardedDataParallel(config=config, ddp_config=ddp, module=model)
    settings = {"optimizer": "adam", "lr": 1e-4, "bf16": True, "params_dtype": torch.bfloat16, "use_distributed_optimizer": True,
                "clip_grad": 1.0, "overlap_param_gather": ddp.overlap_param_gather}
    optimizer = get_megatron_optimizer(OptimizerConfig(**accepted(OptimizerConfig, settings)), [model],
                                       **accepted(get_megatron_optimizer, {"use_gloo_process_groups": False}))
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    if ddp.overlap_grad_reduce:
        config.no_sync_func = model.no_sync
    return step.measure(megatron_core.train_step(case, config, [model], optimizer))
