"""scripts/rows-to-jobs: what becomes of rows of each kind.

    python3 tests/scripts/rows_to_jobs_test.py SOURCE_FOLDER
"""
import contextlib
import copy
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
os.environ["STEPCAST_DATA"] = str(ROOT)
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))

from rows.command import main  # noqa: E402 (the path comes first)

DENSE = {
    "id": "dense", "source": "a table", "notes": "seen", "framework": "Megatron-LM", "framework_version": None, "year": 2021, "gpu": "A100",
    "num_gpus": 16, "gpus_per_node": 8, "inter_node": "8x200Gb/s HDR InfiniBand HCAs per node",
    "model": {"name": "a name", "arch": "gpt", "layers": 24, "hidden": 2048, "heads": 16, "vocab": 51200},
    "seq_len": 2048, "global_batch": 512, "micro_batch": 4, "grad_accum": None,
    "parallel": {"dp": 4, "tp": 2, "pp": 2, "vpp": 1, "sequence_parallel": False},
    "metric": "tflops_per_gpu", "value": 138, "other_metrics": {"iteration_s": 5.5, "mfu": 44},
    "job": {"device": "a100-sxm-80", "schedule": "1f1b", "precision": "fp16", "recompute": "full", "attention": "unfused", "flops": "sc21_hardware"},
}
OPERATOR = {
    "id": "operator", "source": "a benchmark", "level": "op", "kernel": "swiglu", "provider": "liger", "mode": "full", "x_name": "T", "x": 1024.0,
    "config": "{\"bsz\": 4, \"eps\": 1e-06, \"hidden_size\": 4096, \"dtype\": \"torch.bfloat16\"}", "gpu": "NVIDIA H100 80GB HBM3",
    "metric": "peak_memory_mib", "value": 256.5,
}


def row(base=None, **changes):
    """A copy with other values: key, or part__key."""
    out = copy.deepcopy(base or DENSE)
    for path, value in changes.items():
        *parts, last = path.split("__")
        target = out
        for part in parts:
            target = target.setdefault(part, {})
        target[last] = value
    return out


def without(base, path):
    out = copy.deepcopy(base)
    *parts, last = path.split(".")
    target = out
    for part in parts:
        target = target[part]
    del target[last]
    return out


def convert(*rows, ran=None):
    """(exit status, runs, lines of standard error without the file's name) of rows, or of lines of text. `ran`: what runs the
    program; in this process where it is None."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.jsonl"
        file.write_bytes(b"".join((r if isinstance(r, bytes) else r.encode() if isinstance(r, str) else json.dumps(r).encode()) + b"\n"
                                  for r in rows))
        status, out, err = (ran or in_process)(str(file))
        runs = [json.loads(line) for line in out.splitlines()]
        return status, runs, [line.removeprefix(f"{file}:") for line in err.splitlines()]


def in_process(file):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([file])
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


def as_process(file):
    ran = subprocess.run([sys.executable, str(ROOT / "scripts" / "rows-to-jobs"), file], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


class RowsToJobs(unittest.TestCase):
    maxDiff = None

    def run_of(self, changed):
        status, runs, errors = convert(changed)
        self.assertEqual((status, len(runs)), (0, 1), errors)
        return runs[0]

    def skip_of(self, changed):
        """"KIND: DETAIL" of a row that is skipped."""
        status, runs, errors = convert(changed)
        self.assertEqual((status, runs), (0, []))
        self.assertTrue(errors[-1].startswith("1 rows: 0 runs, 1 skipped"), errors)
        return errors[0].split(": ", 2)[2]

    def test_a_dense_row_is_written_whole(self):
        self.assertEqual(self.run_of(DENSE), {
            "id": "dense", "source": "a table",
            "job": {
                "model": {"layers": 24, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 51200, "gated_mlp": False,
                          "tied_embeddings": True, "positions": "learned", "max_positions": 2048, "norm": "layer", "biases": True,
                          "dropout": 0.1},
                "cluster": {"use": "dgx-a100", "nodes": 2, "gpus_per_node": 8, "device": "a100-sxm-80",
                            "node": {"nics": 8, "nic": "200 Gb/s"}},
                "system": {"use": "megatron-lm-2021"},
                "workload": {"sequence_length": 2048, "global_batch": 512, "micro_batch": 4, "precision": "fp16"},
                "parallelism": {"data": 4, "tensor": 2, "pipeline": 2, "sequence_parallel": False, "sharding": "none",
                                "schedule": "1f1b"},
                "kernels": {"attention": "unfused"},
                "memory": {"recompute": "full"},
            },
            "measured": {"model_flops_per_second_per_gpu": 138e12, "step_time": 5.5, "mfu": 0.44},
            "flops": "sc21_hardware",
        })

    def test_the_row_s_own_metric_comes_first_and_rates_count_once(self):
        run = self.run_of(row(metric="mfu", value=0.44, other_metrics={"iteration_s": 5.5, "tflops_per_gpu": 138, "tokens_per_s": 9}))
        self.assertEqual(list(run["measured"]), ["mfu", "step_time", "model_flops_per_second_per_gpu"])

    def test_internevo_wraps_its_modules_on_one_data_rank_too(self):
        of = lambda **more: self.run_of(row(framework="InternEvo", year=2024, **more))["job"]
        fsdp = of(num_gpus=4, parallel={"tp": 4, "pp": 1, "zero_stage": 1, "fsdp": True})
        self.assertEqual((fsdp["system"]["use"], fsdp["parallelism"]["sharding"]), ("internevo-fsdp", "zero3"))
        flat = of(num_gpus=4, parallel={"tp": 4, "pp": 1, "zero_stage": 1, "fsdp": False})
        self.assertEqual((flat["system"]["use"], flat["parallelism"]["sharding"]), ("internevo-2023", "zero1"))

    def test_a_framework_that_counts_flops_in_its_own_way_has_that_convention(self):
        counted = self.run_of(row(framework="AutoModel (PyTorch FSDP2)", job__flops=None))
        self.assertEqual(counted["flops"], "megatron_causal_frozen")
        self.assertEqual(self.run_of(row(framework="AutoModel (PyTorch FSDP2)", job__flops="palm"))["flops"], "palm")

    def test_formulas_of_flops_in_words(self):
        def flops(text, **more):
            return self.run_of(row(job__flops=None, flops_convention=text, **more)).get("flops")
        for text, want in (("96*B*s*L*h^2*(1+s/6h+V/16Lh)", "sc21_hardware"), ("72*B*L*s*h^2*(1 + s/(6h) + v/(12hL))", "korthikanti_model"),
                           ("MFU = (6 * params + 12 L h s) x tokens/s", "palm"), ("6ND", "palm"), ("attention counted causal", "megatron_causal"),
                           ("model FLOPs, full attention", "megatron_full"), ("as printed", None)):
            self.assertEqual(flops(text), want, text)
        self.assertEqual(flops(None, framework="torchtitan", year=2024), "palm")
        self.assertIsNone(flops("6ND", metric="iteration_s", other_metrics={}))  # nothing that is counted

    def test_what_a_row_leaves_open_is_assumed(self):
        open_row = row(inter_node=None, global_batch=None, model__vocab=None, model__heads=None, job__precision=None, job__attention=None,
                       job__recompute=None, model__layers=25)
        self.assertEqual(self.run_of(open_row)["assumed"], {
            "model.heads": "16 heads",
            "model.vocab": "a vocabulary of 50257",
            "cluster.node.nic": "the reference node's network",
            "workload.global_batch": "the global batch",
            "workload.precision": "bf16",
            "parallelism.layers_per_stage": "how the layers lie on the stages",
            "kernels.attention": "the framework's attention kernel",
            "memory.recompute": "the framework's default recomputation",
        })

    def test_maxtext_s_policies_say_what_is_kept_and_where(self):
        def memory(policy, **tuning):
            prose = f"one logged step; tuning: {json.dumps({'remat_policy': policy, **tuning})}"
            return self.run_of(row(framework="MaxText", gpu="TPU v6e", job__device=None, job__recompute=None, recompute=policy,
                                   notes=prose))["job"].get("memory")
        full = {"recompute": "full"}
        self.assertEqual(memory("full"), full)
        self.assertEqual(memory("custom", decoder_layer_input="device"), full)
        self.assertEqual(memory("custom", decoder_layer_input="offload"), {**full, "offload": {"activations": "cpu"}})
        self.assertEqual(memory("qkv_proj_offloaded"), full)
        self.assertIsNone(memory("minimal"))

    def test_maxtext_s_experts_have_buffers_where_their_products_are_dense(self):
        def experts(**tuning):
            return self.run_of(row(framework="MaxText", gpu="TPU v6e", job__device=None, model={"name": "mixtral-8x7b"},
                                   notes=f"one logged step; tuning: {json.dumps(tuning)}"))["job"].get("moe")
        buffers = {"sparse_matmul": "False", "capacity_factor": "1.25"}
        self.assertEqual(experts(**buffers), {"capacity_factor": 1.25, "one_hot": True})
        self.assertIsNone(experts(**{**buffers, "capacity_factor": "-1"}))
        self.assertIsNone(experts(capacity_factor="1.25"))  # dropless: megablox

    def test_torchtune_s_recipes_of_one_device_are_a_preset_of_their_own(self):
        def preset(**changes):
            changed = {"framework": "torchtune", "num_gpus": 1, "global_batch": 4, "job__recompute": None, "job__finetune": "none", **changes}
            return self.run_of(row(parallel={"dp": None, "tp": 1, "pp": 1}, **changed))["job"]["system"]["use"]
        self.assertEqual(preset(), "torchtune-single")
        self.assertEqual(preset(job__recompute="none"), "torchtune")  # a study of optimisations one by one
        self.assertEqual(preset(num_gpus=8, global_batch=32), "torchtune")
        self.assertEqual(preset(global_batch=8), "torchtune")  # accumulates gradients, which steps in the backward pass cannot

    def test_sequences_that_are_not_packed_have_no_stated_length(self):
        prose = "cumulative: Baseline; full fine-tuning; baseline is unpacked (shorter sequences)"
        self.assertEqual(self.skip_of(row(notes=prose)), "incomplete: the sequence length")
        self.run_of(row(notes=prose.replace("Baseline;", "+packed dataset;", 1)))

    def test_adapters_are_in_fp32_before_peft_0_6_and_since_0_12(self):
        def master(year):
            run = self.run_of(row(framework="HF Trainer", year=year, num_gpus=1, job__finetune="lora", job__precision="bf16",
                                  parallel={"dp": 1, "tp": 1, "pp": 1, "zero_stage": 0}))
            return run["job"]["memory"]["dtypes"]["master"]
        self.assertEqual(master(2023), "fp32")
        self.assertIsNone(master(2024))
        self.assertEqual(master(2025), "fp32")

    def test_adamw_of_torch_2_0_makes_a_list_of_denominators(self):
        of = lambda year: self.run_of(row(framework="HF Trainer", year=year, num_gpus=1, job__finetune="lora", job__precision="bf16",
                                          parallel={"dp": 1, "tp": 1, "pp": 1, "zero_stage": 0}))["job"]["system"]
        self.assertTrue(of(2023)["foreach_denominator"])
        self.assertTrue(of(2024)["foreach_optimizer"])
        self.assertNotIn("foreach_denominator", of(2024))

    def test_an_open_micro_batch_is_left_out(self):
        run = self.run_of(row(micro_batch=None))
        self.assertEqual(run["job"]["workload"], {"sequence_length": 2048, "global_batch": 512, "precision": "fp16"})
        self.assertEqual(run["assumed"], {"workload.micro_batch": "the largest micro-batch that fits"})
        self.assertEqual(self.run_of(row(micro_batch=None, grad_accum=32))["job"]["workload"]["micro_batch"], 4)

    def test_numbers_stay_as_written(self):
        text = json.dumps(row(job__device={"use": "h100-sxm", "memory": "95 GiB", "power": "P"})).replace('"P"', "5e2")
        text = text.replace("2048,", "2.048e3,", 1)
        run = self.run_of(text)
        self.assertEqual(run["job"]["cluster"]["device"], {"use": "h100-sxm", "memory": "95 GiB", "power": "5e2"})
        self.assertEqual(json.dumps(run["job"]["model"]["hidden"]), "2048")

    def test_memory_by_kind_and_rank(self):
        run = self.run_of(row(metric="peak_memory_gib", value=30.5, memory_kind="reserved", other_metrics={
            "peak_allocated_gib": 29, "peak_memory_by_rank_mb": {"0": {"max_allocated_mb": 1024.5}, "8": {"max_reserved_mb": 2048}}}))
        self.assertEqual(run["measured"], {"peak_memory": [
            {"kind": "reserved", "bytes": 32749125632}, {"kind": "allocated", "bytes": 31138512896},
            {"kind": "allocated", "rank": 0, "bytes": 1074266112}, {"kind": "reserved", "rank": 8, "bytes": 2147483648}]})
        self.assertEqual(self.run_of(row(metric="peak_memory_gb", value=1.5, other_metrics={}))["measured"], {"peak_memory": 1500000000})

    def test_words_that_name_several_kinds_of_memory_state_none(self):
        several = row(metric="peak_memory_gib", value=1, memory_kind="reserved", other_metrics={"memory_kind": "peak (its log has active and reserved)"})
        run = self.run_of(several)
        self.assertEqual(run["measured"], {"peak_memory": 2**30})
        self.assertEqual(self.run_of(row(metric="peak_memory_gib", value=1, memory_kind="torch max_memory_reserved", other_metrics={}))["measured"],
                         {"peak_memory": [{"kind": "reserved", "bytes": 2**30}]})
        one = row(metric="peak_memory_gib", value=1, memory_kind="reserved", other_metrics={"memory_kind": "max reserved"})
        self.assertEqual(self.run_of(one)["measured"], {"peak_memory": [{"kind": "reserved", "bytes": 2**30}]})

    def test_a_functional_test_measures_its_last_rank_since_the_start(self):
        test = row(gpu=None, extra_args={"bf16": True, "normalization": "RMSNorm", "position-embedding-type": "rope"}, num_gpus=None, gpus_per_node=None,
                   parallel={"tp": 2, "pp": 2}, job__device=None, env={"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NCCL_ALGO": "Ring"},
                   metric="peak_memory_gib", value=1, memory_kind="allocated",
                   other_metrics={"steady_allocated_bytes": 1000, "iteration_s": 3})
        run = self.run_of(test)
        self.assertEqual(run["measured"], {
            "peak_memory": [{"kind": "allocated", "rank": 7, "bytes": 2**30, "since": "start"}],
            "steady_memory": [{"kind": "allocated", "rank": 7, "bytes": 1000}]})
        self.assertEqual(run["job"]["system"]["gemm_workspace"], "32768 KiB")
        self.assertEqual(run["job"]["nccl"], {"algo": "ring"})
        self.assertEqual(run["assumed"]["cluster.device"], "an A100")
        self.assertEqual(self.run_of(row(test, gpu="H100"))["job"]["cluster"]["device"], "h100")

    def test_experts_by_themselves(self):
        run = self.run_of(row(model__arch="single MoE layer", model__moe={"experts": 8, "topk": 2, "moe_ffn": 4096}, parallel__ep=2,
                              metric="layer_forward_ms", value=2.5, other_metrics={"layer_backward_ms": 5, "iteration_s": 3}))
        self.assertEqual(run["measured"], {"experts_forward_time": 0.0025, "experts_backward_time": 0.005})
        self.assertEqual(run["job"]["model"]["mixers"], "-")
        self.assertEqual(run["assumed"]["moe.dispatcher"], "the all-to-all dispatcher")

    def test_more_tensor_ranks_than_key_value_heads_gather_projections(self):
        of = lambda **more: self.run_of(row(model__kv_heads=2, parallel__tp=4, parallel__dp=2, **more))
        self.assertTrue(of()["job"]["system"]["gathers_qkv"])
        self.assertIn("system.gathers_qkv", of()["assumed"])
        self.assertNotIn("gathers_qkv", of(year=2026, framework_version="core 0.16.1")["job"]["system"])  # the preset does

    def test_qwen3_norms_heads_and_stated_parameters_are_kept(self):
        of = lambda **more: self.run_of(row(framework="torchtitan", year=2026, **more))["job"]
        self.assertTrue(of(model__name="Qwen/Qwen3-14B")["model"]["qk_norm"])
        self.assertNotIn("qk_norm", of(model__name="qwen2.5-14b")["model"])
        self.assertEqual(of(precision="params bfloat16, compute bf16")["memory"]["dtypes"], {"parameters": "bf16"})
        self.assertEqual(of(precision="params float32, compute bf16")["memory"]["dtypes"], {"parameters": "fp32"})

    def test_float8_gathers_and_mxfp8_tensors_of_torchtitan(self):
        of = lambda **more: self.run_of(row(framework="torchtitan", year=2024, job__precision="fp8", parallel__fsdp=True,
                                            parallel__zero_stage=3, **more))
        run = of(overlap="FSDP2 prefetch; float8 all-gather")
        self.assertEqual(run["job"]["parallelism"]["float8_all_gather"], "precomputed")
        self.assertIn("parallelism.float8_all_gather", run["assumed"])
        self.assertNotIn("float8_all_gather", of(overlap="FSDP2 prefetch")["job"]["parallelism"])
        self.assertEqual(of(notes="Log lines: Swapped .weight to MXFP8TrainingWeightWrapperTensor")["job"]["workload"]["precision"],
                         "mxfp8")

    def test_what_a_row_ran_is_no_limit_of_its_system(self):
        run = self.run_of(row(framework="torchtune", year=2025))
        self.assertEqual((run["job"]["system"]["use"], run["job"]["system"]["cannot"]), ("torchtune", {}))
        self.assertEqual(run["assumed"]["system"], "'torchtune' behaves as torchtune, which does not run tensor, pipeline")
        self.assertNotIn("cannot", self.run_of(row(framework="torchtune", year=2025, parallel={"dp": 16}))["job"]["system"])

    def test_out_of_memory(self):
        self.assertEqual(self.run_of(row(metric="oom", value=1, other_metrics={}))["measured"], {"outcome": "out of memory"})
        self.assertEqual(self.run_of(row(metric="oom", value=False, other_metrics={}))["measured"], {"outcome": "ran"})

    def test_an_operator(self):
        self.assertEqual(self.run_of(OPERATOR), {
            "id": "operator", "source": "a benchmark",
            "operator": {"kernel": "swiglu", "provider": "liger", "mode": "full", "device": "NVIDIA H100 80GB HBM3", "dtype": "bf16",
                         "sizes": {"T": 1024, "bsz": 4, "hidden_size": 4096}},
            "measured": {"peak_memory": 268959744}})
        self.assertEqual(self.run_of(row(OPERATOR, kernel="cross_entropy", config="{}"))["operator"]["dtype"], "fp32")

    def test_a_published_model_is_named(self):
        self.assertEqual(self.run_of(row(model={"name": "Meta-Llama-3.1-8B-Instruct"}))["job"]["model"], {"use": "llama-3.1-8b"})

    def test_frameworks(self):
        def preset(**changes):
            return self.run_of(row(**changes))["job"]["system"]["use"]
        for version, wanted in (("24.07", "nemo-launcher-2024"), ("25.02", "nemo-2025-02"), ("25.04", "nemo-2025-04"), ("25.09", "nemo"),
                                ("PyTorch 23.09", "nemo-2025-04")):  # the last: two years before the row, so the row's own
            self.assertEqual(preset(framework="NeMo", framework_version=version, year=2025), wanted)
        self.assertEqual(preset(framework="NeMo (MLPerf Training)", job__finetune="lora"), "nemo-mlperf-lora")
        self.assertEqual(preset(framework="AutoModel (PyTorch FSDP2)"), "nemo-automodel")
        self.assertEqual(preset(framework="AutoModel (PyTorch FSDP2)", model={"name": "gpt-oss-20b"}, parallel={"ep": 8}, num_gpus=8),
                         "nemo-automodel-moe")
        self.assertEqual(preset(framework="Megatron-Core", year=2024), "megatron-lm-2024")
        self.assertEqual(preset(framework="megatron-core", year=2024), "megatron-lm-2024")
        self.assertEqual(preset(framework="Colossal-AI 0.3"), "colossal-ai")
        self.assertEqual(preset(framework="torchtitan", framework_version="9dec370 (2024-12-26)", year=2024), "torchtitan-2024")
        self.assertEqual(preset(framework="torchtitan", framework_version="NGC 25.05", year=2025), "torchtitan-2024")
        self.assertEqual(preset(framework="torchtitan", framework_version="25.12", year=2025), "torchtitan-2025")
        self.assertEqual(preset(framework="torchtitan", framework_version="torch 2.13.0a0, CUDA 13.1", year=2026), "torchtitan")
        self.assertEqual(preset(framework="torchtitan", year=2025), "torchtitan-2024")
        self.assertEqual(preset(framework="torchtitan", year=2025, model__name="qwen3-32b"), "torchtitan-2025")
        self.assertEqual(preset(framework="litgpt", parallel={"dp": 2, "fsdp": True, "zero_stage": 3}, num_gpus=2), "litgpt-fsdp")
        alone = {"parallel": {"dp": 16, "fsdp": True}, "year": 2024}
        self.assertEqual(preset(framework="Some trainer (PyTorch FSDP2)", **alone), "pytorch-fsdp2")
        self.assertEqual(preset(framework="Some trainer", **alone), "pytorch-fsdp2")
        self.assertEqual(preset(framework="PyTorch Lightning", parallel={"dp": 16}), "pytorch-ddp")
        self.assertEqual(preset(framework="FSDP with DTensor"), "torchtitan")
        self.assertEqual(preset(framework="Some JAX program"), "maxtext")
        self.assertEqual(preset(framework="a ZeRO-3 trainer"), "deepspeed")
        self.assertEqual(preset(framework="OLMo", parallel={"dp": 16, "fsdp": True}), "olmo")
        self.assertEqual(preset(framework="IBM fms-fsdp", parallel={"dp": 16, "fsdp": True}), "pytorch-fsdp1")
        self.assertEqual(preset(framework="OLMo-core", parallel={"dp": 16, "fsdp": True}), "pytorch-fsdp2")
        self.assertEqual(preset(framework="MosaicML", parallel={"dp": 16, "fsdp": True}), "composer")
        self.assertEqual(preset(framework="LLaMA-Factory", parallel={"dp": 1}), "transformers-4")
        self.assertEqual(preset(framework="LLaMA-Factory", year=2026, parallel={"dp": 1}), "transformers")
        self.assertEqual(preset(framework="GPT-NeoX", year=2022), "gpt-neox")
        self.assertEqual(preset(framework="GPT-NeoX", year=2023), "megatron-deepspeed")
        self.assertEqual(preset(framework="Megatron-DeepSpeed", year=2021), "megatron-deepspeed-2021")
        blocking = self.run_of(row(framework="Megatron-DeepSpeed", env={"CUDA_LAUNCH_BLOCKING": "1"}))
        self.assertTrue(blocking["job"]["system"]["launch_blocking"])
        foundry = lambda version: preset(framework="llm-foundry/Composer", framework_version=version, parallel={"dp": 16, "fsdp": True})
        self.assertEqual([foundry(v) for v in ("torch 2.1.0 cu121 image", None, "torch 1.13.1 cu117 image")],
                         ["llm-foundry-2023", "llm-foundry-2023", "composer-2023"])
        self.assertEqual(preset(framework="LLM Foundry", year=2025, parallel={"dp": 16, "fsdp": True}), "llm-foundry")
        self.assertEqual([preset(framework="Megatron-Core", framework_version=version, year=2025) for version in ("core 0.9.0", "core_r0.13", "core 0.16.1", None)],
                         ["megatron-lm-2024", "megatron-lm-2025", "megatron-lm", "megatron-lm-2025"])
        self.assertEqual(preset(framework="Composer", parallel={"dp": 16, "fsdp": True}), "composer")
        self.assertEqual(preset(framework="metaseq"), "fairscale")
        self.assertEqual(preset(framework="metaseq (fairseq + Megatron-LM's layers)"), "fairscale")
        self.assertEqual(preset(framework="ms-swift (Megatron backend)", year=2025), "megatron-lm-2025")
        self.assertEqual(preset(framework="GSPMD"), "maxtext")
        self.assertEqual(preset(framework="DeepSpeed-Megatron", year=2022), "megatron-deepspeed")
        self.assertEqual(preset(framework="NeMo 25.07", year=2025), "nemo")
        self.assertEqual(preset(framework="HAI-LLM"), "deepseek")
        self.assertEqual(preset(framework="MaxText", job__device="tpu-v6e"), "maxtext-v6e")
        self.assertEqual(preset(framework="MaxText", job__device="tpu-v7"), "maxtext")
        self.assertEqual(preset(framework="MaxText"), "maxtext")

    def test_nanotron(self):
        def job(stage):
            return self.run_of(row(framework="nanotron", year=2024, parallel={"dp": 16, "tp": 8, "pp": 1, "zero_stage": stage},
                                   overlap="tp_mode REDUCE_SCATTER with tp_linear_async_communication; DDP buckets of 25 MB",
                                   inter_node="32 x 100 Gb/s EFA (AWS p5)", job__device="h100-sxm"))["job"]
        self.assertEqual(job(1)["system"], {"use": "nanotron", "async_tensor_backward": True})
        self.assertEqual(job(1)["cluster"]["use"], "aws-p5")
        self.assertNotIn("overlap", job(1)["parallelism"])
        self.assertEqual(job(0)["parallelism"]["overlap"], {"grad_reduce": True})  # DDP's hooks

    def test_weights_stand_in_8_bits_where_the_row_says_so_else_as_the_preset_has_it(self):
        def parameters(overlap):
            run = self.run_of(row(framework="NeMo", framework_version="24.07", year=2025, job__precision="fp8", overlap=overlap))
            return run["job"]["memory"].get("dtypes")
        self.assertIsNone(parameters(None))
        self.assertEqual(parameters("FP8_PARAMS=True"), {"parameters": "fp8"})
        self.assertEqual(parameters("FP8_PARAMS=False"), {"parameters": "bf16"})

    def test_what_the_row_does_not_say_is_left_to_a_preset_of_recipes(self):
        job = self.run_of(row(framework="Megatron-Bridge", year=2025, parallel={"dp": 4, "tp": 2, "pp": 2, "ep": 2},
                              model__moe={"experts": 8, "topk": 2}))["job"]
        self.assertEqual(job["parallelism"], {"data": 4, "tensor": 2, "pipeline": 2, "expert": 2, "sequence_parallel": True,
                                              "schedule": "1f1b"})
        self.assertNotIn("moe", job)

    def test_adapters_of_mlperf(self):
        job = self.run_of(row(framework="NeMo (MLPerf Training)", job__finetune="lora"))["job"]
        self.assertEqual(job["workload"]["finetune"], {"lora": {"rank": 16, "targets": ["q", "k", "v", "o"], "dropout": 0.1}})

    def test_adapters_of_frameworks_that_nobody_describes(self):
        for framework, rank, targets in (("NeMo", 32, ["all"]), ("axolotl", 8, ["q", "v"]), ("LLaMA Factory", 8, ["all"]),
                                         ("unsloth", 16, ["all"])):
            run = self.run_of(row(framework=framework, job__finetune="lora"))
            self.assertEqual(run["job"]["workload"]["finetune"], {"lora": {"rank": rank, "targets": targets}})
            self.assertIn("workload.finetune", run["assumed"])

    def test_variables_of_mlperf(self):
        def job(overlap, runs_in="fp8"):
            return self.run_of(row(framework="NeMo (MLPerf Training)", framework_version="24.04", year=2024, attention="TE fused (cuDNN/flash)",
                                   job__attention="flash2", job__finetune="lora", job__precision=runs_in, overlap=overlap))["job"]
        said = job("FP8_DPA=1 VBOOST_VALUE=0 FP8_ACT=1")
        self.assertEqual(said["kernels"], {"attention": "cudnn", "fp8_attention": True})
        self.assertTrue(said["memory"]["fp8_activation_input"])
        other = job("FP8_DPA=0 FP8_ACTIVATION=False")
        self.assertFalse(other["kernels"]["fp8_attention"])
        self.assertNotIn("fp8_activation_input", other["memory"])
        self.assertNotIn("fp8_attention", job("")["kernels"])  # the preset's
        self.assertEqual(job("", "nvfp4")["memory"]["dtypes"], {"parameters": "fp8"})

    def test_latent_attention_beside_the_shape_or_among_the_experts(self):
        sizes = {"q_lora": 0, "kv_lora": 512, "qk_nope": 128, "qk_rope": 64, "v": 128}
        want = {"q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_dim": 128, "qk_rope_dim": 64, "v_dim": 128}
        longer = {"q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
        for changed in (row(model__mla=sizes), row(model__mla=longer),
                        row(model__arch="moe", model__moe={"experts": 64, "topk": 6, "moe_ffn": 1408, "mla": sizes})):
            model = self.run_of(row(changed, model__kv_heads=16, model__head_dim=192))["job"]["model"]
            self.assertEqual(model["mla"], want)
            self.assertFalse({"kv_heads", "head_dim"} & set(model))
        self.assertEqual(self.skip_of(row(model__mla={"q_lora": 0})),
                         "incomplete: the sizes of latent attention: kv_lora_rank, qk_nope_dim, qk_rope_dim, v_dim")

    def test_dense_layers_and_prediction_layers_of_launch_flags(self):
        changed = row(framework="Megatron-LM", model__arch="moe", model__layers=15, num_gpus=None, parallel__dp=None, parallel__etp=1,
                      parallel__ep=8, model__moe={"experts": 32, "topk": 4, "moe_ffn": 1024, "layer_freq": "([0]*3+[1]*12)"},
                      extra_args={"mtp-num-layers": 1}, metric="peak_memory_gib", memory_kind="allocated")
        job = self.run_of(changed)["job"]
        self.assertEqual((job["model"]["moe"]["dense_layers"], job["model"]["mtp_layers"]), (3, 1))
        self.assertEqual(job["parallelism"]["layers_per_stage"], [8, 7])  # a prediction layer in place of the last stage's eighth
        self.assertEqual(job["parallelism"]["data"], 4)  # 8 ranks for the experts of each stage
        again = row(changed, extra_args={"mtp-num-layers": 2, "mtp-use-repeated-layer": True})
        model = self.run_of(again)["job"]["model"]
        self.assertEqual((model["mtp_layers"], model["mtp_repeated"]), (2, True))

    def test_layers_of_a_launch_flag_pattern(self):
        flags = {"hybrid-layer-pattern": "M-M*E/*E/*E", "mamba-num-heads": 16, "data-parallel-sharding-strategy": "optim_grads_params",
                 "use-distributed-optimizer": True}
        job = self.run_of(row(framework="Megatron-LM", model__arch="hybrid", model__layers=None, model__hidden=768, parallel__zero_stage=3,
                              extra_args=flags, metric="peak_memory_gib", memory_kind="allocated"))["job"]
        self.assertEqual((job["model"]["layers"], job["model"]["mixers"], job["model"]["mlps"]), (5, "m-ma-", "-d--e"))
        self.assertEqual(job["model"]["mamba"], {"heads": 16, "head_dim": 64, "state": 128, "groups": 8, "chunk": 128})
        self.assertEqual(job["parallelism"]["sharding"], "zero1")  # the strategy is Megatron-FSDP's, which does not run
        self.assertEqual(self.skip_of(row(framework="Megatron-LM", model__arch="hybrid", model__layers=None,
                                          extra_args={"hybrid-layer-pattern": "MG"})), "architecture: layers MG")

    def test_what_graphs_capture(self):
        for overlap, want in (("cuda_graph=transformer_engine:['attn', 'moe_router']; moe_dispatcher=hybridep", ["attn", "moe_router"]),
                              ("cuda_graph=transformer_engine:mlp", ["mlp"]), ("cuda_graph=none:full_iteration", None),
                              ("cuda_graph=enabled:per-layer", ["attn", "mlp", "moe"])):
            kernels = self.run_of(row(framework="Megatron-Bridge", overlap=overlap, job__cuda_graph=True))["job"]["kernels"]
            self.assertEqual((kernels["cuda_graph"], kernels.get("cuda_graph_modules")), (True, want))

    def test_models_without_a_width_are_known_by_name(self):
        bare = {"layers": None, "hidden": None, "heads": None, "head_dim": None, "ffn": None, "vocab": None, "moe": None}
        named = {f"model__{key}": value for key, value in bare.items()}
        nano = self.run_of(row(framework="NeMo", model__name="nemotron-3-nano (52-layer hybrid Mamba/attn MoE)", model__arch="hybrid-moe",
                               parallel__ep=8, **named))["job"]
        self.assertEqual(nano["model"], {"use": "nemotron-3-nano-30b-a3b"})
        recipe = self.run_of(row(framework="Megatron-Bridge", model__name="nemotron-3-super-120b-a12b", model__arch=None, parallel__ep=8,
                                 **named))
        self.assertEqual(recipe["job"]["model"], {"use": "nemotron-3-super-120b-a12b-mtp"})
        self.assertEqual(recipe["job"]["system"], {"use": "megatron-bridge-nemotron-3"})
        self.assertIn("model.mtp_layers", recipe["assumed"])
        self.assertEqual(recipe["assumed"]["moe.dispatcher"], "the recipe's dispatcher")

    def test_attention_in_other_words(self):
        for word, year, want in (("FlashAttention-2", 2023, "flash2"), ("flash", 2022, "flash1"), ("Flash Attention", 2024, "flash2"),
                                 ("cuDNN fused attention", 2024, "cudnn"), ("flash_attn v3", 2025, "flash3")):
            self.assertEqual(self.run_of(row(job__device="h100-sxm", job__attention=word, year=year))["job"]["kernels"]["attention"], want, word)
        _, runs, errors = convert(row(job__attention="ring of mirrors"))
        self.assertNotIn("attention", runs[0]["job"].get("kernels", {}))
        self.assertEqual(errors[0], "1: dense: note: attention 'ring of mirrors' is unknown")

    def test_words_of_other_spellings_are_the_product_s(self):
        for key, stated, part, name, expected in (
                ("schedule", "Interleaved-1F1B", "parallelism", "schedule", "interleaved_1f1b"),
                ("schedule", "AFAB", "parallelism", "schedule", "gpipe"),
                ("schedule", "DualPipe", "parallelism", "schedule", "dualpipe"),
                ("recompute", "Activation checkpointing", "memory", "recompute", "full"),
                ("recompute", False, "memory", "recompute", "none"),
                ("precision", "bf16-mixed", "workload", "precision", "bf16"),
                ("precision", "FP8 current scaling", "workload", "precision", "fp8"),
                ("loss", "liger", "kernels", "loss", "chunked"),
                ("allocator", "native", "memory", "allocator", "default")):
            with self.subTest(stated=stated):
                status, runs, errors = convert(row(**{"job__" + key: stated}))
                self.assertEqual(status, 0)
                self.assertEqual(runs[0]["job"][part][name], expected)
                self.assertEqual(errors[0], f"1: dense: note: {key} '{stated}' is taken as {expected}")
        _, runs, errors = convert(row(job__loss=3))
        self.assertNotIn("loss", runs[0]["job"]["kernels"])
        self.assertEqual(errors[0], "1: dense: note: loss '3' is unknown")
        _, runs, errors = convert(row(job__schedule="a dance"))
        self.assertNotIn("schedule", runs[0]["job"]["parallelism"])
        self.assertEqual(errors[0], "1: dense: note: schedule 'a dance' is unknown")

    def test_a_preset_s_limits_are_not_those_of_what_behaves_as_it(self):
        # Megatron-LM runs no ZB-H1: a fork of it that states it does, and who resembles it may run anything.
        run = self.run_of(row(job__schedule="zb_h1"))
        self.assertEqual(run["job"]["system"]["schedules"], [])
        self.assertIn("runs zb_h1", run["assumed"]["system.schedules"])
        self.assertNotIn("schedules", self.run_of(row())["job"]["system"])
        run = self.run_of(row(framework="Nobody's"))
        self.assertEqual((run["job"]["system"]["schedules"], run["job"]["system"]["cannot"]), ([], {}))

    def test_frameworks_that_reduce_gradients_once_have_no_second_stage(self):
        for framework in ("MegaScale", "HAI-LLM"):
            run = self.run_of(row(framework=framework, year=2024, parallel__zero_stage=2))
            self.assertEqual(run["job"]["parallelism"]["sharding"], "zero1")
            self.assertIn("parallelism.sharding", run["assumed"])

    def test_torchtitan_s_traced_graphs_are_not_compiled(self):
        def kernels(text, **more):
            return self.run_of(row(framework="torchtitan", year=2026, compile=text, job__compile=True, **more))
        graph = kernels("aot_fx_trace graph, cudagraph off")["job"]["kernels"]
        self.assertFalse(graph["compile"])
        self.assertNotIn("cuda_graph", graph)
        self.assertEqual(kernels("graph + cudagraph")["job"]["kernels"]["cuda_graph"], True)
        self.assertFalse(kernels("compiler_toolkit")["job"]["kernels"]["compile"])
        self.assertFalse(kernels("eager FSDP2 (loss compiled)")["job"]["kernels"]["compile"])
        self.assertTrue(kernels(True)["job"]["kernels"]["compile"])
        self.assertEqual(kernels("graph_trainer", notes="plain CrossEntropyLoss")["job"]["kernels"]["loss"], "eager")
        unsaid = self.run_of(row(framework="torchtitan", year=2024, job__compile=None))
        self.assertNotIn("compile", unsaid["job"]["kernels"])
        self.assertIn("kernels.compile", unsaid["assumed"])
        experts = {"layers": 2, "hidden": 512, "heads": 4, "arch": "moe", "moe": {"experts": 8, "topk": 2, "moe_ffn": 256}}
        moved = kernels("graph", notes="ChunkedCE + MinimalAsyncEP", model=experts, parallel={"dp": 16, "ep": 4})
        self.assertEqual(moved["job"]["moe"]["dispatcher"], "hybridep")
        self.assertIn("MinimalAsyncEP", moved["assumed"]["moe.dispatcher"])

    def test_the_memory_that_torch_s_log_shows_tells_a_gb200_from_a_b200(self):
        def device(gpu):
            return self.run_of(row(gpu=gpu, job__device="b200-sxm", num_gpus=4, parallel={"dp": 4}))["job"]["cluster"]["device"]
        self.assertEqual(device("B200-184GiB class (percentages)"), "gb200")
        self.assertEqual(device("B200-178GiB"), "b200-sxm")

    def test_an_unknown_framework_is_told_once(self):
        status, runs, errors = convert(row(framework="Nobody's", year=2024), row(framework="Nobody's", year=2024))
        self.assertEqual(status, 0)
        self.assertEqual([run["job"]["system"]["use"] for run in runs], ["megatron-lm-2023"] * 2)
        self.assertEqual(runs[0]["assumed"], {"system": "'Nobody's' behaves as Megatron-LM"})
        self.assertEqual(errors, ["1: dense: note: framework 'Nobody's' behaves as Megatron-LM", "2 rows: 2 runs, 0 skipped"])

    def test_devices(self):
        def cluster(device, **changes):
            return self.run_of(row(job__device=device, inter_node=None, **changes))["job"]["cluster"]
        self.assertEqual(cluster("NVIDIA H100 80GB HBM3")["device"], "h100-sxm")
        self.assertEqual(cluster("mi300x")["use"], "azure-nd-mi300x-v5")
        for name, device, machine in (("H100", "h100", "hgx-h100"), ("H20", "h20", "hgx-h100"), ("H200_SXM", "h200-sxm", "hgx-h200"),
                                      ("L40S", "l40s", "l40s-server"), ("MI355X", "mi355x", "amd-mi355x")):
            self.assertEqual((cluster(name)["device"], cluster(name)["use"]), (device, machine))
        _, runs, errors = convert(row(job__device="MI250X", gpus_per_node=4))
        self.assertEqual((runs[0]["job"]["cluster"]["device"], runs[0]["job"]["cluster"]["use"]), ("mi250x", "dgx-a100"))
        self.assertEqual(errors[0], "1: dense: note: no machine of mi250x is known: its nodes are taken to be like a DGX A100's")
        half = cluster("MI250X")  # a node of four cards shows eight devices
        self.assertEqual((half["device"], half["use"], half["gpus_per_node"]), ("mi250x-gcd", "frontier", 8))
        self.assertEqual((cluster("NVIDIA A10G")["device"], cluster("NVIDIA A10G")["use"]), ("a10g", "aws-g5"))
        self.assertNotIn("fabric", cluster("gb200", num_gpus=128, gpus_per_node=None))
        self.assertEqual(self.skip_of(row(job__device="a-new-one")), "no device: a-new-one is not in configs/devices")
        self.assertEqual(self.skip_of(row(job__device=None, gpu=None)), "no device: neither job.device nor gpu")

    def test_a_row_without_job_states_all_in_its_other_fields(self):
        words = row(without(DENSE, "job"), gpu="NVIDIA A100-SXM4-80GB", precision="FP16", recompute="full", attention="FlashAttention-2",
                    optimizer="AdamW", year=2024, parallel__schedule="1F1B")
        for changed in (words, row(words, job=None), row(words, job={"device": None, "precision": None})):
            job = self.run_of(changed)["job"]
            self.assertEqual((job["cluster"]["device"], job["workload"]["precision"], job["memory"], job["kernels"], job["parallelism"]["schedule"]),
                             ("a100-sxm-80", "fp16", {"optimizer": "adamw", "recompute": "full"}, {"attention": "flash2"}, "1f1b"))
        # The structured value stands where there is one; words that are not understood whole say nothing.
        job = self.run_of(row(precision="fp8 in parts", recompute="as long as it fits", job__precision="bf16"))["job"]
        self.assertEqual((job["workload"]["precision"], job["memory"]["recompute"]), ("bf16", "full"))
        self.assertEqual(self.skip_of(row(job__device=None, gpu="Gaudi 2")), "no device: Gaudi 2 is not in configs/devices")

    def test_words_of_publications(self):
        bare = row(without(DENSE, "job"), gpu="A100", year=2024)

        def job(**more):
            return self.run_of(row(bare, **more))["job"]
        for words, want in (("selective activation recomputation", "selective"), ("full activation checkpointing", "full"), ("none (fits)", "none"),
                            ("activation checkpointing (full)", "full"), ("every other layer", {"every": 2}), ("no activation checkpointing", "none"),
                            ("per-layer (every layer)", "full"), ("attention only", "selective"), ("as needed", None)):
            self.assertEqual(job(recompute=words).get("memory", {}).get("recompute"), want, words)
        for words, want in (("BF16 mixed precision", "bf16"), ("16-mixed", "fp16"), ("fp8 E4M3 per-tensor", "fp8"), ("FP8 (DelayedScaling)", "fp8"),
                            ("fp16 AMP O2", "fp16"), ("FP8 blockwise", "fp8_block"), ("bfloat16 compute, fp32 master", "bf16")):
            self.assertEqual(job(precision=words)["workload"]["precision"], want, words)
        for words, want in (("FlashAttention v2.3", "flash2"), ("flash-attn 2.5.6", "flash2"), ("unfused (scale-mask-softmax)", "unfused"), ("FA3", "flash2"), ("naive", "unfused"), ("torch math", "unfused"), ("SDPA", "flash2"),
                            ("cuDNN fused", "cudnn"), ("FlexAttention", "flash2"), ("block-sparse", None)):
            self.assertEqual(job(attention=words).get("kernels", {}).get("attention"), want, words)
        for words, want in (("torch.compile", True), ("no", False), ("now and then", None)):
            self.assertEqual(job(compile=words).get("kernels", {}).get("compile"), want, words)
        for words, want in (("no overlap", False), ("DP overlap", True), ("gradient all-reduce overlapped with backward", True),
                            ("overlap_grad_reduce=True", True), ("no DP overlap stated", None)):
            self.assertEqual(job(overlap=words)["parallelism"].get("overlap", {}).get("grad_reduce"), want, words)
        run = self.run_of(row(bare, parallel__schedule="hanayo"))
        self.assertEqual(run["assumed"]["parallelism.schedule"], "the framework's schedule, for 'hanayo'")
        _, _, errors = convert(row(bare, recompute="as needed", overlap={"weights": True}))
        self.assertIn("1: dense: note: recompute 'as needed' is not understood", errors)
        self.assertIn("1: dense: note: 'overlap.weights' is not read", errors)
        self.assertEqual(self.skip_of(row(parallel__zero_stage=4)), "malformed: parallel.zero_stage: '4' is not what is expected: 0 to 3")

    def test_a_memory_in_a_device_s_name_is_its_memory(self):
        for name, device in (("V100-PCIE-16GB", {"use": "v100-pcie-32", "memory": "16 GB"}), ("v100-pcie-16", {"use": "v100-pcie-32", "memory": "16 GB"}),
                             ("RTX 4090 48GB", {"use": "rtx4090", "memory": "48 GB"}), ("H100 80GB", "h100-sxm"), ("A100-40GB-SXM", "a100-sxm-40"),
                             ("TPU v5e-256", "tpu-v5e"), ("H100", "h100"), ("NVIDIA GH200 480GB", "gh200"), ("RTX 3090", "rtx3090")):
            with self.subTest(name):
                self.assertEqual(self.run_of(row(job__device=name))["job"]["cluster"]["device"], device)

    def test_what_links_the_gpus_of_a_node(self):
        machine = lambda **more: self.run_of(row(**more))["job"]["cluster"]["use"]
        self.assertEqual(machine(job__device="a100-pcie-40"), "pcie-server")
        self.assertEqual(machine(intra_node="PCIe Gen4 only"), "pcie-server")
        self.assertEqual(machine(intra_node="NVLink 3, PCIe to the host"), "dgx-a100")
        self.assertEqual(machine(job__device="l40s", intra_node="PCIe 4.0"), "l40s-server")
        self.assertEqual(machine(job__device="v100-sxm2-32", gpus_per_node=16), "dgx-2")
        self.assertEqual(machine(job__device="a100-sxm-40", inter_node="4x100 Gbps EFA (AWS p4d)"), "aws-p4d")
        self.assertEqual(machine(job__device="a100-sxm-80", inter_node="4x100 Gbps EFA (AWS p4d)"), "dgx-a100")

    def test_offloaded_states(self):
        def offload(stated, **more):
            return self.run_of(row(framework="DeepSpeed", parallel={"dp": 16, "zero_stage": 3}, offload=stated, **more))["job"]["memory"].get("offload")
        self.assertEqual(offload("optimizer to CPU"), {"optimizer": "cpu"})
        self.assertEqual(offload("optimizer states to NVMe, parameters to CPU"), {"optimizer": "nvme", "parameters": "cpu"})
        self.assertEqual(offload("optimizer states and gradients to host memory"), {"optimizer": "cpu", "gradients": "cpu"})
        self.assertEqual(offload({"optimizer": "cpu", "params": "nvme", "activations": None}), {"optimizer": "cpu", "parameters": "nvme"})
        self.assertEqual(offload("ZeRO-Infinity"), {"optimizer": "nvme", "parameters": "nvme"})
        self.assertEqual(offload("CPU offload of optimizer states"), {"optimizer": "cpu"})
        self.assertEqual(offload("CPU offload"), {"optimizer": "cpu", "parameters": "cpu", "gradients": "cpu", "prefetch": 0})
        self.assertIsNone(offload("none"))
        self.assertIsNone(offload(None))
        run = self.run_of(row(framework="DeepSpeed", parallel={"dp": 16}, offload="optimizer to CPU", job__device="l40s"))
        self.assertEqual(run["job"]["cluster"]["node"]["host_memory"], "1152 GiB")
        self.assertIn("cluster.node.host_memory", run["assumed"])
        _, _, errors = convert(row(offload="published as GB"))
        self.assertEqual(errors[0], "1: dense: note: offload 'published as GB' is not read")

    def test_zero_plus_plus_and_ulysses_in_words(self):
        def parallelism(**more):
            return self.run_of(row(framework="DeepSpeed", parallel={"dp": 4, "cp": 4, "zero_stage": 3}, **more))["job"]["parallelism"]
        self.assertEqual(parallelism(overlap="qwZ + hpZ")["zeropp"], {"weights": "int8", "partition": 8})
        self.assertEqual(parallelism(overlap="ZeRO++")["zeropp"], {"weights": "int8", "partition": 8, "gradients": "int4"})
        self.assertNotIn("zeropp", parallelism())
        self.assertEqual(parallelism(attention="flash2, Ulysses (all-to-all)")["context"]["kind"], "a2a")
        self.assertEqual(parallelism(attention="ring flash attention")["context"]["kind"], "p2p")

    def test_groups_of_shards(self):
        of = lambda **more: self.run_of(row(framework="PyTorch FSDP2", parallel={"dp": 16, "zero_stage": 3, **more}))["job"]["parallelism"]
        self.assertEqual(of(hsdp_shard=8)["shard_size"], 8)
        self.assertNotIn("shard_size", of(hsdp_shard=16))

    def test_experts_in_some_layers(self):
        def model(frequency):
            return self.run_of(row(model__moe={"experts": 8, "topk": 2, "layer_freq": frequency}, parallel__ep=2))["job"]["model"]
        self.assertEqual(model(2)["mlps"], "ed")
        self.assertEqual(model("every other layer")["mlps"], "ed")
        self.assertNotIn("mlps", model(1))
        self.assertNotIn("mlps", model("([1]*24)"))
        self.assertNotIn("mlps", model("([0]*3+[1]*21)"))

    def test_families_by_their_names(self):
        def model(arch, gated=None):
            return self.run_of(row(model__arch=arch, model__gated_mlp=gated))["job"]["model"]
        for arch, gated, norm in (("qwen2", None, "rms"), ("OPT", None, "layer"), ("gpt-neox", None, "layer"), (None, True, "rms"), (None, False, "layer")):
            self.assertEqual(model(arch, gated)["norm"], norm)
        self.assertEqual(self.skip_of(row(model__arch="vit")), "architecture: vit")
        self.assertEqual(self.skip_of(row(model__arch=None)), "architecture: not stated")

    def test_a_schedule_without_pairs_hides_no_messages_of_experts(self):
        def overlap(schedule):
            return self.run_of(row(framework="HAI-LLM", job__schedule=schedule, parallel__ep=2, model__arch="moe",
                                   model__moe={"experts": 8, "topk": 2, "moe_ffn": 1024}))["job"]["parallelism"].get("overlap")
        self.assertEqual(overlap("zb_h1"), {"expert": False})
        self.assertIsNone(overlap("dualpipe"))

    def test_fields_that_nothing_reads_are_told(self):
        _, _, errors = convert(row(weather="fine", model__colour="red", parallel__spread=3, job__mood="good", model__moe=None, nothing=None))
        self.assertEqual([line.split("note: ")[1] for line in errors[:-1]], [
            "'weather' is not read", "'model.colour' is not read", "'parallel.spread' is not read", "'job.mood' is not read"])

    def test_an_open_precision_is_one_that_the_device_has(self):
        precision = lambda device: self.run_of(row(job__device=device, job__precision=None))["job"]["workload"]["precision"]
        self.assertEqual((precision("v100-sxm2-32"), precision("V100-PCIE-16GB"), precision("v100"), precision("a100-sxm-80"), precision("h100")),
                         ("fp16", "fp16", "fp16", "bf16", "bf16"))

    def test_1f1b_of_several_chunks_a_stage_is_interleaved(self):
        run = self.run_of(row(parallel__vpp=3))
        self.assertEqual(run["job"]["parallelism"]["schedule"], "interleaved_1f1b")
        self.assertIn("parallelism.schedule", run["assumed"])

    def test_times_in_milliseconds(self):
        self.assertEqual(self.run_of(row(metric="iteration_ms", value=4500, other_metrics={}))["measured"], {"step_time": 4.5})

    # What users and tables write of a node of eight GPUs: adapters, Gb/s of one; None: as many as the reference node has.
    NETWORKS = (
        ("8x200Gb/s HDR InfiniBand HCAs per node", 8, 200), ("8x400G RoCE", 8, 400), ("8 x HDR", 8, 200), ("400Gb/s InfiniBand NDR x8", 8, 400),
        ("8 NICs of 200 Gb/s", 8, 200), ("2 x 25GbE", 2, 25), ("InfiniBand 8x50 GB/s", 8, 400), ("4 x 100 Gb RoCE per node", 4, 100),
        ("Omni-Path (4 OPA links per node, 100 Gb/s each), dedicated subnet", 4, 100), ("32 x 100 Gb/s EFA", 32, 100),
        ("2x HDR200 (400 Gb/s total)", 2, 200), ("Slingshot 11 (4x200 Gb/s)", 4, 200),
        # A rate of each GPU, and a total of the node as one card per GPU.
        ("400 Gb/s RDMA per GPU", 8, 400), ("50 GB/s per GPU", 8, 400), ("800 Gb/s per node", 8, 100), ("1600 Gbps node-node RoCE", 8, 200),
        ("EFA 3200 Gbps", 8, 400), ("EFAv3 3.2 Tb/s", 8, 400), ("1.6 Tbps IB", 8, 200), ("2.5 Gb/s per node", 8, 0.3125),
        # What the cards of a list are for.
        ("Management: 2x100Gb/s Ethernet NIC, Compute: 8x Quantum-2 400Gb/s InfiniBand", 8, 400),
        ("Compute: 8x Quantum-2 400Gb/s InfiniBand, Management: 2x100Gb/s Ethernet NIC", 8, 400),
        ("8x ConnectX-7 IB NDR 400Gb/s + 200Gb/s Ethernet NIC", 8, 400),
        # One adapter, and nobody says how many there are.
        ("HDR200 InfiniBand", None, 200), ("100 Gb/s HDR100", None, 100), ("NDR400", None, 400), ("HDR InfiniBand", None, 200),
        ("EDR", None, 100), ("Slingshot-11", None, 200), ("Slingshot-10", None, 100), ("Spectrum-X 400", None, 400), ("25 Gbps", None, 25),
        ("IPoIB 100 Gb/s", None, 100),
        # A figure before a card is its number, unless it is a rate; numbers in words, of two parts, of several GPUs.
        ("single 100 GbE NIC per node", 1, 100), ("2 100 GbE NICs", 2, 100), ("8*200G RoCE", 8, 200), ("4 NICs, 200 Gb/s each", 4, 200),
        ("four 200 Gb/s HDR HCAs per node", 4, 200), ("dual 25GbE", 2, 25), ("Slingshot-11, 4x200Gb/s per node", 4, 200),
        ("one 200Gb/s HCA per 2 GPUs", 4, 200), ("8 ConnectX-7 (400 Gb/s)", 8, 400), ("NDR400 x8", 8, 400),
        ("NVSwitch 900 GB/s intra, 8x400Gb/s inter", 8, 400),
    )

    def test_slow_ethernet_without_a_number_of_adapters_is_one(self):
        texts = ("Ethernet 100Gbit/s", "10G Ethernet", "100 GbE", "10 Gigabit Ethernet")
        runs, errors = self.runs_on(texts)
        self.assertEqual(errors, [])
        for text, run in zip(texts, runs):
            with self.subTest(text):
                self.assertEqual(run["job"]["cluster"]["node"]["nics"], 1)
                self.assertIn("one adapter a node", run["assumed"]["cluster.node.nic"])

    def runs_on(self, texts):
        """Runs of rows with these networks, and the lines of standard error but the counts."""
        status, runs, errors = convert(*(row(inter_node=text) for text in texts))
        self.assertEqual((status, len(runs)), (0, len(texts)), errors)
        return runs, errors[:-1]

    def test_networks_as_users_write_them(self):
        runs, errors = self.runs_on([text for text, _, _ in self.NETWORKS])
        self.assertEqual(errors, [])
        for (text, cards, rate), run in zip(self.NETWORKS, runs):
            with self.subTest(text):
                nics = {} if cards is None else {"nics": cards}
                self.assertEqual(run["job"]["cluster"]["node"], {**nics, "nic": f"{rate:g} Gb/s"})
                open_ = {"cluster.node.nic": "as many adapters as the reference node has"} if cards is None else {}
                self.assertEqual(run.get("assumed", {}), open_)

    def test_lanes_and_adapters_are_written_alike(self):
        run = self.run_of(row(inter_node="4x HDR"))
        self.assertEqual(run["job"]["cluster"]["node"], {"nics": 4, "nic": "200 Gb/s"})
        self.assertEqual(run["assumed"], {"cluster.node.nic": "'4x HDR' as four adapters, not as four lanes of one"})

    def test_of_two_networks_in_a_list_the_first_is_taken(self):
        self.assertEqual(self.run_of(row(inter_node="8x HDR InfiniBand, 2x400 Gb/s NDR"))["job"]["cluster"]["node"],
                         {"nics": 8, "nic": "200 Gb/s"})

    def test_networks_without_figures_are_the_reference_node_s(self):
        texts = ("TCP over Ethernet", "GPUDirect-TCPX", "Ethernet, Infiniband", "RoCE RDMA", "Ethernet(RoCEv2)", "InfiniBand",
                 "InfiniBand; Data bandwidth for GPU-PCIe: 504 GB/s; PCIe-NIC: 500 GB/s", "Management: 1x Ethernet 10GB/Sec",
                 "2 x MT2894 Family [ConnectX-6 Lx], 2 x MT2910 Family [ConnectX-7]", "DCN between slices")
        runs, errors = self.runs_on(texts)
        self.assertEqual(errors, [])
        for text, run in zip(texts, runs):
            with self.subTest(text):
                self.assertNotIn("node", run["job"]["cluster"])
                self.assertEqual(run["assumed"], {"cluster.node.nic": "the reference node's network"})

    def test_networks_that_contradict_themselves_are_told_and_not_read(self):
        faults = (
            ("100GbE InfiniBand", "'InfiniBand' and '100GbE' (Ethernet) contradict each other"),
            ("8x100GbE InfiniBand per node", "'InfiniBand' and '100GbE' (Ethernet) contradict each other"),
            ("100 Gb/s total, 100GbE InfiniBand", "'InfiniBand' and '100GbE' (Ethernet) contradict each other"),
            ("8x HDR RoCE", "'RoCE' and 'HDR' (InfiniBand) contradict each other"),
            ("Slingshot-11 InfiniBand", "'InfiniBand' and 'Slingshot-11' (Slingshot) contradict each other"),
            ("8x HDR 400 Gb/s", "'HDR' is 200 or 100 Gb/s and '400 Gb/s' is not"),
            ("400 GB/s per GPU", "'400 GB/s' of one adapter is 3200 Gb/s and none has more than 800"),
        )
        runs, errors = self.runs_on([text for text, _ in faults])
        self.assertEqual(errors, [f"{line}: dense: note: network '{text}' is taken as the reference node's: {why}"
                                  for line, (text, why) in enumerate(faults, 1)])
        for (text, _), run in zip(faults, runs):
            with self.subTest(text):
                self.assertNotIn("node", run["job"]["cluster"])
                self.assertEqual(run["assumed"], {"cluster.node.nic": "the reference node's network"})

    # ---- rows as other tables spell them
    def same_job(self, changed, base=None):
        """The job of a variant is that of the row; what is said of it beside its names may differ."""
        self.assertEqual(self.run_of(changed)["job"], self.run_of(base or DENSE)["job"])

    EXPERTS = row(framework="Megatron-Core", year=2024, model__arch="moe", model__layers=6, parallel={"tp": 1, "pp": 1, "ep": 4, "zero_stage": 1},
                  model__moe={"experts": 8, "topk": 2, "moe_ffn": 1024, "shared_experts": 1, "dense_layers": 2},
                  model__mla={"q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})

    def test_fields_by_other_names(self):
        named = row(model={"name": "a name", "model_type": "gpt", "num_hidden_layers": 24, "d_model": 2048, "num_attention_heads": 16, "vocab_size": 51200},
                    parallel={"TP": 2, "pipeline_model_parallel_size": 2, "data_parallel": 4, "vp": 1, "sp": False})
        named["sequence_length"], named["gbs"], named["micro_batch_size"] = (named.pop(key) for key in ("seq_len", "global_batch", "micro_batch"))
        self.same_job(named)
        # The format's own name counts, whichever comes first; what says nothing is no statement.
        self.same_job(row(seq_length=4096))
        self.same_job(row(without(DENSE, "seq_len"), seq_len=None, seq_length=2048))
        beside = {**without(DENSE, "parallel"), "tp": 2, "pp": 2, "dp": 4, "sequence_parallel": False}
        self.same_job(beside)
        self.assertEqual(self.run_of(row(parallel="TP2 PP=2, dp 4"))["job"]["parallelism"]["tensor"], 2)
        self.assertEqual(self.run_of(row(model="Meta-Llama-3.1-8B"))["job"]["model"], {"use": "llama-3.1-8b"})

    def test_experts_and_latent_attention_as_huggingface_has_them(self):
        mla = {"q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
        flat = {key: value for key, value in self.EXPERTS["model"].items() if key not in ("moe", "mla")}
        for experts in ({"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024, "n_shared_experts": 1, "first_k_dense_replace": 2},
                        {"num_local_experts": 8, "top_k": 2, "moe_ffn_hidden_size": 1024, "num_shared_experts": 1, "moe_layer_freq": "([0]*2+[1]*4)"}):
            self.same_job({**self.EXPERTS, "model": {**flat, **experts, **mla}}, self.EXPERTS)
            self.same_job(row(self.EXPERTS, model__moe=experts), self.EXPERTS)

    def test_numbers_and_flags_as_text(self):
        self.same_job(row(num_gpus="16", seq_len="2,048", global_batch="GBS 512", micro_batch="4 (per GPU)", parallel__tp="2", model__layers="24 layers"))
        self.same_job(row(seq_len="2k", global_batch="1M tokens", year="2021-04"))
        self.same_job(row(parallel__sequence_parallel="no", parallel__cp=0, parallel__vpp="1"))
        self.same_job(row(num_gpus=None, nodes=2))
        self.same_job(row(num_gpus=None, gpu="16x A100", job__device=None), row(gpu="A100", job__device=None))
        self.same_job(row(gpu="H100 x 16", job__device=None), row(gpu="H100", job__device=None))

    def test_what_says_nothing_is_left_open(self):
        for nothing in ("", "n/a", "not stated", "-", "unknown"):
            self.same_job(row(grad_accum=nothing, parallel__vpp=nothing, model__kv_heads=nothing, job__compile=nothing, job__vocab=nothing, recompute=nothing))
        prose = {"as_stated": "as much as fits"}
        self.same_job(row(job__loss=prose, job__compile=prose, job__moe_capacity=prose, job__dispatcher=prose))
        self.assertIn("memory.recompute", self.run_of(row(job__recompute=prose))["assumed"])

    def test_stages_of_zero_in_words(self):
        def sharding(**parallel):
            return self.run_of(row(framework="DeepSpeed", parallel={"dp": 16, **parallel}))["job"]["parallelism"].get("sharding")
        for words, want in (("zero-1", "zero1"), ("ZeRO stage 2", "zero2"), ("ZeRO-3", "zero3"), ("distributed optimizer", "zero1"), ("ZeRO-Infinity", "zero3"),
                            ("FSDP", "zero3"), ("none", "none"), ("3 (offload)", "zero3")):
            self.assertEqual(sharding(zero_stage=words), want, words)
        for words, want in (("FULL_SHARD", "zero3"), ("FSDP full shard", "zero3"), ("HSDP", "zero3"), ("SHARD_GRAD_OP", "zero2"), ("NO_SHARD", "none")):
            self.assertEqual(sharding(fsdp=words), want, words)
        self.assertTrue(self.skip_of(row(parallel__zero_stage="a bit")).startswith("malformed: parallel.zero_stage"))

    def test_recomputation_of_parts_in_words(self):
        for words, want in (("uniform 1", {"uniform": 1}), ("full (block, 4 layers)", {"block": 4}), ("full block with 0 layers", "none"),
                            ("selective modules=[moe_act mlp]", {"modules": ["moe_act", "mlp"]}), ("selective:layernorm+moe_act", {"modules": ["layernorm", "moe_act"]}),
                            ("selective (norm, act)", {"modules": ["layernorm", "act"]}), ("selective modules=[]", "none"), ("selective core_attn", "selective"),
                            ("selective (per-op, every other matmul)", {"per_op": "sac"}), ("selective layer (every 2nd layer)", {"every": 2}),
                            ("Applied full activation checkpointing to the model", "full"), ("selective (default)", "selective")):
            for changed in (row(job__recompute=words), row(job__recompute=None, recompute=words)):
                self.assertEqual(self.run_of(changed)["job"]["memory"]["recompute"], want, words)
        self.assertEqual(self.run_of(row(job__recompute={"uniform": 2}))["job"]["memory"]["recompute"], {"uniform": 2})
        run = self.run_of(row(job__recompute={"modules": ["ln", "flux_capacitor"]}))  # the product has no such module
        self.assertEqual(run["job"]["memory"]["recompute"], {"modules": ["layernorm"]})
        self.assertIn("memory.recompute", run["assumed"])

    def test_formats_in_clauses(self):
        for words, want in (("bf16, gradients accumulated in fp32", "bf16"), ("amp_bf16 / FSDP mixed_precision DEFAULT", "bf16"), ("fp8-CS", "fp8"),
                            ("float8 tensorwise dynamic linears + bf16", "fp8"), ("fp8-tensorwise + fp8 FSDP all-gather, recompute fp8 weight in bwd", "fp8"),
                            ("nvfp4 layers 0-29, bf16 tail", "nvfp4"), ("fp8(hybrid,blockwise)", "fp8_block"), ("int4 GPTQ base, fp16 compute", "fp16"),
                            ("params float32, compute bf16", "bf16"), ("mxfp8 E4M3", "mxfp8")):
            self.assertEqual(self.run_of(row(job__precision=None, precision=words))["job"]["workload"]["precision"], want, words)
        _, _, errors = convert(row(job__precision=None, precision="bf16 with float7 attention"))
        self.assertIn("note: precision 'bf16 with float7 attention' is not understood", errors[0])

    def test_schedules_of_zero_bubble_s_paper(self):
        schedule = lambda words: self.run_of(row(framework="sail-sg/zero-bubble", year=2024, job__schedule=None, parallel__schedule=words))["job"]["parallelism"]["schedule"]
        self.assertEqual(schedule("ZB-H1"), "zb_h1")
        self.assertEqual(schedule("zero-bubble-1p"), {"name": "zb_auto", "memory_limit": 1})
        self.assertEqual(schedule("zero-bubble-2p, all-reduce optimizer synchronisation"), {"name": "zb_auto", "memory_limit": 2})
        self.assertEqual(schedule("zero bubble"), "zb_h1")
        self.assertEqual(schedule("ScheduleZBVZeroBubble"), "zb_v")  # torch's class
        self.assertEqual(schedule("1f1b vocab-2"), "1f1b+vocab_2")

    def test_lines_of_a_log_say_what_is_compiled(self):
        kernels = self.run_of(row(framework="torchtitan", year=2024, job__compile=None, compile=["Compiling each TransformerBlock with torch.compile"]))["job"]["kernels"]
        self.assertTrue(kernels["compile"])

    def test_figures_of_a_device_in_its_name(self):
        device = lambda name: self.run_of(row(job__device=None, gpu=name))["job"]["cluster"]["device"]
        self.assertEqual(device("H100-96GB-SXM HBM2e 2.4TB/s, 500W"), {"use": "h100-sxm", "memory": "96 GB", "memory_bandwidth": "2400 GB/s", "power": "500 W"})
        self.assertEqual(device("H100-95GiB-SXM"), {"use": "h100-sxm", "memory": "95 GiB"})
        self.assertEqual(device("H100 SXM5 80GB"), "h100-sxm")
        self.assertEqual(device("NVIDIA L4"), "l4")
        self.assertEqual(self.skip_of(row(job__device=None, gpu="A100 / H800")), "no device: A100 / H800 names several")

    def test_a_rate_beyond_a_gpu_s_link_is_a_node_s(self):
        node = lambda text, **more: self.run_of(row(inter_node=text, **more))["job"]["cluster"]["node"]
        self.assertEqual(node("400 Gbps RoCE"), {"nics": 8, "nic": "50 Gb/s"})  # PCIe 4 carries 252
        self.assertEqual(node("400 Gbps RoCE", job__device="h100-sxm"), {"nic": "400 Gb/s"})
        self.assertEqual(node("1 NIC per GPU, 400 Gb/s"), {"nics": 8, "nic": "400 Gb/s"})
        self.assertEqual(node("8-rail 400G"), {"nics": 8, "nic": "400 Gb/s"})
        self.assertEqual(node("GPUDirect-TCPX 3.2 Tbps per node", job__device="h100-sxm"), {"nics": 8, "nic": "400 Gb/s"})
        machine = lambda device: self.run_of(row(job__device=device, inter_node="3.2 Tbps EFA (AWS p5)"))["job"]["cluster"]["use"]
        self.assertEqual((machine("h100-sxm"), machine("h100")), ("aws-p5", "aws-p5"))

    def test_a_rounded_batch_is_the_nearest_that_divides(self):
        run = self.run_of(row(global_batch=519))
        self.assertEqual(run["job"]["workload"]["global_batch"], 512)
        self.assertIn("workload.global_batch", run["assumed"])
        self.assertEqual(self.skip_of(row(global_batch=24)), "not possible: a batch of 24 over 4 data ranks and micro-batches of 4")

    def test_layouts_that_contradict_themselves(self):
        for changed, why in ((row(num_gpus=20, parallel__tp=8), "not possible: 20 GPUs in groups of tensor 8 x pipeline 2 x context 1"),
                             (row(model__heads=15), "not possible: 15 heads over 2 tensor ranks"),
                             (row(self.EXPERTS, parallel__ep=16), "not possible: 8 experts over 16 ranks"),
                             (row(parallel__vpp=2, parallel__pp=None), "incomplete: the number of stages"),
                             (row(parallel__pp=8, parallel__dp=1, parallel__vpp=4), "framework: stages without a layer: 24 layers on 8 stages of 4 chunks"),
                             (row(model__kv_heads=3, model__heads=12, parallel__tp=4, parallel__dp=2), "framework: 4 tensor ranks share 3 key-value heads")):
            self.assertEqual(self.skip_of(changed), why)
        _, runs, errors = convert(row(parallel__dp=8))
        self.assertEqual(runs[0]["job"]["parallelism"]["data"], 4)
        self.assertEqual(errors[0], "1: dense: note: parallel.dp 8 is taken as 4: 16 GPUs / tensor / pipeline / context")

    def test_the_number_of_gpus_that_other_fields_say(self):
        bare = row(num_gpus=None, parallel__dp=None, global_batch=512, micro_batch=4, grad_accum=32)
        self.same_job(bare)  # 4 data ranks
        self.assertEqual(self.skip_of(row(bare, grad_accum=None)), "incomplete: the number of GPUs")

    def test_a_row_without_any_degree(self):
        run = self.run_of(row(parallel={}))
        self.assertEqual(run["assumed"]["parallelism.data"], "data parallelism alone")
        self.assertEqual(self.skip_of(row(parallel={}, model__hidden=12288, model__heads=96)), "incomplete: how 16 GPUs share the work")
        self.assertNotIn("parallelism.data", self.run_of(row(parallel={}, framework="DeepSpeed (HF)")).get("assumed", {}))  # which shards states
        self.assertEqual(self.skip_of(row(parallel={}, framework="DeepSpeed (HF)", model__hidden=16384, model__heads=96)), "incomplete: how 16 GPUs share the work")

    def test_tensor_ranks_share_the_heads_of_a_model_by_name(self):
        run = self.run_of(row(model={"name": "qwen3-235b-a22b"}, num_gpus=64, parallel={"tp": 8, "pp": 2, "zero_stage": 1}))
        self.assertTrue(run["job"]["system"]["gathers_qkv"])  # it has four
        self.assertIn("system.gathers_qkv", run["assumed"])

    def test_dispatchers_in_words(self):
        dispatcher = lambda **more: self.run_of(row(self.EXPERTS, **more))["job"]["moe"]["dispatcher"]
        self.assertEqual(dispatcher(overlap="HybridEP; 1F1B overlap"), "hybridep")
        self.assertEqual(dispatcher(attention="TE + DeepEP"), "deepep")
        self.assertEqual(dispatcher(overlap="moe_dispatcher=hybridep"), "hybridep")
        self.assertEqual(dispatcher(), "alltoall")

    def test_positions_in_words(self):
        positions = lambda words: self.run_of(row(model__position=words))["job"]["model"]["positions"]
        for words, want in (("RoPE", "rotary"), ("rotary_pos_emb", "rotary"), ("learned_absolute", "learned"), ("ALiBi", "none"), ("NoPE", "none"), ("T5 relative", "relative"),
                            ("a spiral", "learned")):
            self.assertEqual(positions(words), want, words)

    def test_experts_need_their_number(self):
        self.assertEqual(self.skip_of(row(model__moe={"topk": 2})), "incomplete: the number of experts")
        self.assertNotIn("moe", self.run_of(row(model__moe={}))["job"]["model"])

    def test_kernels_of_amd(self):
        self.assertEqual(self.run_of(row(job__device="mi355x", job__attention="CK flash v3"))["job"]["kernels"]["attention"], "flash2")

    def test_a_family_by_the_name_of_the_model(self):
        norm = lambda name: self.run_of(row(model__name=name, model__arch=None))["job"]["model"]["norm"]
        self.assertEqual((norm("llama2-7b"), norm("GPT-22B"), norm("qwen2.5-32b-instruct")), ("rms", "layer", "rms"))

    def test_recomputation_as_a_flag_beside_job(self):
        self.assertEqual(self.run_of(row(job__recompute=None, recompute=True))["job"]["memory"]["recompute"], "full")

    def test_states_that_no_gpu_holds_are_sharded(self):
        big = row(framework="Megatron-DeepSpeed", year=2022, model__hidden=8192, model__heads=64, model__layers=48, parallel__zero_stage=None)
        run = self.run_of(big)
        self.assertEqual(run["job"]["parallelism"]["sharding"], "zero1")
        self.assertIn("parallelism.sharding", run["assumed"])
        self.assertEqual(self.run_of(row(big, parallel__zero_stage=0))["job"]["parallelism"]["sharding"], "none")

    def test_a_configuration_file_that_prose_names_says_how_it_fine_tunes(self):
        def tuned(file, stated="qlora"):
            notes = f"config llama-2-7b/{file}; runtime 32.8 min; full = full finetune, lora/qlora per config file"
            return list(self.run_of(row(framework="litgpt", notes=notes, job__finetune=stated))["job"]["workload"].get("finetune", {}))

        self.assertEqual(tuned("lora.yaml"), ["lora"])
        self.assertEqual(tuned("qlora.yaml"), ["qlora"])
        self.assertEqual(tuned("full.yaml"), [])
        self.assertEqual(tuned("longer.yaml"), ["qlora"])

    def test_a_rank_of_lora_in_words(self):
        lora = lambda words: self.run_of(row(framework="axolotl", job__finetune=words))["job"]["workload"]["finetune"]
        self.assertEqual(lora("LoRA r=32"), {"lora": {"rank": 32, "targets": ["q", "v"]}})
        self.assertEqual(lora("QLoRA 4-bit"), {"qlora": {"rank": 8, "targets": ["q", "v"]}})

    def test_stages_of_a_model_that_its_name_stands_for(self):
        run = self.run_of(row(framework="HAI-LLM", model={"name": "DeepSeek-V3"}, num_gpus=128, parallel={"pp": 16, "ep": 8}, global_batch=512, micro_batch=1))
        self.assertEqual(sum(run["job"]["parallelism"]["layers_per_stage"]), 61)

    def test_chunks_of_an_interleaved_schedule_that_nobody_states(self):
        run = self.run_of(row(parallel__vpp=None, job__schedule="interleaved_1f1b"))
        self.assertEqual(run["job"]["parallelism"]["virtual_pipeline"], 6)  # of 12 layers
        self.assertIn("parallelism.virtual_pipeline", run["assumed"])

    def test_megatron_core_trains_tensors_with_sequence_parallelism(self):
        def parallelism(**more):
            return self.run_of(row(framework="Megatron-Core", year=2024, parallel__sequence_parallel=None, **more))["job"]["parallelism"]["sequence_parallel"]
        self.assertTrue(parallelism())
        self.assertFalse(parallelism(job__finetune="lora"))
        self.assertFalse(self.run_of(row(parallel__sequence_parallel=None))["job"]["parallelism"]["sequence_parallel"])

    def test_experts_are_whole_where_a_stage_has_too_few_ranks_to_cut_them(self):
        run = self.run_of(row(self.EXPERTS, parallel={"tp": 2, "pp": 2, "ep": 8}))
        self.assertEqual(run["job"]["parallelism"]["expert_tensor"], 1)
        self.assertIn("parallelism.expert_tensor", run["assumed"])

    def test_sequences_that_are_fewer_than_the_chips_are_divided(self):
        run = self.run_of(row(framework="MaxText", gpu="TPU v5p", job__device=None, num_gpus=64, global_batch=16, micro_batch=None, parallel={"dp": 64, "fsdp": True}))
        self.assertEqual(run["job"]["parallelism"]["context"], {"size": 4, "kind": "all_gather"})
        self.assertEqual(run["job"]["parallelism"]["data"], 16)

    def test_sharded_states_of_a_test_of_several_nodes_need_their_number(self):
        test = row(self.EXPERTS, framework="Megatron-LM", extra_args={"use-distributed-optimizer": True}, num_gpus=None, metric="peak_memory_gib", memory_kind="allocated",
                   parallel={"tp": 2, "pp": 4, "ep": 4, "zero_stage": 1, "dp": None})
        self.assertEqual(self.skip_of(test), "incomplete: the number of GPUs, over which states are sharded")
        self.assertEqual(self.run_of(row(test, parallel__zero_stage=0))["job"]["parallelism"]["data"], 4)  # 32 ranks: experts are cut as the rest

    def test_frameworks_by_other_spellings(self):
        def preset(framework, year=2024, **more):
            return self.run_of(row(framework=framework, year=year, **more))["job"]["system"]["use"]
        shards = {"parallel": {"dp": 16, "fsdp": True}}
        self.assertEqual(preset("MegatronLM"), "megatron-lm-2023")
        self.assertEqual(preset("MCore 0.9"), "megatron-lm-2024")
        self.assertEqual(preset("Megatron + DeepSpeed", 2021), "megatron-deepspeed-2021")
        self.assertEqual(preset("PyTorch FSDP", 2023, **shards), "pytorch-fsdp1")
        self.assertEqual(preset("PyTorch FSDP", 2024, **shards), "pytorch-fsdp2")
        self.assertEqual(preset("Hugging Face Trainer + FSDP", 2024, **shards), "transformers-4")
        self.assertEqual(preset("Hugging Face Trainer", 2025, parallel={"dp": 16}), "transformers-4")
        self.assertEqual(preset("Hugging Face Trainer", 2026, parallel={"dp": 16}), "transformers")
        self.assertEqual(preset("Hugging Face Trainer", 2026, framework_version="transformers 4.57.1", parallel={"dp": 16}), "transformers-4")
        self.assertEqual(preset("HuggingFace trainer, DeepSpeed", 2024, parallel={"dp": 16, "zero_stage": 3}), "transformers-deepspeed")
        self.assertEqual(preset("Lit-GPT", **shards), "litgpt-fsdp")
        self.assertEqual(preset("aleph alpha scaling"), "aleph-alpha-scaling")

    def test_what_a_framework_does_unless_it_is_told_otherwise(self):
        def run(framework, **more):
            return self.run_of(row(framework=framework, year=2024, num_gpus=1, parallel={}, job__finetune="lora", job__recompute=None, job__precision="bf16", **more))
        self.assertEqual(run("LLaMA-Factory")["job"]["memory"]["recompute"], "full")
        unsloth = run("Unsloth")["job"]
        self.assertEqual((unsloth["memory"]["recompute"], unsloth["memory"]["offload"]["activations"], unsloth["kernels"]["loss"]), ("full", "cpu", "chunked"))
        formats = lambda words: self.run_of(row(framework="LLaMA-Factory", num_gpus=1, parallel={}, precision=words, job__precision="bf16"))["job"]["memory"].get("dtypes")
        self.assertEqual(formats("pure bf16"), {"parameters": "bf16"})
        self.assertIsNone(formats("bf16"))
        newer = self.run_of(row(framework="LLaMA-Factory", year=2026, num_gpus=1, parallel={}, job__precision="bf16"))["job"]["memory"]
        self.assertEqual(newer["dtypes"], {"parameters": "fp32"})  # widened, where transformers 5 alone would train 16 bits
        plain = self.run_of(row(framework="HAI-LLM", job__precision="bf16"))["job"]["memory"]["dtypes"]
        self.assertEqual(plain, {"parameters": "bf16"})  # the preset's runs have products in 8 bits

    def test_metrics_by_other_names(self):
        def measured(metric, value):
            return self.run_of(row(metric=metric, value=value, other_metrics={}))["measured"]
        for metric, value, want in (("step_time", 5, {"step_time": 5}), ("iteration_time_ms", 5000, {"step_time": 5.0}), ("tokens/s/GPU", 9, {"tokens_per_second_per_gpu": 9}),
                                    ("tflops_per_chip", 138, {"model_flops_per_second_per_gpu": 138e12}), ("mfu_pct", 44, {"mfu": 0.44}),
                                    ("max_memory_allocated_gib", 1, {"peak_memory": 2**30}), ("outcome", "OOM", {"outcome": "out of memory"}),
                                    ("outcome", "ran", {"outcome": "ran"}), ("tokens_per_second", 9, {"tokens_per_second": 9})):
            self.assertEqual(measured(metric, value), want, metric)

    def test_a_device_s_newest_kernel_stands_for_one_that_it_does_not_run(self):
        run = self.run_of(row(job__device="v100-sxm2-32", job__attention="flash2"))
        self.assertEqual(run["job"]["kernels"]["attention"], "efficient")
        self.assertEqual(run["assumed"]["kernels.attention"], "efficient, as v100-sxm2-32 does not run flash2")

    def test_kinds_of_skips(self):
        for changed, kind in (
                (without(DENSE, "model"), "incomplete: the model"),
                (row(without(DENSE, "model"), kernel="rms_norm"), "operator table"),
                (row(model__arch="single layer"), "single layer: single layer"),
                (row(model__arch="mamba"), "architecture: mamba"),
                (row(metric="bubble_rate_simulated", other_metrics={}), "calculation: bubble_rate_simulated is no quantity of a forecast"),
                (row(metric="tokens_per_day", other_metrics={}), "quantity: tokens_per_day is no quantity of a forecast"),
                (row(value="0.4", other_metrics={}), "no value: tflops_per_gpu: '0.4' is text"),
                (row(metric="outcome", value="failed", other_metrics={}), "no value: the outcome 'failed' does not tell a crash from memory that ran out"),
                (row(value=None, other_metrics={}), "no value: tflops_per_gpu"),
                (row(value=0, other_metrics=None), "no value: tflops_per_gpu"),
                (row(job__recompute={"budget": 0.5}), "recompute: budget"),
                (row(offload="some offload"), "offload: some offload"),
                (row(offload={"optimizer": "tape"}), "offload: {'optimizer': 'tape'}"),
                (row(job__finetune="ia3"), "finetune: ia3"),
                (row(optimizer="galore_adamw_8bit"), "optimizer: galore_adamw_8bit"),
                (row(model={"name": "Aquila-7B"}), "architecture: not stated, and 'Aquila-7B' is not in configs/models"),
                (row(model__moe={"experts": 8, "layer_freq": "now and then"}), "architecture: experts in layers 'now and then'"),
                (row(model__hidden=None), "incomplete: the model's size"),
                (row(seq_len=None), "incomplete: the sequence length"),
                (row(global_batch=None, micro_batch=None), "incomplete: neither the global batch nor the micro-batch is stated"),
                (row(micro_batch=None, grad_accum=1000), "not possible: a batch of 512 over 4 ranks and 1000 accumulations")):
            with self.subTest(kind):
                self.assertEqual(self.skip_of(changed), kind)

    def test_malformed_rows_are_skipped(self):
        for changed, detail in (
                (row(parallel__tp="two"), "malformed: parallel.tp: the text 'two' is not what is expected: a number"),
                (row(parallel__tp=0), "malformed: parallel.tp: '0' is not what is expected: 1 to 1000000"),
                (row(seq_len=2.5), "malformed: seq_len: '2.5' is not what is expected: a whole number"),
                (row(num_gpus=[16]), "malformed: num_gpus: 'a list' is not what is expected: a number"),
                (row(parallel__sequence_parallel="perhaps"), "malformed: parallel.sequence_parallel: the text 'perhaps' is not what is expected: true or false"),
                (row(OPERATOR, config="{"), None),
                (without(DENSE, "metric"), "malformed: 'metric' is missing"),
                ("[1, 2]", "malformed: a row is an object"),
                (row(job__precision=["fp8", "bf16"]), "malformed: job.precision: 'a list' is not what is expected: a word"),
                ('{"metric": "mfu", "model": 5, "job": "x"}', "malformed: job: the text 'x' is not what is expected: an object"),
                ('{"metric": {}}', "incomplete: the model")):
            with self.subTest(detail):
                skipped = self.skip_of(changed)
                self.assertTrue(skipped.startswith("malformed: ") if detail is None else skipped == detail, skipped)

    def test_no_field_of_any_type_crashes(self):
        rows = []
        for value in (None, True, -1, 0, 1e300, "", "text", [], [1], {}, {"a": 1}):
            rows += [row(**{key: value}) for key in DENSE if key != "id"]
            rows += [row(**{f"{part}__{key}": value}) for part in ("model", "parallel", "job") for key in DENSE[part]]
            rows += [row(OPERATOR, **{key: value}) for key in OPERATOR if key != "id"]
            rows += [row(other_metrics={"peak_memory_by_rank_mb": value}), row(other_metrics={"peak_memory_by_rank_mb": {"x": value, "1": value}})]
        status, runs, errors = convert(*rows)
        self.assertEqual(status, 0, errors[-3:])
        self.assertTrue(errors[-1].startswith(f"{len(rows)} rows: {len(runs)} runs, {len(rows) - len(runs)} skipped"), errors[-1])

    def test_what_is_no_json_lines_ends_with_2(self):
        for text, message in (('{"id": ', "2: malformed JSON: "), ('{"id": 1, "id": 2}', "2: malformed JSON: duplicate key 'id'"),
                              ("[" * 100000, "2: malformed JSON: is nested too deeply"), (b"\xff\xfe", "2: byte 0xff is not text")):
            with self.subTest(message):
                status, runs, errors = convert(DENSE, text)
                self.assertEqual((status, len(runs)), (2, 1))
                self.assertTrue(errors[-1].startswith(message), errors[-1])

    def test_the_program_says_what_the_function_does(self):
        for rows in ((DENSE, OPERATOR, row(job__device=None)), (DENSE, '{"id": ')):
            self.assertEqual(convert(*rows, ran=as_process), convert(*rows))

    def test_blank_lines_count_as_lines_only(self):
        _, runs, errors = convert("", " \r", row(job__device=None, gpu=None))
        self.assertEqual((runs, errors), ([], ["3: dense: no device: neither job.device nor gpu", "1 rows: 0 runs, 1 skipped (no device 1)"]))


if __name__ == "__main__":
    unittest.main()
