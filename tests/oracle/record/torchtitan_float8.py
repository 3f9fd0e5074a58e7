"""torchao's linears as torchtitan switches them on."""


def state_options(float8, recipe, case):
    """Writes torchtitan's options (0.1, 0.2) for linears in 8 bits, all but the head. One scale for each tensor has no name among recipes."""
    gather = case.parallelism.get("float8_all_gather", "none")
    float8.filter_fqns = ["output"]
    float8.recipe_name = None if recipe == "tensorwise" else recipe
    float8.enable_fsdp_float8_all_gather = gather != "none"
    float8.precompute_float8_dynamic_scale_for_fsdp = gather == "precomputed"


def tolerate_keys():
    """Kernels of torchao 0.18 name autotuning keys that are no arguments of theirs, which Triton 3.9 refuses; such keys are left out.
    None of these kernels runs in a recorded step."""
    import triton
    autotune = triton.autotune

    def tolerant(configs, key, **more):
        return lambda kernel: autotune(configs, [name for name in key if name in kernel.arg_names], **more)(kernel)

    triton.autotune = tolerant
