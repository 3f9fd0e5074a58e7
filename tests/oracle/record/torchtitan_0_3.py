"""torchtitan 0.3: Llama 3, DeepSeek-V3 16B or Qwen3 30B-A3B of its registry, parallelised and stepped as its Trainer does, with its chunked loss; with pipeline stages
by its pipeline_llm and torch's schedules.

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

from torch.distributed.pipelining import PipelineStage
from torch.nn.attention import SDPBackend
from torchtitan.components.loss import ChunkedLossWrapper
from torchtitan.components.quantization import Float8LinearConverter, MXFP8LinearConverter
from torchtitan.distributed import ParallelDims, pipeline_parallel, utils
from torchtitan.distributed.activation_checkpoint import FullAC, MemoryBudgetAC, SelectiveAC
from torchtitan.distributed.context_parallel import prepare_context_parallel_input
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher
from torchtitan.models.deepseek_v3.config_registry import deepseek_v3_16b
from torchtitan.models.llama3.config_registry import llama3_70b, llama3_8b
from torchtitan.models.qwen3.config_registry import qwen3_30b_a3b

import pipelines
import step
import world

# cuDNN comes first on Hopper; flash attention takes no values that are narrower than keys (latent attention)
ScaledDotProductAttention.sdpa_backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
FAMILIES = {("llama3", 4096): llama3_8b, ("llama3", 8192): llama3_70b, ("deepseek_v3", 2048): deepseek_v3_16b, ("qwen3", 2048): qwen3_30b_a3b}
torch.autograd.set_multithreading_enabled(False)  # meshes are known to one thread (distributed/utils.py:477)


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
        raise ValueError("only models of torchtitan's registry are recorded")
    balance()
    with torch.device("meta"):
        model = spec.model.build()
    loss_of = config.loss.build(compile_config=config.compile)
    measured = staged if case.pipeline > 1 else whole
    return measured(case, config, dims, spec, model, loss_of)


def whole(case, config, dims, spec, model, loss_of):
    model = spec.parallelize_fn(model, **setting(config, dims))
    model = llama.materialise(model)
    model.train()
    keep_head_apart(loss_of, model)
    optimizers = optimizers_of(config, dims, spec, [model])
    context = utils.get_spmd_context(parallel_dims=dims, spmd_typechecking=False)
    batch = torch.zeros(case.micro_batch, case.sequence, dtype=torch.long)

    def train_step(mark):
        optimizers.zero_grad(set_to_none=True)
        mark("forward")
        valid = valid_tokens(case, dims)
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            inputs, labels, more = inputs_of(case, config, dims, model, batch)
            with context():
                prediction = model(inputs, **more)
                loss, _ = loss_of(prediction, labels, valid)
                del prediction
                mark(f"backward{index or ''}")
                loss.backward()
            del loss
        mark("optimizer")
        utils.clip_grad_norm_(list(model.parameters()), 1.0, foreach=True, pp_mesh=None, ep_enabled=dims.ep_enabled)
        optimizers.step()

    return step.measure(train_step)


def staged(case, config, dims, spec, model, loss_of):
    shape_stages(case, config)
    schedule, parts, first, last = pipeline_parallel.pipeline_llm(
        model, **setting(config, dims), device=torch.device("cuda"), model_config=spec.model, parallelize_fn=spec.parallelize_fn, loss_fn=loss_of)
    for part in parts:
        llama.materialise(part).train()
    if last:
        keep_head_apart(loss_of, parts[-1])
    optimizers = optimizers_of(config, dims, spec, parts)
    context = utils.get_spmd_context(parallel_dims=dims, spmd_typechecking=False)
    batch = torch.zeros(case.micro_batch, case.sequence, dtype=torch.long)

    def train_step(mark):
        optimizers.zero_grad(set_to_none=True)
        mark("forward")
        valid = valid_tokens(case, dims)
        batches = [inputs_of(case, config, dims, parts[0], batch) for _ in range(case.accumulate)]
        with context():
            losses = [] if last else None
            schedule.step(arg_mbs=[(inputs,) for inputs, _, _ in batches] if first else None, kwarg_mbs=[more for _, _, more in batches],
                          target_mbs=[labels for _, labels, _ in batches] if last else None, losses=losses,
                          loss_kwargs={"global_valid_tokens": valid}, return_outputs=False)
        del batches, losses
        mark("optimizer")
        utils.clip_grad_norm_([p for part in parts for p in part.parameters()], 1.0, foreach=True, pp_mesh=dims.get_optional_mesh("pp"),
                              ep_enabled=dims.ep_enabled)
        optimizers.step()

    return step.measure(train_step, pipelines.watch(schedule))


def optimizers_of(config, dims, spec, parts):
    optimizers = config.optimizer.build(model_parts=parts)
    if spec.post_optimizer_build_fn is not None:  # the experts' biases (trainer.py:550)
        spec.post_optimizer_build_fn(optimizers, parts, dims)
    return optimizers


def balance():
    """Counts of tokens are zero here; in their place every expert rank gets, and sends, as much as every other one."""
    real = AllToAllTokenDispatcher._sync_token_count_exchange

    def counts(self, local, received, ranks):
        received, _, _ = real(self, local, received, ranks)
        return received, self.splits, self.splits

    def dispatch(self, x, scores, experts, local):
        if self.ep_mesh is not None:
            ranks = self.ep_mesh.size()
            self.splits = [experts.numel() // ranks] * ranks
        return routed(self, x, scores, experts, local)

    routed = AllToAllTokenDispatcher.dispatch
    AllToAllTokenDispatcher._sync_token_count_exchange, AllToAllTokenDispatcher.dispatch = counts, dispatch


def setting(config, dims):
    return {"parallel_dims": dims, "training": config.training, "parallelism": config.parallelism, "compile_config": config.compile,
            "ac_config": config.activation_checkpoint, "dump_folder": ""}


def keep_head_apart(loss_of, part):
    """The head runs in chunks within the loss (trainer.py:514)."""
    if isinstance(loss_of, ChunkedLossWrapper):
        loss_of.set_lm_head(part.lm_head)
        part._skip_lm_head = True


def valid_tokens(case, dims):
    valid = torch.tensor(case.sequence, dtype=torch.int64)
    return utils.dist_sum_tensor(valid.cuda(), dims.get_mesh("batch")) if dims.dp_enabled else valid.cuda()


def inputs_of(case, config, dims, model, batch):
    """Tokens, labels and what attention is handed; of a part of the sequence also positions."""
    inputs, labels, more = batch.cuda(), batch.cuda(), masks(case, model)
    if case.context > 1:
        more.setdefault("positions", torch.arange(case.sequence, device="cuda").repeat(case.micro_batch, 1))
        inputs, labels, more = prepare_context_parallel_input(inputs, labels, more, dims.get_mesh("cp"), torch.device("cuda"), "headtail")
    return inputs, labels, more


def shape_stages(case, config):
    """Stages tell each other the shapes of what they send before the first step; alone, a rank has to be told."""
    def shape(*sizes, dtype=torch.bfloat16):
        return torch.empty(*sizes, dtype=dtype, device="meta", requires_grad=dtype is torch.bfloat16)

    def stage(module, index, count, device, group, **_):
        sequence = case.sequence // case.context
        hidden = shape(case.micro_batch, sequence // case.tensor, case.model.hidden)
        whole = config.loss.__class__ is not ChunkedLossWrapper.Config
        logits = shape(case.micro_batch, sequence, case.model.vocab // case.tensor) if whole else hidden
        tokens = shape(case.micro_batch, sequence, dtype=torch.long)
        return PipelineStage(module, index, count, device, input_args=(tokens if index == 0 else hidden,),
                             output_args=(logits if index == count - 1 else hidden,), group=group)

    pipeline_parallel.PipelineStage = stage


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
    c = FAMILIES[case.option("family", "llama3"), case.model.hidden]()
    c.training.seq_len, c.training.local_batch_size = case.sequence, case.micro_batch * (case.accumulate if case.pipeline > 1 else 1)
    c.training.disable_cuda_graphs = True
    p = c.parallelism
    p.tensor_parallel_degree, p.context_parallel_degree, p.data_parallel_replicate_degree = case.tensor, case.context, case.replicas
    p.expert_parallel_degree = case.expert
    p.pipeline_parallel_degree, p.pipeline_parallel_microbatch_size = case.pipeline, case.micro_batch
    p.pipeline_parallel_schedule = case.option("schedule", p.pipeline_parallel_schedule)
    p.spmd_backend = case.option("spmd_backend", p.spmd_backend)
    reshard = case.parallelism.get("reshard_after_forward")
    if reshard is not None:
        p.fsdp_reshard_after_forward = "always" if reshard else "never"
    if case.option("loss", "chunked") == "whole":
        c.loss = c.loss.loss_fn
    c.compile.enable = case.option("compile", False)
    policies = {"none": None, "full": FullAC.Config(), "{'per_op': 'sac'}": SelectiveAC.Config()}  # layers chosen by count went with 0.2
    c.activation_checkpoint = policies[str(case.recompute)]
    if budget := case.option("memory_budget"):
        c.activation_checkpoint = MemoryBudgetAC.Config(memory_budget=budget)
    return c
