"""Traces of `simulate --trace`, field by field against Perfetto's published schema.

Arguments: the binary, the source tree. perfetto.proto beside this file is the part of the schema that we write; protoc
compiles it, and where Python's `perfetto` package is installed it is compared with all of the published one. A trace is
then decoded by that schema (every field known, with its wire type and within its type's range), read as Perfetto reads it
(sequence state, interned names, tracks, slices as stacks, flows, counters), and compared with the JSON report.
"""

import collections
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY, SOURCE = sys.argv[1:3]
PROTOC = shutil.which("protoc")
if PROTOC is None:
    print("SKIPPED: protoc (protobuf-compiler) is not installed")
    sys.exit(0)

# google/protobuf/descriptor.proto
TYPES = {3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 8: "bool", 9: "string", 11: "message", 13: "uint32", 14: "enum"}
WIRE = {"int64": 0, "uint64": 0, "int32": 0, "uint32": 0, "enum": 0, "bool": 0, "fixed64": 1, "string": 2, "message": 2}
REPEATED = 3
Field = collections.namedtuple("Field", "name kind repeated type oneof")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise ValueError("a varint of more than 64 bits")
            return value, at
        shift += 7


def fields(data):
    """(number, wire type, value) of a message; bytes for what has a length."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif wire == 2:
            size, at = varint(data, at)
            if at + size > len(data):
                raise ValueError("a field longer than its message")
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {wire}")
        yield key >> 3, wire, value


def first(message, number, absent=None):
    return next((value for n, _, value in fields(message) if n == number), absent)


class Schema:
    """Messages and enumerations by full name, from protoc's FileDescriptorSet."""

    def __init__(self, file_set):
        self.messages, self.enums = {}, {}
        for number, _, file in fields(file_set):
            if number == 1:
                package = first(file, 2, b"").decode()
                for n, _, part in fields(file):
                    if n == 4:
                        self.add(part, "." + package)

    def add(self, message, scope):
        name = f"{scope}.{first(message, 1).decode()}"
        known = self.messages[name] = {}
        for number, _, part in fields(message):
            if number == 2:
                known[first(part, 3)] = Field(first(part, 1).decode(), TYPES.get(first(part, 5)), first(part, 4) == REPEATED,
                                              first(part, 6, b"").decode(), first(part, 9))
            elif number == 3:
                self.add(part, name)
            elif number == 4:
                values = [v for n, _, v in fields(part) if n == 2]
                self.enums[f"{name}.{first(part, 1).decode()}"] = {first(v, 2): first(v, 1).decode() for v in values}

    def read(self, data, name):
        """A message as a dictionary by field name. Refuses what the schema does not have."""
        out, oneofs = {}, set()
        known = self.messages[name]
        for number, wire, value in fields(data):
            field = known.get(number)
            if field is None:
                raise ValueError(f"{name}: no field {number}")
            if wire != WIRE[field.kind]:
                raise ValueError(f"{name}.{field.name}: wire type {wire}, expected {WIRE[field.kind]}")
            if field.kind == "message":
                value = self.read(value, field.type)
            elif field.kind == "string":
                value = value.decode("utf-8")
            elif field.kind == "enum":
                value = self.enums[field.type][value]
            elif field.kind in ("int32", "int64"):
                value -= (value >> 63) << 64
                if field.kind == "int32" and not -(2**31) <= value < 2**31:
                    raise ValueError(f"{name}.{field.name}: {value} is no int32")
            elif field.kind == "uint32" and value >= 2**32:
                raise ValueError(f"{name}.{field.name}: {value} is no uint32")
            if field.repeated:
                out.setdefault(field.name, []).append(value)
                continue
            if field.name in out:
                raise ValueError(f"{name}.{field.name} is there twice")
            if field.oneof is not None:
                if field.oneof in oneofs:
                    raise ValueError(f"{name}.{field.name}: another field of its oneof is set too")
                oneofs.add(field.oneof)
            out[field.name] = value
        return out


def compile_schema():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "schema")
        subprocess.run([PROTOC, f"--proto_path={HERE}", f"--descriptor_set_out={out}", "perfetto.proto"], check=True)
        with open(out, "rb") as file:
            return file.read()


SCHEMA = Schema(compile_schema())
Slice = collections.namedtuple("Slice", "track name category begin end depth")


class Trace:
    """A trace as Perfetto's importer reads it; raises ValueError where that would drop or misplace something."""

    def __init__(self, data):
        self.tracks, self.slices, self.counts = {}, [], collections.defaultdict(list)
        self.flows, self.flow_ends = {}, {}
        names, cleared = collections.defaultdict(dict), set()
        open_slices, now = collections.defaultdict(list), {}
        for number, wire, raw in fields(data):
            if (number, wire) != (1, 2):
                raise ValueError("a Trace holds packets only")
            packet = SCHEMA.read(raw, ".perfetto.protos.TracePacket")
            sequence, flags = packet["trusted_packet_sequence_id"], packet.get("sequence_flags", 0)
            if sequence == 0:
                raise ValueError("sequence 0 is nobody's")
            if flags & 1:
                cleared.add(sequence)
                names.clear()
            if flags & 2 and sequence not in cleared:
                raise ValueError("a packet needs state that no packet before it began")
            for kind, entries in packet.get("interned_data", {}).items():
                for entry in entries:
                    if entry["iid"] == 0 or names[kind].setdefault(entry["iid"], entry["name"]) != entry["name"]:
                        raise ValueError(f"{kind} {entry['iid']} is 0 or has two meanings")
            if "track_descriptor" in packet:
                self.add_track(packet["track_descriptor"])
            if "track_event" not in packet:
                continue
            event, time = packet["track_event"], packet["timestamp"]
            uuid = event["track_uuid"]
            if uuid not in self.tracks:
                raise ValueError(f"track {uuid} is not described before its first event")
            if (event["type"] == "TYPE_COUNTER") != ("counter" in self.tracks[uuid]):
                raise ValueError(f"track {uuid}: counters and slices on one track")
            if time < now.get(uuid, 0):
                raise ValueError(f"track {uuid} runs backwards at {time} ns")
            now[uuid] = time
            interned = "name_iid" in event or "category_iids" in event or "debug_annotations" in event
            if interned and not flags & 2:
                raise ValueError("interned names without SEQ_NEEDS_INCREMENTAL_STATE")
            if event["type"] == "TYPE_COUNTER":
                self.counts[uuid].append((time, event["counter_value"]))
                continue
            if event["type"] == "TYPE_SLICE_END":
                name, category, begin = open_slices[uuid].pop()
                self.slices.append(Slice(uuid, name, category, begin, time, len(open_slices[uuid])))
                continue
            name = names["event_names"][event["name_iid"]]
            for note in event.get("debug_annotations", []):
                names["debug_annotation_names"][note["name_iid"]]
            if event["type"] == "TYPE_SLICE_BEGIN":
                [category] = [names["event_categories"][i] for i in event["category_iids"]]
                open_slices[uuid].append((name, category, time))
            elif event["type"] != "TYPE_INSTANT":
                raise ValueError(event["type"])
            for ids, ends in (("flow_ids", self.flows), ("terminating_flow_ids", self.flow_ends)):
                for flow in event.get(ids, []):
                    if flow in ends:
                        raise ValueError(f"flow {flow} twice")
                    ends[flow] = (time, uuid)
        left = sum(len(stack) for stack in open_slices.values())
        if left:
            raise ValueError(f"{left} slices are not ended")

    def add_track(self, track):
        uuid, parent = track["uuid"], track.get("parent_uuid")
        if uuid == 0 or uuid in self.tracks:
            raise ValueError(f"track {uuid} is 0 or described twice")
        if parent is not None and parent not in self.tracks:
            raise ValueError(f"track {uuid}: its parent {parent} is not described before it")
        if (parent is None) != ("process" in track):
            raise ValueError(f"track {uuid}: a group is a process, everything else stands in one")
        if "process" in track and track["process"]["pid"] in (t["process"]["pid"] for t in self.tracks.values() if "process" in t):
            raise ValueError(f"track {uuid}: another process has its number")
        self.tracks[uuid] = track


def run(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("step.pftrace", "report.json")]
        subprocess.run([BINARY, *arguments, "--trace", files[0], "--json", files[1]], check=True, cwd=SOURCE,
                       capture_output=True)
        with open(files[0], "rb") as trace, open(files[1], encoding="utf-8") as report:
            return trace.read(), json.load(report)


JOBS = {
    "pipeline and tensor": ["--config", "llama70b"],
    "experts": ["--config", "mixtral-8x7b"],
    "fully sharded, every rank": ["--config", "llama8b-fsdp", "--fidelity", "full"],
}


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = {name: run(*arguments) for name, arguments in JOBS.items()}
        cls.traces = {name: (Trace(data), report) for name, (data, report) in cls.runs.items()}

    def of_each(self, check):
        for name, (trace, report) in self.traces.items():
            with self.subTest(name):
                check(trace, report)

    def test_every_job_has_a_group_for_the_step_and_one_a_stage(self):
        def check(trace, report):
            groups = [t["process"]["process_name"] for t in trace.tracks.values() if "process" in t]
            self.assertEqual(groups[0], report["title"])
            stages = {f"stage {s['stage']}" for s in report["breakdown"]}
            self.assertEqual({g.split(" (")[0].split(",")[0] for g in groups[1:]}, stages)
            self.assertGreater(len(trace.slices), 1000)

        self.of_each(check)

    def test_a_spoilt_trace_is_refused(self):
        whole = self.runs["fully sharded, every rank"][0]
        for spoilt in (whole[:-3], whole[:1] + bytes([whole[1] ^ 1]) + whole[2:]):
            with self.assertRaises((ValueError, KeyError, IndexError, struct.error)):
                Trace(spoilt)
        # At 1 ns, sequence 1, with its state; an event follows.
        packet = bytes([0x40, 1, 0x50, 1, 0x68, 2])
        for event, why in (
            (bytes([0x48, 2, 0x58, 9]), "track 9 is not described"),
            (bytes([0x48, 2, 0x58, 2]), "pop from empty list"),  # an end without a beginning
            (bytes([0x4D, 2, 0, 0, 0]), "wire type 5"),
            (bytes([0x49] + [0] * 8), "type: wire type 1, expected 0"),
            (bytes([0x38, 2]), "no field 7"),
            (bytes([0x48, 2, 0x48, 2]), "twice"),
        ):
            message = packet + bytes([0x5A, len(event)]) + event
            with self.assertRaisesRegex((ValueError, IndexError), why):
                Trace(whole[: self.end_of_first_tracks(whole)] + bytes([0x0A, len(message)]) + message)

    @staticmethod
    def end_of_first_tracks(whole):
        """Where the packets end that begin the sequence and describe the step's group and track."""
        at = 0
        for _ in range(3):
            size, start = varint(whole, at + 1)
            at = start + size
        return at

    def test_the_step_lasts_as_long_as_reported(self):
        def check(trace, report):
            [step] = [s for s in trace.slices if s.name == "step" and s.category == "step"]
            self.assertAlmostEqual((step.end - step.begin) * 1e-9, report["step_time"]["value"], delta=2e-9)

        self.of_each(check)

    def test_slices_nest_and_a_stream_runs_one_task_at_a_time(self):
        def check(trace, _):
            levels = collections.defaultdict(list)
            for s in trace.slices:
                self.assertLessEqual(s.depth, 1)  # a wait is nested in its task
                levels[s.track, s.depth].append((s.begin, s.end))
            for spans in levels.values():
                spans.sort()
                for (_, end), (begin, _) in zip(spans, spans[1:]):
                    self.assertLessEqual(end, begin)

        self.of_each(check)

    def test_an_arrow_has_two_ends_and_points_forwards(self):
        def check(trace, _):
            self.assertEqual(trace.flows.keys(), trace.flow_ends.keys())
            for flow, (time, _) in trace.flows.items():
                self.assertLessEqual(time, trace.flow_ends[flow][0])

        self.of_each(check)
        self.assertGreater(len(self.traces["pipeline and tensor"][0].flows), 0)

    def test_memory_counts_up_to_the_reported_peak(self):
        """The counter has what the program asks for, the report what the allocator hands out: up to 511 bytes a tensor
        more, and tensors are larger than half a megabyte on average."""

        def check(trace, report):
            peaks = collections.defaultdict(int)
            for uuid, counts in trace.counts.items():
                self.assertEqual(trace.tracks[uuid]["counter"]["unit"], "UNIT_SIZE_BYTES")
                group = trace.tracks[trace.tracks[uuid]["parent_uuid"]]["name"]
                stage = int(group.split()[1].rstrip(","))
                peaks[stage] = max(peaks[stage], max(level for _, level in counts))
            for stage in report["memory"]["stages"]:
                self.assertLessEqual(peaks[stage["stage"]], stage["peak"]["allocated"])
                self.assertGreater(peaks[stage["stage"]], stage["peak"]["allocated"] * (1 - 1e-3))

        self.of_each(check)

    def test_computation_adds_up_to_the_breakdown(self):
        """A rank computes on one stream, so its slices last what the report calls compute, recompute, slowdown (which
        compute and recompute have suffered) and optimizer. Each end of a slice is cut to a nanosecond."""

        def check(trace, report):
            sums, slices = collections.Counter(), collections.Counter()
            for s in trace.slices:
                stage = trace.tracks[trace.tracks[s.track]["parent_uuid"]]["name"]
                if s.depth == 0 and s.category in ("compute", "recompute", "optimizer"):
                    sums[stage, s.category == "optimizer"] += s.end - s.begin
                    slices[stage] += 1
            for stage in report["breakdown"]:
                computed = stage["compute"] + stage["recompute"] + stage["slowdown"]
                ranks = [r for r in slices if r.replace(",", " ").startswith(f"stage {stage['stage']} ")]
                # The report shows one of them.
                slowest = min(ranks, key=lambda r: abs(sums[r, False] * 1e-9 - computed))
                within = slices[slowest] * 1e-9
                self.assertAlmostEqual(sums[slowest, False] * 1e-9, computed, delta=within)
                self.assertAlmostEqual(sums[slowest, True] * 1e-9, stage["optimizer"], delta=within)

        self.of_each(check)


@unittest.skipUnless(importlib.util.find_spec("perfetto"), "Python's perfetto package is not installed")
class Published(unittest.TestCase):
    def test_the_committed_part_is_as_published(self):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2

        whole = Schema(b"\x0a" + bytes(self.length(perfetto_trace_pb2.DESCRIPTOR.serialized_pb)))
        for name, known in SCHEMA.messages.items():
            for number, field in known.items():
                other = whole.messages[name][number]
                self.assertEqual(field._replace(oneof=None), other._replace(oneof=None))
                self.assertEqual(field.oneof is None, other.oneof is None)
        for name, values in SCHEMA.enums.items():
            self.assertLessEqual(values.items(), whole.enums[name].items())

    @staticmethod
    def length(message):
        size, out = len(message), []
        while size >= 0x80:
            out.append(size & 0x7F | 0x80)
            size >>= 7
        return bytes(out + [size]) + message


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
