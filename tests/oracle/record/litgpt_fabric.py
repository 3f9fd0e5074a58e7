"""litgpt's full fine-tuning: its GPT in bf16 through Lightning Fabric, with Fabric's FSDP where there are several devices."""
import torch

import absent
import llama

absent.stand_in("tensorboardX")

import lightning
from lightning.fabric.plugins.environments import TorchElasticEnvironment
from lightning.fabric.strategies import FSDPStrategy
from litgpt.config import Config
from litgpt.model import GPT, Block
from litgpt.utils import chunked_cross_entropy

import step
import world


def record(case):
    world.join(case)
    whole = not case.parallelism.get("reshard_after_forward", True)
    strategy = FSDPStrategy(auto_wrap_policy={Block}, activation_checkpointing_policy={Block} if case.recompute == "full" else None,
                            state_dict_type="full", limit_all_gathers=True, cpu_offload=False,
                            sharding_strategy="SHARD_GRAD_OP" if whole else "FULL_SHARD")
    fabric = lightning.Fabric(accelerator="cuda", devices=8, num_nodes=case.world // 8, strategy=strategy,
                              precision=case.option("precision", "bf16-true"), plugins=[TorchElasticEnvironment()])
    fabric.launch()
    m = case.model
    config = Config(name="recorded", block_size=case.sequence, vocab_size=m.vocab, padded_vocab_size=m.vocab, n_layer=m.layers, n_head=m.heads,
                    n_query_groups=m.kv_heads, n_embd=m.hidden, intermediate_size=m.ffn, rotary_percentage=1.0, parallel_residual=False,
                    bias=False, norm_class_name="RMSNorm", mlp_class_name="LLaMAMLP", rope_base=500000)
    with fabric.init_module(empty_init=True):
        model = GPT(config)
    model = fabric.setup(model)
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=2e-5, fused=case.option("optimizer", "foreach") == "fused" or None))
    x = llama.tokens(case)
    model.train()

    def train_step(mark):
        for index in range(case.accumulate):
            mark(f"forward{index or ''}")
            with fabric.no_backward_sync(model, enabled=index < case.accumulate - 1):
                logits = model(x)
                loss = chunked_cross_entropy(logits[..., :-1, :], x[..., 1:])
                mark(f"backward{index or ''}")
                fabric.backward(loss / case.accumulate)
            del logits, loss
        mark("optimizer")
        optimizer.step()
        optimizer.zero_grad()

    return step.measure(train_step)
