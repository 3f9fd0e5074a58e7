"""torchtune's full_finetune_distributed, lora_finetune_distributed and, on one device, lora_finetune_single_device: its Llama 3 in bf16 under
its own wrapping, chunked loss and scaling of gradients."""
import functools

import torch

import absent
import llama

absent.stand_in("datasets", "datasets.distributed", "sentencepiece", "tiktoken", "tiktoken.load", "kagglehub", "kagglehub.auth", "blobfile",
                "torchdata", "torchdata.stateful_dataloader", "torchdata.nodes", "tqdm.auto", "PIL", "PIL.Image", "torchvision",
                "torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.v2.functional")

from torch.distributed.device_mesh import init_device_mesh
from torchtune import modules, training
from torchtune.models.llama3 import llama3, lora_llama3
from torchtune.modules.loss import CEWithChunkedOutputLoss
from torchtune.modules.peft import LoRALinear, get_adapter_params, set_trainable_params

import step
import world


ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "output_proj"}


def build(case):
    m, lora = case.model, case.option("lora")
    sizes = {"vocab_size": m.vocab, "num_layers": m.layers, "num_heads": m.heads, "num_kv_heads": m.kv_heads, "embed_dim": m.hidden,
             "max_seq_len": case.sequence, "intermediate_dim": m.ffn, "attn_dropout": 0.0, "norm_eps": 1e-5, "rope_base": 500000}
    if not lora:
        return llama3(**sizes)
    model = lora_llama3(lora_attn_modules=[name for target, name in ATTENTION.items() if target in lora["targets"]],
                        apply_lora_to_mlp="gate" in lora["targets"], lora_rank=lora["rank"], lora_alpha=16.0,
                        lora_dropout=lora.get("dropout", 0.0), quantize_base=case.option("quantised", False), **sizes)
    set_trainable_params(model, get_adapter_params(model))
    return model


def shard(case, model):
    """_setup_model of the distributed recipes."""
    ends = ["tok_embeddings", "output"] if case.option("ends", True) else None
    training.shard_model(model=model, shard_conditions=[functools.partial(training.get_shard_conditions, names_to_match=ends)],
                         cpu_offload=False, reshard_after_forward=case.parallelism.get("reshard_after_forward", True),
                         dp_mesh=init_device_mesh("cuda", (case.world,), mesh_dim_names=("dp",)))
    with training.set_default_dtype(torch.bfloat16), torch.device("cuda"):
        for module in model.modules():
            if isinstance(module, LoRALinear):
                module.to_empty(device="cuda")
            if hasattr(module, "rope_init"):
                module.rope_init()
    for module in model.modules():  # what load_from_full_model_state_dict leaves: parameters as shards on the device
        for name, p in list(module.named_parameters(recurse=False)):
            if p.is_meta:
                empty = torch.nn.Parameter(torch.empty_like(p, device="cuda"), requires_grad=p.requires_grad)
                module.register_parameter(name, empty)


def record(case):
    alone = case.world == 1
    world.alone(case) if alone else world.join(case)
    with training.set_default_dtype(torch.bfloat16), torch.device("cuda" if alone else "meta"):
        model = build(case)
    loss_of = CEWithChunkedOutputLoss()
    if case.option("compile"):
        training.compile_model(model, verbose=False)
        training.compile_loss(loss_of, verbose=False)
    if case.recompute == "full":
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    if not alone:
        shard(case, model)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    model.set_num_output_chunks(loss_of.num_output_chunks)
    x = llama.tokens(case)
    ignored = torch.full((case.micro_batch, 1), loss_of.ignore_index, device="cuda")

    def train_step(mark):
        running, number = 0, torch.ones((), device="cuda")
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            logits = model(tokens=x)
            labels = torch.hstack((x[..., 1:], ignored))
            loss = loss_of(logits, labels) * number
            del logits
            running += loss
            mark(f"backward{index or ''}")
            loss.backward()
        mark("optimizer")
        if not alone:
            torch.distributed.all_reduce(number)
            torch.distributed.all_reduce(running)
        training.scale_grads(model, case.world / number)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step.measure(train_step)
