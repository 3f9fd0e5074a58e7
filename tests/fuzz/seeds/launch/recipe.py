from .common import _base, LENGTHS as SIZES
KNOWN = {(1, 1): None, (2, 1): [["embedding"] + ["decoder"] * 2, ["decoder", "loss"]]}


def _layout(cfg, *others, pp=2, **more):
    cfg.model.layout = [list(x) for x in KNOWN.get((pp, 1)) or []]
    cfg.train.micro_batch_size += 1
    return pp if pp in [1, 2] and not others else 0


def recipe(scheme: str = "lora", nodes=None):
    cfg = Config(train=Train(micro_batch_size=1))
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").to_provider(load=False)
    cfg.model.pipeline_model_parallel_size = _layout(cfg, **{"pp": 2})
    cfg.env["NCCL_ALGO"] = "Ring"
    cfg.optimizer, cfg.scheduler = adam(lr=3e-4)
    if isinstance(scheme, str) and scheme.lower() in ("lora", "dora"):
        cfg.peft = LoRA(dim=8 if nodes is None else 16 // 2, target_modules=["linear_qkv"])
    elif nodes:
        raise ValueError(f"no {scheme}")
    cfg.mixed_precision = bf16_mixed()
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    return cfg
