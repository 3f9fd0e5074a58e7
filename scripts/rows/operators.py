"""Rows that measure one operator outside a model (Liger-Kernel's benchmark table), as the benchmark names its sizes."""
from . import fields
from .fields import Field, Malformed


def operator(row):
    """The run's `operator`; None: the row measures something else."""
    if row["level"].text() != "op" or not row["kernel"].present():
        return None
    try:
        config = Field(fields.parse(row["config"].text()), "config")
    except ValueError as error:
        raise Malformed(f"config: {error}") from None
    sizes = {}
    dtype = ""
    for key in config.value if config.is_map() else ():
        value = config[key]
        if key == "dtype":
            dtype = "fp32" if "float32" in value.text() else "bf16"
        elif value.present() and not value.is_text() and key != "eps":
            sizes[key] = value.integer()
    # Liger's cross-entropy benchmark makes fp32 logits; those that name no type otherwise run in bf16.
    dtype = dtype or ("fp32" if row["kernel"].text() == "cross_entropy" else "bf16")
    if row["x"].present():
        sizes[row["x_name"].text()] = int(row["x"].number())
    return {"kernel": row["kernel"].text(), "provider": row["provider"].text(), "mode": row["mode"].text(),
            "device": row["gpu"].text(), "dtype": dtype, "sizes": dict(sorted(sizes.items()))}
