"""Places of a study file, two values for each, and the reason if a factor is refused there."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.options import BESIDE, written

from svload.model.options import group_options
from svload.model.protocols import PROTOCOLS

BASE: dict[str, Any] = {
    "name": "places",
    "lab": {
        "store": {"kit": "truth", "role": "store", "service_time": "1 ms"},
        "cache": {"kit": "truth", "role": "cache", "of": "store"},
        "own": {"run": "./server --port ${port}"},
        "other": {"at": "http://127.0.0.1:9"},
    },
    "data": {"things": {"in": "store", "count": 20, "containers": 4, "size": "1 KiB"}},
    "feeders": {"thing": {"from": "things"}},
    "requests": {"fetch": {"get": "http://store${thing.path}"}},
    "scenarios": {"buy": ["fetch", "GET http://store/paid"]},
    "traffic": {"load": {"executor": "constant-vus", "vus": 4, "request": "fetch"}},
    "measure": {"duration": "2s", "replicates": 1},
}
READ_BEFORE = "It is read before the cases are made"
MAPPING, LIST = "expected a mapping", "expected a list"
SETS = {"object": {"written": "md5"}, "second": {"written": "md5"}}
WRITES = {"get": None, "put": "http://store/in", "body": {"random": "1 KiB"}, "adds": "object"}


class Place(NamedTuple):
    """A place of a value, the value at either level, and, if the plan refuses a factor there, words of its
    reason."""

    path: tuple[str | int, ...]
    one: Any
    other: Any
    refused: str = ""
    over: dict[str, Any] = {}
    """what the base study needs for it"""


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge mappings, replace everything else; None removes."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merged(base[key], value)
        elif value is None:
            base.pop(key, None)
        else:
            base[key] = value
    return base


def feeder(key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of a feeder of the study's own rows."""
    rows = {} if key in ("values", "csv", "parquet", "range") else {"values": ["a", "b", "c"]}
    over = {"feeders": {"row": {**rows, **more}}, "requests": {"fetch": {"get": "http://store/${row.value}"}}}
    return Place(("feeders", "row", key), one, other, refused, over)


def asked(key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of a request."""
    return Place(("requests", "fetch", key), one, other, refused, {"requests": {"fetch": more}})


def sent(key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of a request with a body."""
    return asked(key, one, other, refused, get=None, post="http://store/in", **more)


def turn(key: str, one: Any, other: Any, refused: str = "") -> Place:
    """Return a place: a turn of a dialogue."""
    turns = [{"send": "hello"}, {"expect": "x"}] if key != "send" else [{"expect": "x"}]
    over = {"requests": {"fetch": {"get": None, "tcp": "tcp://store", "dialogue": [*turns, {}]}}}
    return Place(("requests", "fetch", "dialogue", len(turns), key), one, other, refused, over)


def taken(key: str, one: Any, other: Any, refused: str = "") -> Place:
    """Return a place: a variable taken by a first step, used by a second."""
    over = {
        "requests": {"log-in": {"get": "http://store/in", "take": {"token": {}}}, "use": {"get": "http://store/${token}"}},
        "traffic": {"load": {"request": None, "scenario": ["log-in", "use"]}},
    }  # fmt: skip
    return Place(("requests", "log-in", "take", "token", key), one, other, refused, over)


def load(key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of the closed group."""
    return Place(("traffic", "load", key), one, other, refused, {"traffic": {"load": more}})


def group(kind: str, key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of a group of another executor."""
    return load(key, one, other, refused, vus=None, executor=kind, **more)


def step(key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of a step before each trial."""
    fill = {"executor": "shared-iterations", "iterations": 5, "request": "GET http://store/in"}
    groups = {"fill": fill} if "fill" in (one, more.get("populate")) else {}
    over = {"before_trial": [more], "traffic": groups}
    return Place(("before_trial", 0, key), one, other, refused, over)


def fault(key: str, one: Any, other: Any, refused: str = "", **more: Any) -> Place:
    """Return a place: a key of a planned fault."""
    return Place(("faults", 0, key), one, other, refused, {"faults": [more]})


def limit(path: tuple[str, ...], one: Any, other: Any, refused: str = "") -> Place:
    """Return a place: a limit that a planned fault sets, of a service with a link."""
    written: dict[str, Any] = {path[0]: {}} if len(path) > 1 else {}
    lab = {"own": {"link": {"rate": "1 GB/s", "latency": "1 ms"}}}
    over = {"lab": lab, "faults": [{"at": "1s", "limit": {"own": written}}]}
    return Place(("faults", 0, "limit", "own", *path), one, other, refused, over)


def top(key: str, one: Any, other: Any, refused: str) -> Place:
    """Return a place: a section of the study."""
    return Place((key,), one, other, refused)


COMPARED = {"factor": "users", "baseline": "1", "metric": "response.p50"}
USERS = {"factors": {"users": [1, 2]}, "traffic": {"load": {"vus": "${users}"}}}


def compared(key: str, one: Any, other: Any, refused: str = READ_BEFORE) -> Place:
    """Return a place: a key of a comparison."""
    return Place(("compare", 0, key), one, other, refused, {**USERS, "compare": [dict(COMPARED)]})


STAGES = [{"duration": "1s", "target": 5}]
RATES = [{"duration": "1s", "target": "50/s"}]
LOGNORMAL = {"lognormal": {"median": "1 KiB", "p99": "9 KiB"}}
THINK = {"lognormal": {"median": "10 ms", "p99": "1s"}}
SIZE = ("data", "things", "size")

PLACES: dict[str, Place] = {
    # the lab
    "Service.kit": Place(("lab", "store", "kit"), "truth", "nginx", over={"lab": {"store": {"role": None, "service_time": None}, "cache": None, "front": None}, "data": None, "feeders": {"thing": {"from": None, "values": ["a"]}}, "requests": {"fetch": {"get": "http://store/${thing.value}"}}}, refused="role"),
    "Service.run": Place(("lab", "own", "run"), "./a ${port}", "./b ${port}"),
    "Service.ready": Place(("lab", "own", "ready"), "GET /a", "GET /b"),
    "Service.at": Place(("lab", "other", "at"), "http://127.0.0.1:8", "http://127.0.0.1:9"),
    "Service.* option": Place(("lab", "store", "service_time"), "1 ms", "2 ms"),
    "Service.* nested": Place(("lab", "own", "environment", "A"), "1", "2", over={"lab": {"own": {"environment": {"A": "0"}}}}),
    "Service.* needs": Place(("lab", "own", "needs"), ["store"], ["cache"]),
    "Service.* replicas": Place(("lab", "own", "replicas"), 1, 3),
    "Service.* build": Place(("lab", "own", "build"), {"make": "a"}, {"make": "b"}),
    "Service.* ports": Place(("lab", "own", "ports"), ["a"], ["a", "b"]),
    "Service.* files": Place(("lab", "own", "files"), {"a": "1 kB"}, {"a": "2 kB"}),
    "Service.* cpus": Place(("lab", "own", "cpus"), 0.5, 1.0),
    # data
    "Objects.in": Place(("data", "things", "in"), "store", "second", over={"lab": {"second": {"kit": "truth", "role": "store"}}}),
    "Objects.accounts": Place(("data", "things", "accounts"), 1, 2),
    "Objects.containers": Place(("data", "things", "containers"), 1, 2),
    "Objects.count": Place(("data", "things", "count"), 10, 20),
    "Objects.content": Place(("data", "things", "content"), "random", "jpeg"),
    "Objects.size": Place(SIZE, "1 KiB", LOGNORMAL),
    "ConstantSize.constant": Place(SIZE, "1 KiB", "2 KiB"),
    "UniformSize.uniform": Place((*SIZE, "uniform"), ["1 KiB", "2 KiB"], ["1 KiB", "3 KiB"], "expected a list", {"data": {"things": {"size": {}}}}),
    "UniformSize.uniform end": Place((*SIZE, "uniform", 1), "2 KiB", "3 KiB", over={"data": {"things": {"size": {"uniform": ["1 KiB", "2 KiB"]}}}}),
    "LognormalSize.lognormal": Place((*SIZE, "lognormal"), {"median": "1 KiB", "p99": "9 KiB"}, {"median": "2 KiB", "p99": "9 KiB"}, MAPPING, {"data": {"things": {"size": {}}}}),
    **{f"Lognormal.{key}": Place((*SIZE, "lognormal", key), one, other, over={"data": {"things": {"size": LOGNORMAL}}}) for key, one, other in (("median", "1 KiB", "2 KiB"), ("p99", "8 KiB", "9 KiB"))},
    # feeders
    "FeederPart.from": Place(("feeders", "thing", "from"), "things", "more", over={"data": {"more": {"in": "store", "count": 5, "size": "1 KiB"}}}),
    "FeederPart.csv": feeder("csv", "one.csv", "other.csv"),
    "FeederPart.parquet": feeder("parquet", "one.parquet", "other.parquet"),
    "FeederPart.values": feeder("values", ["a"], ["b"], LIST),
    "FeederPart.values one": Place(("feeders", "row", "values", 0), "a", "b", over={"feeders": {"row": {"values": ["", "c"]}}, "requests": {"fetch": {"get": "http://store/${row.value}"}}}),
    "FeederPart.range": feeder("range", [1, 5], [1, 9], LIST),
    "FeederPart.range end": Place(("feeders", "row", "range", 1), 5, 9, over={"feeders": {"row": {"range": [1, 2]}}, "requests": {"fetch": {"get": "http://store/${row.value}"}}}),
    "FeederPart.take": feeder("take", "walk", "random"),
    "FeederPart.offset": feeder("offset", 1, 2),
    "FeederPart.written": Place(("feeders", "object", "written"), "md5", "sha256", over={"feeders": {"object": {}}, "requests": {"fetch": WRITES}}),
    "FeederPart.skew": feeder("skew", 1, 1.5, take="zipf"),
    "FeederPart.hot": feeder("hot", {"rows": 0.1}, {"rows": 0.2}, MAPPING, take="hot"),
    **{f"HotPart.{key}": Place(("feeders", "row", "hot", key), one, other, over={"feeders": {"row": {"values": ["a", "b", "c"], "take": "hot", "hot": {}}}, "requests": {"fetch": {"get": "http://store/${row.value}"}}}) for key, one, other in (("rows", 0.1, 0.2), ("requests", 0.8, 0.9))},
    "FeederPart.when_exhausted": feeder("when_exhausted", "repeat", "stop"),
    # steps before a trial
    "StepPart.when": step("when", {"f": "a"}, {"f": "b"}, MAPPING, reset=["store"]),
    "StepPart.reset": step("reset", ["store"], ["cache"]),
    **{f"StepPart.{key} one": Place(("before_trial", 0, key, 0), "store", "cache", over={"before_trial": [{key: [""]}]}) for key in ("reset", "restart", "drop_cache")},
    "StepPart.warm": Place(("before_trial", 0, "warm"), "thing", "more", over={"before_trial": [{"through": "cache"}], "feeders": {"more": {"from": "things", "take": "random"}}, "requests": {"fetch": {"headers": {"X-More": "${more.path}"}}}}),
    "StepPart.through": step("through", "store", "cache", warm="thing"),
    "StepPart.populate": step("populate", "fill", "load", "a group must be load in all cases"),
    "StepPart.lasts": step("lasts", "5s", "9s", populate="fill"),
    # a request
    "RequestPart.get": asked("get", "http://store/a${thing.path}", "http://cache/a${thing.path}"),
    **{f"RequestPart.{verb}": asked(verb, "http://store/a", "http://store/b", get=None) for verb in ("head", "delete", "options", "post", "put", "patch")},
    "RequestPart.tcp": asked("tcp", "tcp://store", "tcp://cache", get=None, dialogue=[{"send": "x"}]),
    "RequestPart.dialogue": asked("dialogue", [{"send": "x"}], [{"send": "y"}], LIST, get=None, tcp="tcp://store"),
    "RequestPart.body": sent("body", "a", "b"),
    "RequestPart.expect_continue": sent("expect_continue", True, False, body={"random": "1 KiB"}),
    "RequestPart.chunked": sent("chunked", True, False, body={"random": "1 KiB"}),
    "RequestPart.headers": asked("headers", {"X": "1"}, {"X": "2"}, MAPPING),
    "RequestPart.headers one": Place(("requests", "fetch", "headers", "X"), "1", "2", over={"requests": {"fetch": {"headers": {"X": ""}}}}),
    "RequestPart.timeout": asked("timeout", "1s", "2s"),
    "RequestPart.check": asked("check", ["status == 200"], ["status == 201"]),
    "RequestPart.check one": Place(("requests", "fetch", "check", 0), "status == 200", "status == 201", over={"requests": {"fetch": {"check": [""]}}}),
    "RequestPart.take": asked("take", {"t": {"header": "A"}}, {"t": {"header": "B"}}, MAPPING),
    "RequestPart.expect_status": asked("expect_status", 200, 201),
    "RequestPart.follow_redirects": asked("follow_redirects", 1, 2),
    "RequestPart.adds": Place(("requests", "fetch", "adds"), "object", "second", over={"feeders": SETS, "requests": {"fetch": WRITES}}),
    "RequestPart.removes": Place(("requests", "fetch", "removes"), "object", "second", over={"feeders": SETS}),
    **{f"BodyPart.{key}": Place(("requests", "fetch", "body", key), one, other, over={"requests": {"fetch": {"get": None, "post": "http://store/in", "body": {}}}}) for key, one, other in (("text", "a", "b"), ("random", "1 KiB", "2 KiB"), ("file", "one.bin", "other.bin"))},
    **{f"TakePart.{key}": taken(key, "a", "b") for key in ("header", "json", "regex")},
    **{f"RequestPart.{one.name}": asked(one.name, [one.example[0]], [one.example[1]], LIST, get=None, tcp="tcp://store") for one in PROTOCOLS},
    "RequestPart.counts_as": asked("counts_as", 2, 3, get=None, tcp="tcp://store", dialogue=[{"send": "x"}, {"expect": "x"}]),
    "TurnPart.take": Place(("requests", "fetch", "dialogue", 1, "take"), "a", "b", "expected a name", over={"requests": {"fetch": {"get": None, "tcp": "tcp://store", "dialogue": [{"send": "x"}, {"match": "([0-9]+)\\n"}]}}}),
    **{f"TurnPart.{key}": turn(key, "a", "b") for key in ("send", "expect", "match")},
    **{f"TurnPart.{key}": turn(key, "ff", "fe", "hexadecimal") for key in ("send_hex", "expect_hex")},
    "TurnPart.read": turn("read", 1, 2),
    "TurnPart.until_close": turn("until_close", True, False, "expected true or false"),
    "ScenarioStepPart.request": Place(("scenarios", "buy", 0, "request"), "fetch", "GET http://store/else", over={"scenarios": {"buy": [{}, "GET http://store/paid"]}, "traffic": {"load": {"request": None, "scenario": "buy"}}}),
    "ScenarioStepPart.think_time": Place(("scenarios", "buy", 0, "think_time"), "1s", "2s", over={"scenarios": {"buy": [{"request": "fetch"}, "fetch"]}, "traffic": {"load": {"request": None, "scenario": "buy"}}}),
    "SetUpPart.request": Place(("setup", 0, "request"), "fetch", "GET http://store/else", over={"setup": [{}], "requests": {"fetch": {"get": "http://store/in"}}, "feeders": None, "data": None}),
    **{f"SetUpPart.{key}": Place(("setup", 0, key), one, other, over={"setup": [{"request": {"get": "http://store/in", "take": {"t": {"header": "A"}}}}], "requests": {"fetch": {"get": "http://store/${t}"}}}) for key, one, other in (("once", "trial", "vu"), ("renew", "1s", "2s"))},
    # a group
    "GroupPart.when": load("when", {"f": "a"}, {"f": "b"}, MAPPING),
    "GroupPart.request": load("request", "fetch", "GET http://store/else"),
    "GroupPart.scenario": load("scenario", "buy", "pay", request=None) ._replace(over={"scenarios": {"pay": ["GET http://store/paid"]}, "traffic": {"load": {"request": None}}}),
    "GroupPart.mix": load("mix", {"fetch": 1, "buy": 2}, {"fetch": 2, "buy": 1}, MAPPING, request=None),
    "GroupPart.mix one": Place(("traffic", "load", "mix", "fetch"), 1, 2, over={"traffic": {"load": {"request": None, "mix": {"fetch": 1, "buy": 3}}}}),
    "GroupPart.start_when": load("start_when", "first.ramped", "second.ramped")._replace(over={"traffic": {name: {"executor": "constant-vus", "vus": 1, "ramp_up": time, "request": "fetch"} for name, time in (("first", "1s"), ("second", "2s"))}}),
    "GroupPart.source_addresses": load("source_addresses", "127.0.0.2", "127.0.0.3", "expected an IP address"),
    "GroupPart.http2": load("http2", True, False),
    **{f"GroupPart.{one.key}": load(one.key, *written(one), **BESIDE.get(one.key, {})) for one in group_options()},
    "Thinking.think_time": load("think_time", "1s", "2s"),
    "Thinking.pacing": load("pacing", "1s", "2s"),
    **{f"ThinkTimePart.{key}": Place(("traffic", "load", "think_time", key), "1s", "2s", over={"traffic": {"load": {"think_time": {}}}}) for key in ("constant", "exponential")},
    "ThinkTimePart.uniform": Place(("traffic", "load", "think_time", "uniform", 1), "1s", "2s", over={"traffic": {"load": {"think_time": {"uniform": [0, 0]}}}}),
    "ThinkTimePart.lognormal": Place(("traffic", "load", "think_time", "lognormal"), {"median": "1s", "p99": "2s"}, {"median": "1s", "p99": "3s"}, MAPPING, {"traffic": {"load": {"think_time": {}}}}),
    **{f"LognormalTime.{key}": Place(("traffic", "load", "think_time", "lognormal", key), one, other, over={"traffic": {"load": {"think_time": THINK}}}) for key, one, other in (("median", "1 ms", "2 ms"), ("p99", "2s", "3s"))},
    "ClosedGroup.executor": load("executor", "constant-vus", "per-vu-iterations", "needs “iterations”"),
    "ClosedGroup.vus": load("vus", 1, 2),
    "ClosedGroup.ramp_up": load("ramp_up", "1s", "2s"),
    "ClosedGroup.start": load("start", "spread", "together"),
    "IterationsGroup.executor": group("", "executor", "shared-iterations", "per-vu-iterations", iterations=9),
    "IterationsGroup.vus": group("shared-iterations", "vus", 1, 2, iterations=9),
    "IterationsGroup.iterations": group("shared-iterations", "iterations", 8, 9),
    "IterationsGroup.start": group("shared-iterations", "start", "spread", "together", iterations=9),
    "RampingVusGroup.executor": group("", "executor", "ramping-vus", "constant-vus", "Unknown key “stages”", stages=STAGES),
    "RampingVusGroup.stages": group("ramping-vus", "stages", STAGES, [{"duration": "1s", "target": 9}], LIST),
    "RampingVusGroup.start_vus": group("ramping-vus", "start_vus", 1, 2, stages=STAGES),
    "VusStage.duration": Place(("traffic", "load", "stages", 0, "duration"), "1s", "2s", over={"traffic": {"load": {"vus": None, "executor": "ramping-vus", "stages": [{"target": 5}]}}}),
    "VusStage.target": Place(("traffic", "load", "stages", 0, "target"), 1, 2, over={"traffic": {"load": {"vus": None, "executor": "ramping-vus", "stages": [{"duration": "1s"}]}}}),
    "OpenGroup.executor": group("", "executor", "constant-arrival-rate", "ramping-arrival-rate", "“rate” goes with executor", rate="9/s"),
    "OpenGroup.rate": group("constant-arrival-rate", "rate", "8/s", "9/s"),
    "OpenGroup.ramp_up": group("constant-arrival-rate", "ramp_up", "1s", "2s", rate="9/s"),
    "Arriving.max_vus": group("constant-arrival-rate", "max_vus", 8, 9, rate="9/s"),
    "Arriving.arrivals": group("constant-arrival-rate", "arrivals", "constant", "poisson", rate="9/s"),
    "Arriving.on_full": group("constant-arrival-rate", "on_full", "wait", "drop", rate="9/s"),
    "RampingRateGroup.executor": group("", "executor", "ramping-arrival-rate", "ramping-vus", "", stages=[{"duration": "1s", "target": 0}, {"duration": "1s", "target": 0}])._replace(refused="a target above 0"),
    "RampingRateGroup.stages": group("ramping-arrival-rate", "stages", RATES, [{"duration": "1s", "target": "9/s"}], LIST),
    "RampingRateGroup.start_rate": group("ramping-arrival-rate", "start_rate", "1/s", "2/s", stages=RATES),
    "RateStage.duration": Place(("traffic", "load", "stages", 0, "duration"), "1s", "2s", over={"traffic": {"load": {"vus": None, "executor": "ramping-arrival-rate", "stages": [{"target": "5/s"}]}}}),
    "RateStage.target": Place(("traffic", "load", "stages", 0, "target"), "1/s", "2/s", over={"traffic": {"load": {"vus": None, "executor": "ramping-arrival-rate", "stages": [{"duration": "1s"}]}}}),
    # planned faults
    "FaultPart.when": fault("when", {"f": "a"}, {"f": "b"}, MAPPING, at="1s", stop="own"),
    "FaultPart.at": fault("at", "500 ms", "1s", stop="own"),
    "FaultPart.for": fault("for", "100 ms", "200 ms", at="1s", stop="own"),
    **{f"FaultPart.{kind}": fault(kind, "own", "cache", at="1s", **more) for kind, more in (("stop", {}), ("kill", {}), ("pause", {"for": "100 ms"}))},
    "FaultPart.stop one": Place(("faults", 0, "stop", 0), "own", "cache", over={"faults": [{"at": "1s", "stop": [""]}]}),
    "FaultPart.start": Place(("faults", 1, "start"), "own", "cache", over={"faults": [{"at": "1s", "stop": ["own", "cache"]}, {"at": "1500 ms"}]}),
    "FaultPart.limit": fault("limit", {"own": {"cpus": 1}}, {"own": {"cpus": 2}}, MAPPING, at="1s"),
    **{f"LimitsPart.{key}": Place(("faults", 0, "limit", "own", key), one, other, over={"faults": [{"at": "1s", "limit": {"own": {}}}]}) for key, one, other in (("cpus", 0.5, 1.0), ("memory", "64 MiB", "1 GiB"), ("pids", 20, 30))},
    **{f"LimitsPart.{key}": limit((key,), {name: one}, {name: other}, MAPPING) for key, name, one, other in (("disk_rate", "read", "1 MB/s", "2 MB/s"), ("link", "rate", "1 MB/s", "2 MB/s"))},
    **{f"DiskRatePart.{way}": limit(("disk_rate", way), "1 MB/s", "2 MB/s") for way in ("read", "write")},
    **{f"LinkPart.{key}": limit(("link", key), one, other) for key, one, other in (("rate", "1 MB/s", "2 MB/s"), ("latency", "5 ms", "6 ms"))},
    # durations, and criteria
    "MeasurePart.duration": Place(("measure", "duration"), "1s", "2s"),
    "MeasurePart.replicates": Place(("measure", "replicates"), 1, 2),
    "MeasurePart.order": Place(("measure", "order"), "as-listed", "randomised-blocks", "the order within a block is the same"),
    "MeasurePart.until": Place(("measure", "until"), "± 5 %", "± 10 %", "it applies to comparisons, which need several cases"),
    "MeasurePart.at_most": Place(("measure", "at_most"), 12, 24, "a block holds all its cases"),
    "MeasurePart.bring_ups": Place(("measure", "bring_ups"), 1, 2, "a bring-up holds blocks with all their cases"),
    "MeasurePart.control": Place(("measure", "control"), False, True, "a control takes part in all sets"),
    "MeasurePart.awake": Place(("measure", "awake"), True, False),
    "ThresholdPart.that": Place(("thresholds", 0, "that"), "response.p50 < 1s", "response.p50 < 2s", over={"thresholds": [{}]}),
    "ThresholdPart.when": Place(("thresholds", 0, "when"), {"f": "a"}, {"f": "b"}, MAPPING, {"thresholds": [{"that": "response.p50 < 1s"}]}),
    "ExclusionPart.when": Place(("exclude", 0, "when"), {"users": 1}, {"users": 2}, MAPPING, {**USERS, "exclude": [{"because": "x"}]}),
    "ExclusionPart.because": Place(("exclude", 0, "because"), "x", "y", READ_BEFORE, {**USERS, "exclude": [{"when": {"users": 1}}]}),
    **{f"ComparisonPart.{key}": compared(key, one, other) for key, one, other in (("name", "x", "y"), ("factor", "users", "f"), ("baseline", "1", "2"), ("metric", "response.p50", "throughput"), ("by", "f", "f"))},
    "ComparisonPart.per": compared("per", "case", "contrast", "expected one of contrast, case"),
    "ComparisonPart.when": compared("when", {"f": "a"}, {"f": "b"}, MAPPING),
    "ComparisonPart.fail_if": compared("fail_if", "worse by more than 5 %", "worse by more than 6 %", "more than a number of percent"),
    # the study
    "StudyFile.name": top("name", "a", "b", "a letter or digit"),
    "StudyFile.question": top("question", "a", "b", READ_BEFORE),
    "StudyFile.seed": top("seed", 1, 2, "expected a whole number"),
    "StudyFile.case_names": top("case_names", "one.csv", "other.csv", READ_BEFORE),
    "StudyFile.tuning": Place(("tuning",), "one", "other", over={"sets": {"one": {"lab": {"store": {"service_time": "1 ms"}}}, "other": {"lab": {"store": {"service_time": "2 ms"}}}}}),
    "StudyFile.profile": Place(("profile",), "store", "cache"),
    "StudyFile.sysctl value": Place(("sysctl", "net.core.somaxconn"), 100, 200, over={"lab": {"other": None}, "sysctl": {}}),
    "SetPart.lab": Place(("sets", "one", "lab"), {}, {}, MAPPING, {"tuning": "one", "sets": {"one": {}}}),
    "SetPart.lab option": Place(("sets", "one", "lab", "store", "service_time"), "1 ms", "2 ms", over={"tuning": "one", "sets": {"one": {"lab": {"store": {}}}}}),
    "SetPart.sysctl": Place(("sets", "one", "sysctl", "net.core.somaxconn"), 100, 200, over={"lab": {"other": None}, "tuning": "one", "sets": {"one": {"sysctl": {}}}}),
    **{f"StudyFile.{key}": top(key, {}, {}, MAPPING) for key in ("sysctl", "sets")},
    **{f"StudyFile.{key}": top(key, {}, {}, MAPPING) for key in ("lab", "data", "feeders", "requests", "scenarios", "traffic", "measure", "profiles", "secrets")},
    **{f"StudyFile.{key}": top(key, [], [], LIST) for key in ("exclude", "before_trial", "faults", "setup", "compare", "thresholds", "abort_if")},
    "StudyFile.factors": Place(("factors", "g"), 1, 2, "a list of levels"),
}  # fmt: skip
