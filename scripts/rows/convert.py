"""One row as one measured run."""
from . import skips
from .cluster import write_cluster
from .draft import Draft
from .fields import Field, Malformed
from .limits import lift
from .measured import FLOPS, convention, measured, measured_operator
from .memory import write_kernels, write_memory
from .model import write_model
from .normal import normal
from .operators import operator
from .parallelism import write_parallelism, write_workload
from .skips import Skipped
from .system import write_system


def job_of(draft):
    """Writes the job of `draft.row`; raises Skipped where there is none."""
    skips.check(draft.row, draft.published, draft.unpacked)
    for key in ("finetune", "optimizer"):  # whose memory is another than that of any default
        if key in draft.unknown:
            raise Skipped(key, draft.stated[key])
    for write in (write_model, write_cluster, write_system, write_workload, write_parallelism, lift, write_kernels, write_memory):
        write(draft)
    return draft.out


def run_of(row):
    """(measured run, remarks on what was not known) of a row as fields.parse reads it; raises Skipped."""
    if not isinstance(row, dict):
        raise Skipped("malformed", "a row is an object")
    try:
        row = normal(row)
        whole = Field(row)
        if not whole["metric"].present():
            raise Skipped("malformed", "'metric' is missing")
        run = {key: whole[key].text() for key in ("id", "source") if whole[key].text()}
        single = operator(whole)
        if single is not None:
            return {**run, "operator": single, "measured": measured_operator(whole)}, []
        draft = Draft(row)
        run["job"] = job_of(draft)
        run["measured"] = measured(draft, whole, skips.measures_experts(draft.row))
        flops = convention(draft, whole, run["measured"])
        if flops in FLOPS:
            run["flops"] = flops
        elif flops:
            draft.remark(f"job.flops '{flops}' is taken as megatron_causal")
        if draft.assumed:
            run["assumed"] = draft.assumed
        return run, draft.remarks
    except Malformed as error:
        raise Skipped("malformed", str(error)) from None
    except (ArithmeticError, ValueError) as error:  # a number in a text that no arithmetic holds
        raise Skipped("malformed", f"{type(error).__name__}: {error}") from None
