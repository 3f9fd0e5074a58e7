"""NeMo AutoModel's recipe for fine-tuning (nemo_automodel/recipes/llm/train_ft.py): its models, its wrapping, its loss and its own step,
without what reads checkpoints and data sets. Transformer Engine is not there: its backend falls back to torch's operators, as it does
for a user without it."""
import types

import torch
import transformers.masking_utils

import absent
import llama
import step
import world

# Kernels that no recipe asks for unless told to (use_triton), which a newer Triton refuses.
absent.stand_in("nemo_automodel.components._peft.lora_kernel")
absent.stand_in_packages("datasets", "torchdata", "wandb", "mlflow", "mistral_common", "megatron_fsdp", "tiktoken")

from nemo_automodel import NeMoAutoModelForCausalLM  # noqa: E402
from nemo_automodel.components._peft.lora import PeftConfig  # noqa: E402
from nemo_automodel.components.distributed import mesh_utils, tp_replicas  # noqa: E402
from nemo_automodel.components.loss.masked_ce import MaskedCrossEntropy  # noqa: E402
from nemo_automodel.components.models.llama.rope_utils import LlamaRotaryEmbedding  # noqa: E402
from nemo_automodel.recipes._dist_utils import create_distributed_setup_from_config  # noqa: E402
from nemo_automodel.recipes.llm import train_ft  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL  # noqa: E402


MATRICES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def distributed(case):
    """The section `distributed` of a recipe."""
    mesh_utils._mesh_device_type = lambda: "cuda"  # it asks for NCCL by name, and torch's fake process group is here
    settings = {"activation_checkpointing": {"none": False}.get(case.recompute, case.recompute)}
    if case.parallelism.get("sharding") == "none":
        settings["strategy"] = "ddp"
    else:
        settings |= {"strategy": "fsdp2", "tp_size": case.tensor, "dp_replicate_size": case.replicas}
    if "reshard_after_forward" in case.parallelism:
        settings["reshard_after_forward"] = case.parallelism["reshard_after_forward"]
    return create_distributed_setup_from_config({"distributed": settings}, world_size=case.world)


def build(case, setup):
    lora = case.option("lora")
    peft = PeftConfig(target_modules=[f"*.{MATRICES[t]}" for t in lora["targets"]], dim=lora["rank"], alpha=32,
                      dropout=lora.get("dropout", 0.0)) if lora else None
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[case.option("parameters", "bf16")]
    own = {}
    if case.option("force_hf"):  # transformers' class, in whose attention AutoModel would try cuDNN first
        own = {"force_hf": True, "sdpa_method": ["flash_attention"]}
    configuration = llama.configuration(case)
    configuration.use_cache = True  # as in every config.json; checkpointing turns it off (components/distributed/activation_checkpointing.py:703)
    configuration.architectures = [CAUSAL[configuration.model_type]]  # by which AutoModel finds a model of its own
    return NeMoAutoModelForCausalLM.from_config(configuration, torch_dtype=dtype, distributed_setup=setup, peft_config=peft,
                                                use_liger_kernel=False, **own)


class Recipe(train_ft.TrainFinetuneRecipeForNextTokenPrediction):
    """What its setup() leaves and its step reads."""

    def __init__(self, case, setup, model):
        mesh = setup.mesh_context
        self.model_parts, self.pp_enabled, self.device_mesh, self.moe_mesh = [model], False, mesh.device_mesh, mesh.moe_mesh
        self.dist_env = types.SimpleNamespace(device=torch.device("cuda"), world_size=case.world, is_main=True)
        self.distributed_config, self.loss_fn = setup.strategy_config, MaskedCrossEntropy()
        self.tokenizer = self.domain_mixture = self.te_fp8 = self.lr_scheduler = None
        self.checkpointer = types.SimpleNamespace(maybe_wait_for_staging=lambda: None)
        self.step_scheduler = types.SimpleNamespace(step=0, epoch=0)
        self.cfg = types.SimpleNamespace(get=lambda name, default=None: default)
        self.optimizer, self.timestamp = [optimizer(case, model)], 0.0
        self.mark = None

    def _dp_allreduce(self, tensor, *arguments, **named):
        super()._dp_allreduce(tensor, *arguments, **named)
        return tensor  # which the device does not tell here

    def _forward_backward_step(self, idx, *arguments, **named):
        self.mark(f"forward{idx or ''}")
        return super()._forward_backward_step(idx, *arguments, **named)


def optimizer(case, model):
    """torch.optim.AdamW as recipes name it; without foreach over tensor ranks (components/optim/optimizer.py:231)."""
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, foreach=False if case.tensor > 1 else None)


def replicas_are_told(case):
    """Tensor ranks ask each other which gradients they have, which the device does not tell here: all the same."""
    class Told:
        __getattr__ = staticmethod(lambda name: getattr(torch, name))

        @staticmethod
        def tensor(values, dtype, device):
            out = torch.tensor(values, dtype=dtype, device=device)
            out.cpu = lambda: torch.tensor(values) * case.tensor
            return out

    tp_replicas.torch = Told()


def positions_are_told(case):
    """Tables of the rotary embedding reach to the largest position, which the device does not tell here."""
    ensure = LlamaRotaryEmbedding._ensure_cache
    LlamaRotaryEmbedding._ensure_cache = lambda self, needed, device: ensure(self, case.sequence, device)


def record(case):
    positions_are_told(case)
    replicas_are_told(case)
    transformers.masking_utils.find_packed_sequence_indices = lambda positions: None  # as llama.build
    world.join(case)
    setup = distributed(case)
    model = build(case, setup)
    model.train()
    recipe = Recipe(case, setup, model)
    batches = [{"input_ids": torch.zeros(case.micro_batch, case.sequence, dtype=torch.long),
                "labels": torch.zeros(case.micro_batch, case.sequence, dtype=torch.long)} for _ in range(case.accumulate)]

    def train_step(mark):
        recipe.mark = mark
        recipe._run_train_optim_step([dict(batch) for batch in batches], 1.0)

    return step.measure(train_step)
