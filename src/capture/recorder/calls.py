"""From the null GPU's log of one step to tasks on streams, with what each waits for and the host's time before it."""
import collections
import ctypes

KERNEL, RECORD, WAIT, SYNC_STREAM, SYNC_EVENT, SYNC_DEVICE, COPY, FILL, COLLECTIVE, GROUP, MARK = range(1, 12)
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "send", "recv")
PARTS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")  # NCCL is told the part of one rank
DIRECTIONS = {1: "to_device", 2: "to_host"}
ISSUED = (KERNEL, COPY, FILL, COLLECTIVE)
WAITED = (SYNC_STREAM, SYNC_EVENT, SYNC_DEVICE)


class Entry(ctypes.Structure):
    """As in nullgpu/log.h."""
    _fields_ = [("time", ctypes.c_int64), ("kind", ctypes.c_int32), ("operator", ctypes.c_int32), ("stream", ctypes.c_uint64),
                ("what", ctypes.c_uint64), ("amount", ctypes.c_int64)]


class Log:
    def __init__(self):
        self.library = ctypes.CDLL(None)
        self.library.nullgpu_log_entries.restype = ctypes.POINTER(Entry)
        self.library.nullgpu_log_count.restype = ctypes.c_long
        self.operator = self.library.nullgpu_operator
        self.mark = self.library.nullgpu_log_mark

    def keep(self, on):
        self.library.nullgpu_log(int(on))

    def steps(self):
        """The entries between marks."""
        entries, count = self.library.nullgpu_log_entries(), self.library.nullgpu_log_count()
        out = []
        for i in range(count):
            e = entries[i]
            if e.kind == MARK:
                out.append([])
            out[-1].append((e.time, e.kind, e.operator, e.stream, e.what, e.amount))
        return out[:-1], entries[count - 1].time


def host_times(timed, recorded):
    """The host's time in ns before each entry of `recorded`: the least of the steps that ran without a recorder, where they are of the
    same calls; else that of the recorded step, scaled to the length of the others."""
    def gaps(step, end):
        times = [e[0] for e in step]
        return [0] + [b - a for a, b in zip(times, times[1:])] + [end - times[-1]]

    kinds = [e[1] for e in recorded[0]]
    same = [gaps(*step) for step in timed if [e[1] for e in step[0]] == kinds]
    if same:
        return [min(values) for values in zip(*same)], True
    own = gaps(*recorded)
    scale = min(end - step[0][0] for step, end in timed) / max(1, sum(own))
    return [int(g * scale) for g in own], False


class Streams:
    """Numbers of streams, and how many entries each has issued in the present step."""

    def __init__(self):
        self.numbers = {0: 0}
        self.issued = collections.Counter()

    def of(self, address):
        return self.numbers.setdefault(address, len(self.numbers))


def tasks_of(before, recorded, gaps, calls, group_of_comm):
    """Tasks of `recorded`: lists as src/capture/README.md has them. `before`: the step ahead of it, for events that it recorded."""
    streams, events = Streams(), {}
    for _, kind, _, stream, what, _ in before:
        if kind in ISSUED:
            streams.issued[streams.of(stream)] += 1
        elif kind == RECORD:
            events[what] = (-1, streams.of(stream), streams.issued[streams.of(stream)])
    return Step(streams, events, recorded, gaps, calls, group_of_comm).run()


class Step:
    def __init__(self, streams, events, entries, gaps, calls, group_of_comm):
        self.streams, self.events, self.entries, self.gaps, self.calls, self.group_of_comm = streams, events, entries, gaps, calls, group_of_comm
        self.before = dict(streams.issued)
        streams.issued.clear()
        self.tasks = []
        self.open = {}  # stream: the task that further entries of its operator join
        self.ends = collections.defaultdict(list)  # stream: entries issued when each of its tasks was complete
        self.waits = collections.defaultdict(dict)  # stream: {stream waited for: (lag, entries)}
        self.met = {}  # (stream, stream waited for): the last (lag, entries) that it has waited for
        self.host = 0
        self.group = None

    def run(self):
        for entry, gap in zip(self.entries, self.gaps):
            self.host += gap
            self.take(*entry)
        self.host += self.gaps[-1]
        if self.host > 0:
            self.tasks.append(["host", self.host])
        return self.with_positions()

    def take(self, _, kind, operator, stream, what, amount):
        if kind == GROUP:
            self.take_group(what == 1)
        elif kind == RECORD:
            s = self.streams.of(stream)
            self.open.pop(s, None)
            self.events[what] = (0, s, self.streams.issued[s])
        elif kind == WAIT and what in self.events:
            self.open.pop(self.streams.of(stream), None)
            self.wait(self.streams.of(stream), *self.events[what])
        elif kind in WAITED:
            self.sync(kind, stream, what)
        elif kind in (KERNEL, FILL):
            self.kernel(self.streams.of(stream), operator)
        elif kind == COPY:
            self.copy(self.streams.of(stream), operator, what, amount)
        elif kind == COLLECTIVE:
            self.collective(self.streams.of(stream), what, amount)

    def wait(self, stream, step, on, entries):
        """`stream` waits until `on` has done `entries` of this step (0) or the one before (-1)."""
        if step == 0 and entries == 0:
            step, entries = -1, self.before.get(on, 0)
        if on == stream or entries == 0 or self.met.get((stream, on), (-2, 0)) >= (step, entries):
            return
        self.met[stream, on] = (step, entries)
        self.waits[stream][on] = (step, entries)

    def sync(self, kind, stream, what):
        if kind == SYNC_EVENT:
            seen = [self.events[what]] if what in self.events else []
        else:
            on = [self.streams.of(stream)] if kind == SYNC_STREAM else list(self.streams.numbers.values())
            seen = [(0, s, self.streams.issued[s]) for s in on]
        waits = [[s, step, entries] for step, s, entries in seen if entries > 0]
        self.open.clear()
        self.tasks.append(["sync", self.host, waits])
        self.host = 0

    def begin(self, stream, task):
        waits = [[on, *value] for on, value in self.waits.pop(stream, {}).items()]
        self.tasks.append([*task[:1], stream, self.host, waits, *task[1:]])
        self.host = 0
        self.streams.issued[stream] += 1
        self.ends[stream].append(self.streams.issued[stream])
        return self.tasks[-1]

    def kernel(self, stream, operator):
        known = self.open.get(stream)
        if known is not None and known[0] == operator and not self.waits.get(stream):
            known[1][2] += self.host
            self.host = 0
            known[1][6] += 1
            self.streams.issued[stream] += 1
            self.ends[stream][-1] = self.streams.issued[stream]
            return
        number, phase = self.calls[operator] if 0 <= operator < len(self.calls) else (-1, 0)
        task = self.begin(stream, ["kernel", number, phase, 1])
        self.open = {stream: (operator, task)}  # tasks are in the host's order

    def copy(self, stream, operator, direction, amount):
        if direction in DIRECTIONS:
            self.open.clear()
            self.begin(stream, ["copy", DIRECTIONS[direction], amount])
        else:
            self.kernel(stream, operator)

    def collective(self, stream, what, amount):
        comm, operation, peer = what & 0xffff, OPERATIONS[what >> 16 & 0xff], what >> 24
        self.open.clear()
        if self.group is not None:
            self.group.append((stream, comm, operation, peer, amount))
        else:
            self.issue([(stream, comm, operation, peer, amount)])

    def take_group(self, begins):
        if begins:
            self.depth = getattr(self, "depth", 0) + 1
            self.group = self.group if self.group is not None else []
            return
        self.depth -= 1
        if self.depth == 0:
            calls, self.group = self.group, None
            for stream, comm in dict.fromkeys((c[0], c[1]) for c in calls):
                self.issue([c for c in calls if c[:2] == (stream, comm)])

    def issue(self, calls):
        """Calls of one group, stream and communicator: NCCL runs them as one kernel."""
        stream, comm = calls[0][:2]
        ranks = self.group_of_comm(comm)[0]
        singles = [c for c in calls if c[2] in ("send", "recv")]
        sent = {c[3] for c in singles if c[2] == "send"}
        if singles and len(ranks) > 2 and len(sent) >= len(ranks) - 1:
            amount = sum(c[4] for c in singles if c[2] == "send")
            self.one(stream, ["collective", comm, "all_to_all", amount], len(calls))
        elif singles:
            self.one(stream, ["exchange", comm, [[c[3], int(c[2] == "send"), c[4]] for c in singles]], len(calls))
        for operation in dict.fromkeys(c[2] for c in calls if c not in singles):
            same = [c for c in calls if c[2] == operation]
            self.one(stream, ["collective", comm, operation, sum(c[4] for c in same) * (len(ranks) if operation in PARTS else 1)], len(same))

    def one(self, stream, task, entries):
        self.begin(stream, task)
        self.streams.issued[stream] += entries - 1
        self.ends[stream][-1] = self.streams.issued[stream]

    def with_positions(self):
        """Waits as [stream, tasks of it, steps back]: entries become tasks. What waits at the end does so at the next step's beginning."""
        import bisect

        def position(on, step, entries):
            return [on, min(bisect.bisect_left(self.ends[on], entries) + 1, len(self.ends[on])), -step]

        for task in self.tasks:
            at = 2 if task[0] == "sync" else 3
            if task[0] != "host":
                task[at] = [position(*w) for w in task[at] if self.ends[w[0]]]
        for stream, waits in self.waits.items():
            first = next((t for t in self.tasks if t[0] not in ("sync", "host") and t[1] == stream), None)
            for on, (step, entries) in waits.items():
                if first is not None and step == 0 and self.ends[on]:
                    first[3].append(position(on, -1, entries))
        return self.tasks, {number: address for address, number in self.streams.numbers.items()}
