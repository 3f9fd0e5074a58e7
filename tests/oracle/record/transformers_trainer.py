"""transformers' Trainer over LlamaForCausalLM, prepared by accelerate: FSDP of either version or DDP, and PEFT's LoRA."""
import contextlib
import os
import pathlib
import tempfile

import torch
import transformers

import ddp
import llama
import step
import transformers_routing
import world


def record(case, trainer_of=transformers.Trainer, arguments_of=transformers.TrainingArguments, **further):
    """`further`: what each batch holds beside tokens and labels."""
    world.join(case)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[case.option("parameters", "fp32")]
    model = llama.build(case, dtype, norm=case.option("norm", "eager"))
    layer = type(llama.layers_of(model)[0]).__name__
    experts = getattr(model.config, "num_experts", getattr(model.config, "num_local_experts", 0))
    if experts and before_5():
        transformers_routing.balance(experts)
    quantised = case.option("quantised")
    if quantised:
        blocks = four_bit(model, quantised)
    model = llama.materialise(model)
    lora = case.option("lora")
    if quantised:
        for parent, name, block in blocks:
            setattr(parent, name, block)
        model.is_loaded_in_4bit = True  # as from_pretrained leaves it; PEFT chooses its layers by it (0.21.2, tuners/lora/model.py)
        if quantised == "uint8":  # a script's own call; it widens what is not quantised (peft/utils/other.py), which FSDP could not flatten
            import peft
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=case.recompute == "full",
                                                         gradient_checkpointing_kwargs={"use_reentrant": False})
    if lora:
        model.enable_input_require_grads()  # else checkpoints of frozen layers have nothing to differentiate
        model = llama.adapted(model, lora)
    trainer = trainer_of(model=model, args=arguments(case, layer, arguments_of))
    if trainer.args.use_liger_kernel:  # as Trainer.train
        from transformers.integrations.liger import apply_liger_kernel  # absent before 5.0
        without_kernels()
        apply_liger_kernel(trainer.model, trainer.args.liger_kernel_config)
    model = prepared(trainer)
    if case.parallelism.get("sharding", "none") == "none":
        model.register_comm_hook(None, ddp.reduce_by_torch)
    trainer.current_gradient_accumulation_steps = case.accumulate
    x = llama.tokens(case)
    model.train()

    def train_step(mark):  # as Trainer._run_epoch
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            last = index == case.accumulate - 1
            trainer.accelerator.gradient_state._set_sync_gradients(last)
            with contextlib.nullcontext() if last else trainer.accelerator.no_sync(model):
                trainer.training_step(model, {"input_ids": x, "labels": x, **{name: make(x) for name, make in further.items()}})
        mark("optimizer")
        clip(trainer, model)
        trainer.optimizer.step()
        model.zero_grad()

    return step.measure(train_step)


def before_5():
    return int(transformers.__version__.split(".")[0]) < 5


def prepared(trainer):
    """The model as it is trained, with its optimizer."""
    if not before_5():
        return trainer._prepare_for_training(1_000_000, None, None)[0]
    # As transformers before 5.0 (4.57.6, trainer.py:2416, _inner_training_loop), which prepares an FSDP1 model twice.
    accelerator = trainer.accelerator
    if trainer.is_fsdp_enabled and getattr(accelerator.state.fsdp_plugin, "fsdp_version", 1) != 2:
        trainer._fsdp_qlora_plugin_updates()
        trainer.model = accelerator.prepare(trainer.model)
    trainer.create_optimizer_and_scheduler(num_training_steps=1_000_000)
    trainer.model.train()
    model, trainer.optimizer = accelerator.prepare(trainer.model, trainer.optimizer)
    trainer.model_wrapped = model
    if trainer.is_fsdp_enabled:
        trainer.model = model
    return model


def clip(trainer, model):
    if hasattr(trainer, "_clip_grad_norm"):
        trainer._clip_grad_norm(model)
    else:
        trainer.accelerator.clip_grad_norm_(model.parameters(), trainer.args.max_grad_norm)


def without_kernels():
    """Liger's Python allocates all that its kernels write, so that none of these need be compiled."""
    import triton.runtime.autotuner
    import triton.runtime.jit
    triton.runtime.jit.JITFunction.run = triton.runtime.autotuner.Autotuner.run = lambda *_, **__: None
    # Its loss asserts that labels are words, of which the device tells nothing here.
    import liger_kernel.ops.cross_entropy as loss
    exec(compile(pathlib.Path(loss.__file__).read_text(), loss.__file__, "exec", optimize=1), vars(loss))


def four_bit(model, storage):
    """Takes the linear layers of a model on the meta device but its head out, and gives them back in NF4 with constants that are
    quantised twice, as transformers loads them; `storage`: the format in which they lie, which FSDP wants to be the others'."""
    import bitsandbytes
    import torch.nn as nn
    blocks = []
    for parent in list(model.model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                block = bitsandbytes.nn.Linear4bit(child.in_features, child.out_features, bias=False, device="meta",
                                                   compute_dtype=torch.bfloat16, quant_type="nf4")
                whole = torch.empty(child.out_features, child.in_features, dtype=torch.bfloat16)
                block.weight = bitsandbytes.nn.Params4bit(whole, requires_grad=False, compress_statistics=True, quant_type="nf4",
                                                          quant_storage=getattr(torch, storage), module=block)
                blocks.append((parent, name, block.cuda()))
                setattr(parent, name, nn.Identity())
    return blocks


def arguments(case, layer, of):
    settings = {}
    sharding = case.parallelism.get("sharding", "none")
    if sharding != "none":
        whole = not case.parallelism.get("reshard_after_forward", True)
        version = case.option("fsdp_version", 1)
        config = {"version": version, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": [layer],
                  "reshard_after_forward": not whole if version == 2 else "SHARD_GRAD_OP" if whole else "FULL_SHARD"}
        if version == 1:
            config["use_orig_params"] = case.option("use_orig_params", True)
        settings = {"fsdp": True, "fsdp_config": config}
        if before_5():  # layers are wrapped where it is asked for
            settings["fsdp"] = "shard_grad_op auto_wrap" if whole else "full_shard auto_wrap"
            if version == 2:  # accelerate launch --fsdp_version 2
                config["reshard_after_forward"] = str(not whole).lower()
                os.environ["FSDP_VERSION"] = "2"
    liger = case.option("liger")
    if liger:  # true, or its options by name
        settings |= {"use_liger_kernel": True, "liger_kernel_config": None if liger is True else liger}
    return of(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=case.micro_batch, gradient_accumulation_steps=case.accumulate, bf16=True,
        torch_compile=bool(case.option("compile")), report_to=[], max_grad_norm=1.0, optim=case.option("optimizer", "adamw_torch_fused"), ddp_find_unused_parameters=False, **settings)
