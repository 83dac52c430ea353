"""The study behind `svload load URL`: one service, group and trial; then treated as any other study. Pure.

`QuickLoad` is what was typed; `quick_study` makes a study of it. Contradictions are rejected in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any
from urllib.parse import urlsplit

from svload.model.errors import SvloadError, fail
from svload.model.options import flagged
from svload.model.units import parse_quantity, show_duration
from svload.model.unix_url import split_unix_url
from svload.model.visible import is_decoded
from svload.study.k6 import study_criterion

DEFAULT_VUS = 64
LASTS, WORK_LASTS_AT_MOST = "10s", "10min"
"""The duration without --duration, and the longest duration with --requests (k6's maxDuration)."""
LEAST_S = 0.01
"""Shorter loads hold a few requests at most: their rate would mean nothing."""
CA_FILE, BODY_FILE = "ca.pem", "body"
"""Names of the command line's files beside the study."""
METHODS = ("GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "PATCH")
WITH_BODY = ("POST", "PUT", "PATCH")
FRAMING = ("content-length", "transfer-encoding", "expect")
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):\s*(.*?)\s*")
_HARMLESS = frozenset(
    {
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "connection", "content-encoding",
        "content-language", "content-type", "host", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
        "pragma", "range", "te", "user-agent", *FRAMING,
    }
)  # fmt: skip
"""Headers whose values may be stored; any other may contain credentials, whatever its name."""
_WORDS = ("request", "vu", "iteration", "port")
"""Names that a study reserves."""
TIMEOUT = "30s"
"""Timeout of a request, if none is given."""
_STAGE = re.compile(r"(?P<lasts>[^:]+):(?P<target>[0-9._]+)\s*(?P<rate>/s)?")


@dataclass(frozen=True)
class QuickLoad:
    """The options of one URL. Times are texts with their unit, rates are requests per second; None or () is
    the default."""

    url: str
    vus: int | None = None
    rate_rps: float | None = None
    max_vus: int | None = None
    requests: int | None = None
    duration: str | None = None
    stages: tuple[str, ...] = ()
    ramp_up: str | None = None
    think_time: str | None = None
    method: str | None = None
    headers: tuple[str, ...] = ()
    data: str | None = None
    has_data_file: bool = False
    timeout: str | None = None
    follow_redirects: int = 0
    keep_alive: bool = True
    http2: bool = False
    streams: int = 1
    generators: int = 1
    on_full: str | None = None
    arrivals: str | None = None
    spin: str | None = None
    pacing_quantum: str | None = None
    awake: bool = False
    has_ca_file: bool = False
    insecure: bool = False
    connect_to: str | None = None
    thresholds: tuple[str, ...] = ()
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of a traffic group that have no field here, by their key in the study file."""

    @property
    def open_loop(self) -> bool:
        """Return whether arrivals come at a rate, whatever the server does."""
        return self.rate_rps is not None or any(stage.rstrip().endswith("/s") for stage in self._stages)

    @property
    def lasts_s(self) -> float:
        """Return the measured time in s, without ramps. Raises SvloadError usage."""
        if self._stages:
            return sum(_time_s(_stage(stage)["lasts"], "--stage") for stage in self._stages)
        default = WORK_LASTS_AT_MOST if self.requests is not None else LASTS
        return _time_s(self.duration or default, "--duration")

    @property
    def peak_rps(self) -> float | None:
        """Return the highest requested rate; None in a closed loop."""
        if not self.open_loop:
            return None
        return max([self.rate_rps or 0.0, *(_number(_stage(stage)["target"]) for stage in self._stages)])

    @property
    def verb(self) -> str:
        """Return the method: as given, else POST with a body and GET without."""
        return (self.method or ("POST" if self._has_body else "GET")).upper()

    @property
    def _has_body(self) -> bool:
        return self.data is not None or self.has_data_file

    @property
    def _stages(self) -> tuple[str, ...]:
        return tuple(part.strip() for text in self.stages for part in text.split(","))

    def check(self) -> None:
        """Raise SvloadError usage with one sentence for the first contradiction."""
        for wrong, reason, hint in (*self._load_slips(), *self._request_slips()):
            if wrong:
                raise fail("usage", reason=reason, hint=hint)
        for option, text in (
            ("--timeout", self.timeout),
            ("--think-time", self.think_time),
            ("--ramp-up", self.ramp_up),
        ):
            if text is not None:
                _time_s(text, option)
        if self.lasts_s < LEAST_S:
            duration = f"--duration {self.duration}" if self.duration else f"--stage {','.join(self.stages)}"
            raise _wrong(f"{duration} is too short to measure", f"Take {show_duration(LEAST_S)} or more.")
        if self.timeout is not None and _time_s(self.timeout, "--timeout") <= 0:
            raise _wrong(f"--timeout {self.timeout} leaves no time for an answer", "Write it like 5s.")
        names = [header_of(header)[0] for header in self.headers]
        lower = [name.lower() for name in names]
        for name in names:
            if lower.count(name.lower()) > 1:
                raise _wrong(f"the header {name} is given twice", "Combine its values, as in “A: b, c”.")
            if self._has_body and name.lower() in FRAMING:
                raise _wrong(f"the header {name} follows from the body", "Leave it out.")
        for threshold in self.thresholds:
            study_criterion(threshold)
        if self.stages:
            self._check_stages()

    def _load_slips(self) -> tuple[tuple[bool, str, str], ...]:
        rate, closed = self.rate_rps, not self.open_loop
        at_once = f"Write --max-vus {self.vus}, the most requests in progress at once."
        return (
            (rate is not None and not 0 < rate < inf, "--rate takes a number above 0", "Write it like --rate 500."),
            (rate is not None and self.vus is not None, "--rate is an open loop and can't be combined with --vus (-c)", at_once),
            (self.requests is not None and not closed, "--requests needs users, not --rate", "Leave one of them out."),
            (self.requests is not None and bool(self.stages), "--requests and --stage both say when to stop", "Leave one of them out."),
            (self.duration is not None and bool(self.stages), "--duration and --stage both say when to stop", "The stages' durations add up; leave --duration out."),
            (self.ramp_up is not None and (bool(self.stages) or self.requests is not None), "--ramp-up can't be combined with --stage or --requests", "Use --stage for ramps."),
            (self.think_time is not None and not closed, "--think-time applies to users, and an open loop has none", "Leave it out, or use --vus."),
            (self.max_vus is not None and closed, "--max-vus applies to an open loop", "Use --vus, or add --rate."),
            (self.pacing_quantum is not None and closed and not (self.think_time or self.stages), "--pacing-quantum needs scheduled starts, but these users send without a pause", "Add --think-time, or use --rate."),
            (self.on_full is not None and closed, "--on-full applies to an open loop", "Leave it out, or add --rate."),
            (self.arrivals is not None and closed, "--arrivals applies to an open loop", "Leave it out, or add --rate."),
            (closed and not self.stages and self.generators > self.users, f"--generators {self.generators} can't share {self.users} users", "Use at most one generator per user."),
            (self.max_vus is not None and self.generators > self.max_vus, f"--generators {self.generators} can't share {self.max_vus} VUs", "Set --max-vus to at least --generators."),
        )  # fmt: skip

    def _request_slips(self) -> tuple[tuple[bool, str, str], ...]:
        # A redirect may lead to HTTPS.
        tls = is_https(self.url) or self.follow_redirects > 0
        known = ", ".join(METHODS)
        return (
            (self.streams > 1 and not self.http2, f"--streams {self.streams} needs HTTP/2", "Add --http2."),
            (self.streams > 1 and not self.keep_alive, f"--streams {self.streams} share a connection, but --no-keepalive opens one per request", "Leave one of them out."),
            (any(sign.isspace() for sign in self.url), f"the URL “{self.url}” holds a space", "Write it as %20."),
            (not is_decoded(self.url), "the URL is not UTF-8 text", "Write each byte as %XX."),
            (self.verb not in METHODS, f"--method takes {known}, not “{self.method}”", ""),
            (self.data is not None and self.has_data_file, "--data and --data-file can't be combined", "Leave one of them out."),
            (self._has_body and self.verb not in WITH_BODY, f"{self.verb} can't have a body", f"Use --method {', '.join(WITH_BODY)}."),
            ((self.data or "").startswith("@"), f"--data {self.data} is not read as a file", f"Write --data-file {(self.data or '')[1:]}."),
            (self.insecure and self.has_ca_file, "--insecure verifies nothing, so --cacert has no effect", "Leave one of them out."),
            (self.insecure and not tls, "--insecure applies to HTTPS, but the URL is http", "Leave it out, or write https://."),
            (self.has_ca_file and not tls, "--cacert applies to HTTPS, but the URL is http", "Leave it out, or write https://."),
        )  # fmt: skip

    def _check_stages(self) -> None:
        kinds = {bool(_stage(stage)["rate"]) for stage in self._stages}
        if len(kinds) == 2:
            raise _wrong("the stages mix users and rates", "Write /s after every target, or after none.")
        if self.rate_rps is not None and kinds == {False}:
            raise _wrong("--rate starts stages of a rate, but these are of users", "Write 30s:500/s.")
        if self.vus is not None and kinds == {True}:
            raise _wrong("--vus starts stages of users, but these are of a rate", "Use --rate.")
        targets = [_number(_stage(stage)["target"]) for stage in self._stages]
        if kinds == {False} and any(target % 1 for target in targets):
            raise _wrong("a stage needs a whole number of users", "Write it like 30s:100.")
        if not any([*targets, self.vus, self.rate_rps]):
            raise _wrong("no stage has any load", "Give at least one a target above 0.")
        if self.generators > max([*targets, float(self.vus or 0)]) and kinds == {False}:
            raise _wrong(f"--generators {self.generators} can't share so few users", "Use at most one per user.")  # fmt: skip

    @property
    def users(self) -> int:
        """Return the users of a closed loop without stages: no more than requests."""
        return min(self.vus or DEFAULT_VUS, self.requests or self.vus or DEFAULT_VUS)

    def group(self) -> dict[str, Any]:
        """Return the traffic group, as a study file has it."""
        written: dict[str, Any] = {
            "think_time": self.think_time,
            "ramp_up": self.ramp_up,
            "max_vus": self.max_vus,
            "on_full": self.on_full,
            "arrivals": self.arrivals,
            "generators": self.generators if self.generators > 1 else None,
            "connection": None if self.keep_alive else "new",
            "http2": True if self.http2 else None,
            "streams": self.streams if self.streams > 1 else None,
        }
        written |= {one.key: self.option(one.key) for one in flagged()}
        return self._executor() | {key: value for key, value in written.items() if value is not None}

    def option(self, key: str) -> Any:
        """Return the typed value of a traffic group's option that has a flag; None: not given."""
        return self.options.get(key, getattr(self, key, None))

    def _executor(self) -> dict[str, Any]:
        if self.stages:
            stages = [_stage(stage) for stage in self._stages]
            if self.open_loop:
                rates = [{"duration": one["lasts"], "target": f"{one['target']}/s"} for one in stages]
                return {
                    "executor": "ramping-arrival-rate",
                    "stages": rates,
                    "start_rate": f"{self.rate_rps or 0!r}/s",
                }
            users = [{"duration": one["lasts"], "target": round(_number(one["target"]))} for one in stages]
            return {"executor": "ramping-vus", "stages": users, "start_vus": self.vus or 0}
        if self.requests is not None:
            return {"executor": "shared-iterations", "vus": self.users, "iterations": self.requests}
        if self.rate_rps is not None:
            return {"executor": "constant-arrival-rate", "rate": f"{self.rate_rps!r}/s"}
        return {"executor": "constant-vus", "vus": self.users}

    def request(self, path: str) -> dict[str, Any]:
        """Return the request, as a study file has it."""
        written: dict[str, Any] = {self.verb.lower(): path, "timeout": self.timeout or TIMEOUT}
        if self.headers:
            written["headers"] = {
                name: f"${{secret.{secret}}}" if secret else literal(value)
                for name, (value, secret) in self._headers.items()
            }
        if self._has_body:
            written["body"] = {"file": BODY_FILE} if self.data is None else {"text": literal(self.data)}
        if self.follow_redirects:
            written["follow_redirects"] = self.follow_redirects
        return written

    @property
    def _headers(self) -> dict[str, tuple[str, str]]:
        """Return name → its value, and its name in the study if the value is not stored; else empty."""
        found: dict[str, tuple[str, str]] = {}
        names: set[str] = set()
        for name, value in map(header_of, self.headers):
            secret = "" if name.lower() in _HARMLESS or not value else _secret_name(name, names)
            names.add(secret)
            found[name] = value, secret
        return found

    @property
    def secrets(self) -> dict[str, tuple[str, str]]:
        """Return values of headers not known to be harmless: name → (the environment variable for it, its
        value)."""
        return {
            secret: (f"LOAD_{secret.upper()}", value) for value, secret in self._headers.values() if secret
        }

    def server(self, origin: str) -> dict[str, Any]:
        """Return the server, as a study's lab has it."""
        written: dict[str, Any] = {
            "at": origin,
            "ca_file": CA_FILE if self.has_ca_file else None,
            "connect_to": self.connect_to,
            "verify": False if self.insecure else None,
        }
        return {key: value for key, value in written.items() if value is not None}


def quick_study(ask: QuickLoad) -> str:
    """Return the text of the study for `ask`. Raises SvloadError usage for contradictions."""
    return study_text(study_of(ask))


def study_text(study: Mapping[str, Any]) -> str:
    """Return a study as the text of its file."""
    return json.dumps(study, ensure_ascii=False, indent=1) + "\n"


def study_of(ask: QuickLoad) -> dict[str, Any]:
    """Return the study for `ask`, as plain data. Raises SvloadError usage for contradictions."""
    ask.check()
    parts = urlsplit(_url(ask.url))
    at = f"{parts.scheme}://{parts.netloc}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if local := split_unix_url(_url(ask.url)):
        at, path = local.server, local.path
    return {
        "name": "load",
        "question": literal(f"How does {ask.url} answer?"),
        "lab": {"server": ask.server(at)},
        **(
            {"secrets": {name: variable for name, (variable, _) in ask.secrets.items()}}
            if ask.secrets
            else {}
        ),
        "requests": {"get": ask.request(f"{parts.scheme}://server{literal(path)}")},
        "traffic": {"load": ask.group() | {"request": "get"}},
        "measure": {"duration": f"{ask.lasts_s!r}s", "replicates": 1}
        | ({"awake": True} if ask.awake else {}),
        "thresholds": [study_criterion(threshold) for threshold in ask.thresholds],
    }


def header_of(text: str) -> tuple[str, str]:
    """Return name and value of `Name: value`. Raises SvloadError usage."""
    match = _HEADER.fullmatch(text)
    if not match:
        raise _wrong(f"“{text}” is not a header", "Write “Name: value”.")
    return match[1], match[2]


def _secret_name(header: str, taken: Collection[str]) -> str:
    """Return a name for it that a study accepts, different from those in `taken`."""
    name = re.sub(r"[^a-z0-9]", "_", header.lower())
    name = name if name[:1].isalpha() and name not in _WORDS else f"header_{name}"
    while name in taken:
        name += "_"
    return name


def _url(text: str) -> str:
    return text if "://" in text else f"http://{text}"


def is_https(url: str) -> bool:
    """Return whether requests to a URL as typed use TLS."""
    return _url(url).startswith("https:")


def literal(text: str) -> str:
    """Return `text` escaped for a study: a `${` typed by the user is not a reference."""
    return text.replace("${", "$${")


def _stage(text: str) -> dict[str, str]:
    match = _STAGE.fullmatch(text)
    if not match:
        raise _wrong(f"“{text}” is not a stage", "Write 30s:100 for users, 30s:500/s for a rate.")
    _number(match["target"])
    return {"lasts": match["lasts"].strip(), "target": match["target"], "rate": match["rate"] or ""}


def _number(text: str) -> float:
    try:
        return parse_quantity(text, "count")
    except ValueError as why:
        raise _wrong(f"“{text}” is not a number", "Write a stage like 30s:100.") from why


def _time_s(text: str, option: str) -> float:
    try:
        return parse_quantity(text, "time_s")
    except ValueError as why:
        hint = "Write it like 10s or 2h."
        if option == "--duration" and text[:1] in "{[\"'@<":
            hint = "For a request's body, use --data."
        raise _wrong(f"{option} {text}: {why}", hint) from why


def _wrong(reason: str, hint: str) -> SvloadError:
    return fail("usage", reason=reason, hint=hint)
