"""The order of passes that a schedule of torch.distributed.pipelining runs on this rank."""
from torch.distributed.pipelining.stage import _PipelineStageBase

PASSES = {"forward_one_chunk": "F", "backward_one_chunk": "B", "backward_weight_one_chunk": "W"}


def watch(schedule):
    """Returns what gives the passes of the last step: 3F0 is the first forward of stage 3, I and W the halves of a backward pass."""
    log = []
    for name, letter in PASSES.items():
        real = getattr(_PipelineStageBase, name)

        def watched(self, chunk, *args, real=real, letter=letter, **kwargs):
            halved = letter == "B" and kwargs.get("full_backward", True) is False
            log.append(f"{self.stage_index}{'I' if halved else letter}{chunk}")
            return real(self, chunk, *args, **kwargs)
        setattr(_PipelineStageBase, name, watched)
    before = schedule.step

    def step(*args, **kwargs):
        log.clear()
        return before(*args, **kwargs)

    schedule.step = step
    return lambda: " ".join(log)
