"""The order of passes on every rank that a schedule of torch.distributed.pipelining makes. Nothing runs but the schedule."""
from torch.distributed.pipelining import schedules

V_SHAPED = (schedules.ScheduleZBVZeroBubble, schedules.ScheduleDualPipeV)


class Stage:
    """What a schedule asks of a stage; it notes the passes that it is told to run, and has nothing to send."""

    def __init__(self, index, ranks, stages, log):
        self.stage_index, self.group_size, self.num_stages, self.log = index, ranks, stages, log
        self.group_rank, self.device, self.submod = index % ranks, "cpu", None
        self.is_first, self.is_last, self.has_backward = index == 0, index == stages - 1, True

    def forward_one_chunk(self, chunk, *_, **__):
        self.log.append(f"{self.stage_index}F{chunk}")

    def backward_one_chunk(self, chunk, *_, **__):
        self.log.append(f"{self.stage_index}B{chunk}")

    def __getattr__(self, name):
        return lambda *_, **__: []


def record(case):
    kind = getattr(schedules, case.option("schedule"))
    try:
        order = written if issubclass(kind, schedules.PipelineScheduleMulti) else run
        return {"orders": order(kind, case.pipeline, case.virtual, case.accumulate)}
    except (ValueError, AssertionError) as fault:
        return {"refused": str(fault)[:200]}


def run(kind, ranks, _, micro_batches):
    """GPipe and 1F1B are loops over the passes of one stage."""
    rows = []
    for rank in range(ranks):
        log = []
        schedule = kind(Stage(rank, ranks, ranks, log), micro_batches, loss_fn=None)
        schedule._has_backward = True
        for name in ("_initialize_stage", "_maybe_compute_loss", "_update_losses", "_maybe_get_loss"):
            setattr(schedule, name, lambda *_, **__: None)
        schedule._step_microbatches([()] * micro_batches, [{}] * micro_batches)
        rows.append(" ".join(log))
    return rows


def written(kind, ranks, chunks, micro_batches):
    """Schedules of several stages a rank write down the orders of all ranks when they are made."""
    stages = ranks * chunks
    mine = [0, stages - 1] if kind in V_SHAPED else [chunk * ranks for chunk in range(chunks)]
    schedule = kind([Stage(index, ranks, stages, []) for index in mine], micro_batches, loss_fn=lambda *_: None)
    rows = []
    for rank in range(ranks):
        passes = [str(part) for action in schedule.pipeline_order[rank] if action is not None for part in action.sub_actions or [action]]
        rows.append(" ".join(p for p in passes if "REDUCE" not in p))
    return rows
