"""torchtitan 0.2: its Llama 3, Qwen 3 or DeepSeek-V3 and the way it parallelises them, optimizers and gradient clipping, as its
Trainer runs them; with pipeline stages its pipeline_llm and torch's schedules."""
import dataclasses
import importlib

import torch

import absent
import llama  # before what is absent: transformers asks for packages too

absent.stand_in("torch.utils.tensorboard", "datasets", "datasets.distributed")

from torch.distributed.pipelining import PipelineStage
from torch.nn.attention import SDPBackend
from torchtitan.config import JobConfig
from torchtitan.distributed import ParallelDims, pipeline_parallel, utils
from torchtitan.models.attention import ScaledDotProductAttentionWrapper
from torchtitan.protocols.model_converter import build_model_converters

import pipelines
import step
import torchtitan_float8
import torchtitan_routing
import world

# Of torchtitan's own preferences cuDNN comes first on Hopper; flash attention saves the same tensors. Values that are narrower than
# keys (latent attention) it does not take.
ScaledDotProductAttentionWrapper.sdpa_backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


def record(case):
    world.join(case)
    config = configuration(case)
    dims = ParallelDims(dp_replicate=case.replicas, dp_shard=-1, cp=case.context, tp=case.tensor, pp=case.pipeline, ep=case.expert,
                        etp=case.expert_tensor if case.expert > 1 else 1, world_size=case.world)
    dims.build_mesh()
    family = case.option("family", "llama3")
    spec = importlib.import_module(f"torchtitan.models.{family}").get_train_spec()
    args, m = arguments(case, spec, family), case.model
    args.update_from_config(config)
    torchtitan_routing.balance()
    with torch.device("meta"):
        model = spec.model_cls(args)
    if family == "llama3" and model.layers["0"].feed_forward.w1.out_features != m.ffn:
        raise ValueError(f"torchtitan's MLP of this model is {model.layers['0'].feed_forward.w1.out_features} wide")
    converters = build_model_converters(config, dims)
    converters.convert(model)
    measured = staged if case.pipeline > 1 else whole
    return measured(case, config, dims, spec, model, converters)


def arguments(case, spec, family):
    """A configuration of torchtitan's own with the sizes of the case."""
    m, moe = case.model, getattr(case.model, "moe", None)
    own = {"llama3": "8B", "qwen3": "30B-A3B" if moe else "8B", "deepseek_v3": "16B"}[family]
    args = dataclasses.replace(spec.model_args[own], n_layers=m.layers, vocab_size=m.vocab, dim=m.hidden, n_heads=m.heads)
    if family == "deepseek_v3":
        args.inter_dim, args.n_dense_layers, args.attn_type, args.attn_mask_type = m.ffn, moe.get("dense_layers", 0), "sdpa", "causal"
        args.q_lora_rank, args.kv_lora_rank, args.v_head_dim = m.mla["q_lora_rank"], m.mla["kv_lora_rank"], m.mla["v_dim"]
        args.qk_nope_head_dim, args.qk_rope_head_dim = m.mla["qk_nope_dim"], m.mla["qk_rope_dim"]
    else:
        args.n_kv_heads = m.kv_heads
    if family == "qwen3":
        args.head_dim, args.hidden_dim, args.qk_norm = m.head_dim, m.ffn, m.qk_norm
        args.enable_weight_tying = getattr(m, "tied_embeddings", False)
    if moe:
        args.moe_inter_dim = moe["ffn"]
        args.moe_args = dataclasses.replace(args.moe_args, num_experts=moe["experts"], top_k=moe["topk"],
                                            num_shared_experts=moe.get("shared_experts", 0),
                                            load_balance_coeff=1e-3 if moe.get("router_bias") else None)
    return args


def configuration(case):
    c = JobConfig()
    c.training.seq_len, c.training.local_batch_size = case.sequence, case.micro_batch * (case.accumulate if case.pipeline > 1 else 1)
    p = c.parallelism
    p.tensor_parallel_degree, p.context_parallel_degree, p.data_parallel_replicate_degree = case.tensor, case.context, case.replicas
    p.disable_loss_parallel = not case.option("loss_parallel", True)
    c.compile.enable = case.option("compile", False)
    if recipe := case.option("quantize"):
        c.model.converters = ["quantize.linear.float8"]
        torchtitan_float8.state_options(c.quantize.linear.float8, recipe, case)
    reshard = case.parallelism.get("reshard_after_forward")
    if reshard is not None:
        p.fsdp_reshard_after_forward = "always" if reshard else "never"
    p.pipeline_parallel_degree, p.pipeline_parallel_microbatch_size = case.pipeline, case.micro_batch
    p.pipeline_parallel_schedule = case.option("schedule", p.pipeline_parallel_schedule)
    checkpoint = c.activation_checkpoint
    if isinstance(case.recompute, dict):
        (kind, value), = case.recompute.items()
        checkpoint.mode, checkpoint.selective_ac_option = "selective", "op" if kind == "per_op" else str(value)
    else:
        checkpoint.mode = case.recompute
    return c


def clip(dims, parts):
    utils.clip_grad_norm_([p for m in parts for p in m.parameters()], 1.0, foreach=True, pp_mesh=dims.get_optional_mesh("pp"),
                          ep_enabled=dims.ep_enabled)


def whole(case, config, dims, spec, model, converters):
    model = llama.materialise(spec.parallelize_fn(model, dims, config))
    model.train()
    optimizers = spec.build_optimizers_fn([model], config.optimizer, dims)
    loss_of = spec.build_loss_fn(config)
    context = utils.get_train_context(dims.tp_enabled and not config.parallelism.disable_loss_parallel)
    batch = torch.zeros(case.micro_batch, case.sequence, dtype=torch.long)

    def train_step(mark):
        optimizers.zero_grad()
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            inputs, labels, more = inputs_of(case, config, dims, batch)
            with context():
                prediction = model(inputs, **more)
                loss = loss_of(prediction, labels) / case.sequence
                del prediction
                mark(f"backward{index or ''}")
                loss.backward()
            del loss
        mark("optimizer")
        clip(dims, [model])
        optimizers.step()
        converters.post_optimizer_hook([model])

    return step.measure(train_step)


def inputs_of(case, config, dims, batch):
    """Tokens, labels and, of a part of the sequence, positions."""
    inputs, labels, more = batch.cuda(), batch.cuda(), {}
    if case.context > 1:
        from torchtitan.distributed.context_parallel import prepare_context_parallel_input
        inputs, labels, more = prepare_context_parallel_input(inputs, labels, more, dims.get_mesh("cp"), torch.device("cuda"),
                                                              config.parallelism.context_parallel_load_balancer)
    return inputs, labels, more


def staged(case, config, dims, spec, model, converters):
    shape_stages(case, config)
    schedule, parts, first, last = pipeline_parallel.pipeline_llm(model, dims, config, torch.device("cuda"), model.model_args,
                                                                  spec.parallelize_fn, spec.build_loss_fn(config))
    for part in parts:
        llama.materialise(part).train()
    optimizers = spec.build_optimizers_fn(parts, config.optimizer, dims)
    context = utils.get_train_context(dims.tp_enabled and not config.parallelism.disable_loss_parallel)
    batch = torch.zeros(case.micro_batch * case.accumulate, case.sequence, dtype=torch.long)

    def train_step(mark):
        optimizers.zero_grad()
        mark("forward")
        inputs, labels, more = inputs_of(case, config, dims, batch)
        with context():
            schedule.step(*((inputs,) if first else ()), **more, target=labels if last else None, losses=[] if last else None,
                          return_outputs=False)
        mark("optimizer")
        clip(dims, parts)
        optimizers.step()
        converters.post_optimizer_hook(parts)

    return step.measure(train_step, pipelines.watch(schedule))


def shape_stages(case, config):
    """Stages tell each other the shapes of what they send before the first step; alone, a rank has to be told."""
    def shape(*sizes, dtype=torch.bfloat16):
        return torch.empty(*sizes, dtype=dtype, device="meta", requires_grad=dtype is torch.bfloat16)

    def stage(module, index, count, device, group):
        sequence = case.sequence // case.context
        hidden = shape(case.micro_batch, sequence // case.tensor, case.model.hidden)
        loss_parallel = case.tensor > 1 and not config.parallelism.disable_loss_parallel
        logits = shape(case.micro_batch, sequence, case.model.vocab // (case.tensor if loss_parallel else 1))
        tokens = shape(case.micro_batch, sequence, dtype=torch.long)
        return PipelineStage(module, index, count, device, input_args=(tokens if index == 0 else hidden,),
                             output_args=(logits if index == count - 1 else hidden,), group=group)

    pipeline_parallel.PipelineStage = stage
