"""torchtitan 0.3: the 8B configuration of its registry, parallelised and stepped as its Trainer does, with its chunked loss.

Its attention is flex_attention, which is nothing without torch.compile; its own wrapper of torch's flash attention stands there.
"""
import torch

import absent
import llama
import torchtitan_float8

torchtitan_float8.tolerate_keys()
absent.stand_in("torch.utils.tensorboard", "datasets", "datasets.distributed", "wandb", "torch_checkpointing", *(
    "torch_checkpointing." + name for name in ("barriers", "checkpoint_manager", "checkpoint_writer", "config", "dtensor_resharder",
                                               "schema", "staging")))

from torch.nn.attention import SDPBackend
from torchtitan.components.loss import ChunkedLossWrapper
from torchtitan.components.quantization import Float8LinearConverter, MXFP8LinearConverter
from torchtitan.distributed import ParallelDims, utils
from torchtitan.distributed.activation_checkpoint import FullAC, MemoryBudgetAC, SelectiveAC
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_8b

import step
import world

ScaledDotProductAttention.sdpa_backends = [SDPBackend.FLASH_ATTENTION]  # cuDNN comes first on Hopper


def record(case):
    world.join(case)
    config = configuration(case)
    dims = ParallelDims.from_config(config.parallelism, case.world)
    utils.set_spmd_backend(config.parallelism.spmd_backend)
    spec, sizes = config.model_spec, case.model
    spec.model.layers = spec.model.layers[:sizes.layers]
    if recipe := case.option("quantize"):
        spec.model = converter(recipe, case.option("filter", "lm_head")).convert(spec.model)
    for layer in spec.model.layers if case.option("attention", "flash") == "flash" else []:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    spec.model.update_from_config(config=config)
    if (spec.model.dim, spec.model.vocab_size) != (sizes.hidden, sizes.vocab):
        raise ValueError("only the 8B model of torchtitan's registry is recorded")
    with torch.device("meta"):
        model = spec.model.build()
    model = spec.parallelize_fn(model, parallel_dims=dims, training=config.training, parallelism=config.parallelism,
                                compile_config=config.compile, ac_config=config.activation_checkpoint, dump_folder="")
    model = llama.materialise(model)
    model.train()
    loss_of = config.loss.build(compile_config=config.compile)
    if isinstance(loss_of, ChunkedLossWrapper):
        loss_of.set_lm_head(model.lm_head)
        model._skip_lm_head = True
    optimizers = config.optimizer.build(model_parts=[model])
    context = utils.get_spmd_context(parallel_dims=dims, spmd_typechecking=False)
    batch = torch.zeros(case.micro_batch, case.sequence, dtype=torch.long)

    def train_step(mark):
        optimizers.zero_grad(set_to_none=True)
        mark("forward")
        valid = torch.tensor(case.sequence, dtype=torch.int64)
        valid = utils.dist_sum_tensor(valid.cuda(), dims.get_mesh("batch")) if dims.dp_enabled else valid.cuda()
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            inputs, labels = batch.cuda(), batch.cuda()
            with context():
                prediction = model(inputs, **masks(case, model))
                loss, _ = loss_of(prediction, labels, valid)
                del prediction
                mark(f"backward{index or ''}")
                loss.backward()
            del loss
        mark("optimizer")
        utils.clip_grad_norm_(list(model.parameters()), 1.0, foreach=True, pp_mesh=None, ep_enabled=False)
        optimizers.step()

    return step.measure(train_step)


def converter(recipe, left_out):
    """To linears of torchao, all but those whose names hold `left_out`; in MXFP8 those of the layers."""
    if recipe == "mxfp8":
        return MXFP8LinearConverter.Config(fqns=["layers"], model_compile_enabled=True).build()
    return Float8LinearConverter.Config(recipe_name=recipe, filter_fqns=[left_out], model_compile_enabled=True).build()


def masks(case, model):
    """What its trainer hands to flex_attention: positions of one document a sequence, and the blocks in which they see each other."""
    if case.option("attention", "flash") == "flash":
        return {}
    positions = torch.arange(case.sequence, device="cuda").repeat(case.micro_batch, 1)
    return {"positions": positions, "attention_masks": model.get_attention_masks(positions=positions)}


def configuration(case):
    c = llama3_8b()
    c.training.seq_len, c.training.local_batch_size = case.sequence, case.micro_batch
    c.training.disable_cuda_graphs = True
    p = c.parallelism
    p.tensor_parallel_degree, p.data_parallel_replicate_degree = case.tensor, case.replicas
    p.spmd_backend = case.option("spmd_backend", p.spmd_backend)
    reshard = case.parallelism.get("reshard_after_forward")
    if reshard is not None:
        p.fsdp_reshard_after_forward = "always" if reshard else "never"
    if case.option("loss", "chunked") == "whole":
        c.loss = c.loss.loss_fn
    c.compile.enable = case.option("compile", False)
    policies = {"none": None, "full": FullAC.Config(), "selective": SelectiveAC.Config()}
    c.activation_checkpoint = policies["selective" if isinstance(case.recompute, dict) else case.recompute]
    if budget := case.option("memory_budget"):
        c.activation_checkpoint = MemoryBudgetAC.Config(memory_budget=budget)
    return c
