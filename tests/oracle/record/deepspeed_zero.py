"""DeepSpeed's engine, ZeRO-0 to 3, over LlamaForCausalLM in bf16."""
import torch

import deepspeed
from deepspeed.runtime.zero import stage3

import llama
import step
import world


def record(case):
    world.join(case)
    if case.option("zero_init"):
        # Transformers builds its models inside of it (modeling_utils.py, get_init_context), and torch's linear stays replaced behind it.
        with deepspeed.zero.Init():
            pass
    stage = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}[case.parallelism.get("sharding", "none")]
    model = llama.materialise(llama.build(case, torch.bfloat16, norm=case.option("norm", "fused")))
    if case.option("lora"):
        model.enable_input_require_grads()  # else checkpoints of frozen layers have nothing to differentiate
        model = llama.adapted(model, case.option("lora"))
    # DeepSpeed's FusedAdam is compiled on the machine. As it does, torch's fused AdamW has no temporaries.
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    zero = {"stage": stage, **case.option("zero", {})}
    overlap = case.parallelism.get("overlap", {}).get("grad_reduce")
    if overlap is not None:
        zero["overlap_comm"] = overlap
    accumulated = case.option("grad_accum")
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, dist_init_required=False, config={
        "train_micro_batch_size_per_gpu": case.micro_batch, "gradient_accumulation_steps": case.accumulate, "bf16": {"enabled": True},
        "zero_optimization": zero, "gradient_clipping": 1.0, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
        **({"data_types": {"grad_accum_dtype": accumulated}} if accumulated else {})})
    engine.train()
    read_no_values(engine.optimizer)
    x = llama.tokens(case)

    def train_step(mark):
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            loss = engine(input_ids=x, labels=x).loss
            mark(f"backward{index or ''}")
            engine.backward(loss)
            del loss
            mark("optimizer")
            engine.step()

    return step.measure(train_step)


def read_no_values(optimizer):
    """Overflow is read from gradients, which mean nothing here: a step would be skipped."""
    stage3.is_invalid_grad_norm = lambda norm: False
    none = lambda *_, **__: setattr(optimizer, "overflow", False)
    optimizer._overflow_check_and_loss_scale_update = optimizer.check_overflow = none
