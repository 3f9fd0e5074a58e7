"""megatron-core's GPTModel by its local layer spec, its DistributedDataParallel, optimizer and pipeline schedules.

Transformer Engine and apex are extensions that would run kernels of their own. Without them megatron-core takes torch's modules
and AdamW. Its local attention is unfused; torch's flash attention stands there unless `attention: unfused` asks for its own.
"""
import os

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # its jit_fuser would compile for a GPU (megatron_fusions.py)
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # it insists on this with sequence parallelism

import absent

absent.stand_in("megatron.core.inference.unified_memory")  # 0.15 compiles a library where it is imported

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func, schedules

import megatron_fusions
import step
import world
from megatron_job import accepted, chunk, configuration


def stand_alone():
    """What versions ask for that is not here: gloo groups for checkpoints, and fp8 parameters, of which a step has none."""
    new_group = torch.distributed.new_group

    def fake_group(*args, **kwargs):
        if kwargs.get("backend") == "gloo":
            kwargs["backend"] = "fake"
        return new_group(*args, **kwargs)

    torch.distributed.new_group = fake_group
    try:
        from megatron.core import fp8_utils
    except ImportError:
        return
    for name in ("_quantize_param_shard_impl", "_correct_amax_history_if_needed_impl"):
        if hasattr(fp8_utils, name):
            setattr(fp8_utils, name, lambda *_, **__: None)


def without_transformer_engine():
    """0.16 asks for its version where states live on the host, and fails where it is not there (utils.py:348)."""
    from megatron.core.optimizer import optimizer_config
    optimizer_config.is_te_min_version = lambda *_, **__: False


def record(case):
    world.join(case)
    stand_alone()
    megatron_fusions.stand_in()
    overlap = case.parallelism.get("overlap", {})
    sharded = case.parallelism.get("sharding", "none") == "zero1"
    parallel_state.initialize_model_parallel(
        case.tensor, case.pipeline, case.virtual if case.virtual > 1 else None, context_parallel_size=case.context,
        expert_model_parallel_size=case.expert, **accepted(parallel_state.initialize_model_parallel, {
            "expert_tensor_parallel_size": case.expert_tensor, "create_gloo_process_groups": False}))
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = configuration(case)
    chunks = [chunk(case, config, number) for number in range(case.virtual)]
    fp32 = case.memory.get("dtypes", {}).get("reduce", "fp32") == "fp32"
    bucket = case.option("bucket_elements", max(40_000_000, 1_000_000 * case.data * case.context))
    ddp = DistributedDataParallelConfig(**accepted(DistributedDataParallelConfig, {
        "grad_reduce_in_fp32": fp32, "overlap_grad_reduce": bool(overlap.get("grad_reduce")), "use_distributed_optimizer": sharded,
        "overlap_param_gather": bool(overlap.get("param_gather")), "bucket_size": bucket if overlap.get("grad_reduce") else None}))
    models = [DistributedDataParallel(config, ddp, m, disable_bucketing=index > 0) for index, m in enumerate(chunks)]
    settings = {"optimizer": "adam", "lr": 1e-4, "bf16": True, "params_dtype": torch.bfloat16, "use_distributed_optimizer": sharded,
                "clip_grad": 1.0, "overlap_param_gather": bool(overlap.get("param_gather"))}
    on_host = case.memory.get("offload", {}).get("optimizer")
    if on_host:
        without_transformer_engine()
        settings |= {"optimizer_cpu_offload": True, "use_precision_aware_optimizer": True,
                     "optimizer_offload_fraction": on_host.get("ratio", 1.0) if isinstance(on_host, dict) else 1.0}
    # From 0.13 on it makes gloo groups for checkpoints unless told not to; the fake world has none.
    optimizer = get_megatron_optimizer(OptimizerConfig(**accepted(OptimizerConfig, settings)), models,
                                       **accepted(get_megatron_optimizer, {"use_gloo_process_groups": False}))
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    each = lambda functions: functions if len(functions) > 1 else functions[0]
    if ddp.overlap_grad_reduce:
        config.no_sync_func = each([m.no_sync for m in models])
    if overlap.get("param_gather"):
        if not hasattr(ddp, "overlap_param_gather"):
            raise ValueError("versions before 0.9 gather ahead from the optimizer's hooks, which this recorder does not set")
        config.param_sync_func = each([m.start_param_sync for m in models])
    return step.measure(train_step(case, config, models, optimizer), passes=watch_passes(case) if case.pipeline > 1 else None)


def train_step(case, config, models, optimizer):
    """As training.py's train_step, with the same tokens in each micro-batch."""
    length = case.sequence // case.context
    tokens = torch.zeros(case.micro_batch, length, dtype=torch.long, device="cuda")
    positions = torch.arange(length, device="cuda").unsqueeze(0).expand(case.micro_batch, -1)
    unfused = case.option("attention", "flash") == "unfused"
    mask = torch.zeros(1, 1, case.sequence, case.sequence, dtype=torch.bool, device="cuda") if unfused else None
    run = get_forward_backward_func()
    mark_pass = [lambda phase: None]

    def forward(_, model):
        mark_pass[0]("forward")
        losses = model(tokens, positions, mask, labels=tokens)

        def mean(values):
            mark_pass[0]("backward")
            return values.float().mean(), {}
        return losses, mean

    def step_of(mark):
        mark("forward")
        mark_pass[0] = mark if case.accumulate == case.pipeline == 1 else lambda phase: None
        for model in models:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        several = len(models) > 1
        run(forward_step_func=forward, data_iterator=[iter(())] * len(models) if several else iter(()),
            model=models if several else models[0], num_microbatches=case.accumulate, seq_length=case.sequence,
            micro_batch_size=case.micro_batch, forward_only=False)
        mark("optimizer")
        optimizer.step()

    return step_of


def watch_passes(case):
    """Records the schedule's calls, written as torch.distributed.pipelining does: 3F0 is stage 3's first forward."""
    log, stage_of = [], {}
    forward, backward = schedules.forward_step, schedules.backward_step
    first = lambda value: value[0] if isinstance(value, (list, tuple)) else value

    def watched_forward(*args, **kwargs):
        chunk = kwargs.get("vp_stage")
        if chunk is None:  # versions before 0.13, and without chunks
            chunk = parallel_state.get_virtual_pipeline_model_parallel_rank() or 0
        stage = chunk * case.pipeline + parallel_state.get_pipeline_model_parallel_rank()
        log.append((stage, "F"))
        out = forward(*args, **kwargs)
        stage_of[id(first(first(out)))] = stage
        return out

    def watched_backward(input_tensor, output_tensor, *args, **kwargs):
        log.append((stage_of.pop(id(first(output_tensor))), "B"))  # of the chunk that made this output
        return backward(input_tensor, output_tensor, *args, **kwargs)

    schedules.forward_step, schedules.backward_step = watched_forward, watched_backward

    def last_step():
        passes, counts = log[-2 * case.accumulate * case.virtual:], {}
        out = []
        for key in passes:
            out.append(f"{key[0]}{key[1]}{counts.get(key, 0)}")
            counts[key] = counts.get(key, 0) + 1
        return " ".join(out)

    return last_step
