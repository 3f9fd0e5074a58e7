"""torchtune's full_finetune_distributed: its Llama 3 in bf16 under its own wrapping, chunked loss and scaling of gradients."""
import functools

import torch

import absent
import llama

absent.stand_in("datasets", "datasets.distributed", "sentencepiece", "tiktoken", "tiktoken.load", "kagglehub", "kagglehub.auth", "blobfile",
                "torchdata", "torchdata.stateful_dataloader", "torchdata.nodes", "tqdm.auto", "PIL", "PIL.Image", "torchvision",
                "torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.v2.functional")

from torch.distributed.device_mesh import init_device_mesh
from torchtune import modules, training
from torchtune.models.llama3 import llama3
from torchtune.modules.loss import CEWithChunkedOutputLoss

import step
import world


def record(case):
    world.join(case)
    m = case.model
    with training.set_default_dtype(torch.bfloat16), torch.device("meta"):
        model = llama3(vocab_size=m.vocab, num_layers=m.layers, num_heads=m.heads, num_kv_heads=m.kv_heads, embed_dim=m.hidden,
                       max_seq_len=case.sequence, intermediate_dim=m.ffn, attn_dropout=0.0, norm_eps=1e-5, rope_base=500000)
    loss_of = CEWithChunkedOutputLoss()
    if case.option("compile"):
        training.compile_model(model, verbose=False)
        training.compile_loss(loss_of, verbose=False)
    if case.recompute == "full":
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    ends = ["tok_embeddings", "output"] if case.option("ends", True) else None
    training.shard_model(model=model, shard_conditions=[functools.partial(training.get_shard_conditions, names_to_match=ends)],
                         cpu_offload=False, reshard_after_forward=case.parallelism.get("reshard_after_forward", True),
                         dp_mesh=init_device_mesh("cuda", (case.world,), mesh_dim_names=("dp",)))
    with training.set_default_dtype(torch.bfloat16), torch.device("cuda"):
        for module in model.modules():
            if hasattr(module, "rope_init"):
                module.rope_init()
    for module in model.modules():  # what load_from_full_model_state_dict leaves: parameters as shards on the device
        if any(p.is_meta for p in module.parameters(recurse=False)):
            module.to_empty(device="cuda", recurse=False)
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
        torch.distributed.all_reduce(number)
        torch.distributed.all_reduce(running)
        training.scale_grads(model, case.world / number)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step.measure(train_step)
