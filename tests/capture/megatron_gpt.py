"""GPT pretraining with megatron-core, as its quickstart writes it, with tensor and pipeline parallelism."""
import argparse
import os
from functools import partial

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

parser = argparse.ArgumentParser()
parser.add_argument("--tp", type=int, default=8)
parser.add_argument("--pp", type=int, default=1)
parser.add_argument("--micro-batches", type=int, default=8)
parser.add_argument("--layers", type=int, default=32)
parser.add_argument("--hidden", type=int, default=4096)
parser.add_argument("--heads", type=int, default=32)
a = parser.parse_args()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
parallel_state.initialize_model_parallel(a.tp, a.pp)
model_parallel_cuda_manual_seed(123)
config = TransformerConfig(num_layers=a.layers, hidden_size=a.hidden, num_attention_heads=a.heads, ffn_hidden_size=4 * a.hidden, bf16=True, params_dtype=torch.bfloat16,
                           pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=a.tp, pipeline_model_parallel_size=a.pp,
                           sequence_parallel=False, hidden_dropout=0.0, attention_dropout=0.0, add_bias_linear=False,
                           gradient_accumulation_fusion=False, masked_softmax_fusion=False)
model = GPTModel(config, get_gpt_layer_local_spec(normalization="LayerNorm"), vocab_size=51200, max_sequence_length=2048,
                 pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
                 share_embeddings_and_output_weights=False).cuda().bfloat16()
ddp = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=False)
model = DistributedDataParallel(config, ddp, model)
config.finalize_model_grads_func = finalize_model_grads
optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, clip_grad=1.0), [model])


def loss_of(mask, output):
    loss = (output.float().view(-1) * mask).sum() / mask.numel()
    return loss, {"loss": loss.detach()}


# As the data loader gives it (megatron/core/datasets/gpt_dataset.py:740).
causal = torch.tril(torch.ones(1, 1, 2048, 2048)) < 0.5


def forward(data, model):
    tokens = torch.zeros(1, 2048, dtype=torch.long, device="cuda")
    positions = torch.arange(2048, device="cuda").unsqueeze(0)
    output = model(tokens, positions, causal.cuda(non_blocking=True), labels=tokens)
    return output, partial(loss_of, torch.ones(2048, device="cuda"))


for step in range(50):
    model.zero_grad_buffer()
    optimizer.zero_grad()
    get_forward_backward_func()(forward_step_func=forward, data_iterator=None, model=[model], num_microbatches=a.micro_batches,
                                seq_length=2048, micro_batch_size=1, forward_only=False)
    optimizer.step()
