"""torchtitan 0.1 (2025): its Llama 3 and parallelize_llama, one root unit, composed RMSNorm; as its train.py runs them."""
import types

import torch

import absent
import llama  # before what is absent: transformers asks for packages too

absent.stand_in("torch.utils.tensorboard", "datasets", "datasets.distributed", "tiktoken", "tiktoken.load",
                "torchtitan.datasets.hf_datasets", "torchtitan.datasets.tokenizer.tiktoken", "torchtitan.experiments")

from torch.nn.attention import SDPBackend, sdpa_kernel
from torchtitan.components.loss import build_cross_entropy_loss
from torchtitan.components.optimizer import build_optimizers
from torchtitan.config_manager import JobConfig
from torchtitan.distributed import ParallelDims, utils
from torchtitan.models.llama3 import Transformer, llama3_configs, parallelize_llama
from torchtitan.protocols.model_converter import build_model_converters

import step
import torchtitan_float8
import world


def record(case):
    world.join(case)
    config = configuration(case)
    loss_parallel = bool(case.option("loss_parallel", True))
    dims = ParallelDims(dp_replicate=case.replicas, dp_shard=-1, cp=case.context, tp=case.tensor, pp=1, world_size=case.world,
                        enable_loss_parallel=loss_parallel)
    mesh = dims.build_mesh("cuda")
    args, m = llama3_configs["8B"], case.model
    args.n_layers, args.vocab_size, args.max_seq_len = m.layers, m.vocab, case.sequence
    args.dim, args.n_heads, args.n_kv_heads = m.hidden, m.heads, m.kv_heads
    with torch.device("meta"):
        model = Transformer(args)
    converters = build_model_converters(config, dims)
    converters.convert(model)
    model = llama.materialise(parallelize_llama(model, mesh, dims, config))
    model.train()
    optimizers = build_optimizers([model], config, types.SimpleNamespace(enabled=False))
    context = utils.get_train_context(dims.tp > 1 and loss_parallel, False)
    loss_of = build_cross_entropy_loss(config)
    batch = torch.zeros(case.micro_batch, case.sequence, dtype=torch.long)

    def train_step(mark):
        optimizers.zero_grad()
        mark("forward")
        inputs, labels = batch.cuda(), batch.cuda()
        with context(None), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            prediction = model(inputs)
            loss = loss_of(prediction, labels)
            del prediction
            mark("backward")
            loss.backward()
        mark("optimizer")
        utils.clip_grad_norm_(list(model.parameters()), 1.0, foreach=True, pp_mesh=None)
        optimizers.step()
        converters.post_optimizer_hook([model])

    return step.measure(train_step)


def configuration(case):
    c = JobConfig()
    c.training.seq_len = case.sequence
    c.parallelism.tensor_parallel_degree = case.tensor
    c.training.compile = case.option("compile", False)
    if recipe := case.option("quantize"):
        c.model.converters = ["float8"]
        torchtitan_float8.state_options(c.float8, recipe, case)
    reshard = case.parallelism.get("reshard_after_forward")
    if reshard is not None:
        c.parallelism.fsdp_reshard_after_forward = "always" if reshard else "never"
    checkpoint = c.activation_checkpoint
    if isinstance(case.recompute, dict):
        (kind, value), = case.recompute.items()
        checkpoint.mode, checkpoint.selective_ac_option = "selective", "op" if kind == "per_op" else str(value)
    else:
        checkpoint.mode = case.recompute
    return c
