"""Load as a case asks for it, every `${…}` resolved except those only a request can know (feeder rows, request.id)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from svload.model.base import Frozen
from svload.model.distributions import lognormal_mean
from svload.model.executors import Executor, FixedWork, ThinkTime
from svload.model.options import GroupOptions

ROWS_UP_TO_RPS = 1000.0
"""Every request is a row for `client: curl`, up to this rate, and of work up to this:"""
ROWS_UP_TO = 100_000


class Text(Frozen):
    """A literal part of a template."""

    text: str


class Value(Frozen):
    """A part that is encoded for its place in the request; a `raw` one is sent as it is."""

    raw: bool = False


class FeederPart(Value):
    """A column of the feeder's current row."""

    feeder: str
    column: str


class VarPart(Value):
    """A value that each request has: `request.id`, `vu`, `iteration`."""

    var: Literal["request.id", "vu", "iteration"]


class TakenPart(Value):
    """A variable that an earlier answer gave."""

    taken: str


Part = Text | FeederPart | VarPart | TakenPart
Template = tuple[Part, ...]


class StatusCheck(Frozen):
    """The answer's status lies in [low, high]."""

    name: str
    status: tuple[int, int]


class SizeCheck(Frozen):
    """The body's size is this many bytes, this column's value, or that of a written object."""

    name: str
    size_bytes: int | FeederPart | TakenPart


class TextTest(Frozen):
    """What a text of the answer must be; exactly one is set. `matches` is a regular
    expression that matches somewhere."""

    present: Literal[True] | None = None
    equals: Template | None = None
    contains: Template | None = None
    matches: str | None = None


class HeaderCheck(Frozen):
    """The answer has this header, and its value passes the test."""

    name: str
    header: str
    test: TextTest


class BodyCheck(Frozen):
    """The body (its first MiB) passes the test."""

    name: str
    body: TextTest


class DigestCheck(Frozen):
    """The digest of the whole body, as hexadecimal digits."""

    name: str
    digest: Literal["sha256", "md5"]
    equals: Template


Check = StatusCheck | SizeCheck | HeaderCheck | BodyCheck | DigestCheck


class Take(Frozen):
    """A variable and where in an answer it stands; one of header, json (a path), regex (of the body) is set."""

    name: str
    header: str | None = None
    json_path: str | None = None
    regex: str | None = None


class SizeLaw(Frozen):
    """How long generated bodies are; exactly one is set. `lognormal` is (median, p99)."""

    constant: int | None = None
    uniform: tuple[int, int] | None = None
    lognormal: tuple[int, int] | None = None

    @property
    def mean_bytes(self) -> float:
        if self.uniform:
            return sum(self.uniform) / 2
        if self.lognormal:
            return lognormal_mean(*self.lognormal)
        return float(self.constant or 0)


class Body(Frozen):
    """What a request carries; exactly one is set. `file` is an absolute path."""

    text: Template | None = None
    random: SizeLaw | None = None
    file: str | None = None


class Turn(Frozen):
    """A turn of a raw dialogue; exactly one is set, and `take` only beside `match`.

    `send` and `send_hex` (pairs of hexadecimal digits) leave; `expect`, `expect_hex` (a literal) and `match`
    (a regular expression over bytes) must come, what comes before them is passed over; `read` takes so many
    bytes, `until_close` all until the peer ends. `take` names the variable that the match's first group is; a
    `read` whose length varies is a text that is a number.
    """

    send: Template | None = None
    send_hex: str | None = None
    expect: str | None = None
    expect_hex: str | None = None
    match: str | None = None
    read: int | Template | None = None
    until_close: bool = False
    take: str | None = None


class Commands(Frozen):
    """Commands of one of `model.protocols`, each a list of words; they leave together, and each has one reply."""

    protocol: str
    commands: tuple[tuple[Template, ...], ...] = Field(min_length=1)


class Request(Frozen):
    """One named request. `host` is a service's name or an address; `scheme` http or
    https, of a raw dialogue tcp or tls.

    Where variables make the address, `url` stands in place of scheme, host and path, which are empty.
    `dialogue` or `commands` stands in place of all that is HTTP's; `counts_as` is how many requests its
    server counts for one of these.

    What it uploads becomes a row of the set `adds`. It asks for a row of the set `draws`,
    which `removes` takes out of it.
    """

    name: str
    method: str = "GET"
    scheme: str
    host: str
    path: Template
    url: Template | None = None
    headers: tuple[tuple[str, Template], ...] = ()
    body: Body | None = None
    expect_continue: bool = False
    chunked: bool = False
    timeout_ns: int = 30_000_000_000
    expect_status: tuple[tuple[int, int], ...] = ((200, 399),)
    checks: tuple[Check, ...] = ()
    take: tuple[Take, ...] = ()
    follow_redirects: int = 0
    dialogue: tuple[Turn, ...] = ()
    commands: Commands | None = None
    counts_as: int = 1
    adds: str | None = None
    draws: str | None = None
    removes: bool = False

    @property
    def is_raw(self) -> bool:
        """Whether it speaks another protocol than HTTP."""
        return bool(self.dialogue) or self.commands is not None

    @property
    def takes(self) -> tuple[str, ...]:
        """The variables that it sets: while it is under way, and from its answer."""
        return (*self.takes_under_way, *(take.name for take in self.take))

    @property
    def written(self) -> str | None:
        """The set of written objects that it adds to or asks of."""
        return self.adds or self.draws

    @property
    def takes_under_way(self) -> tuple[str, ...]:
        """The variables that its own later turns may use."""
        return tuple(turn.take for turn in self.dialogue if turn.take)

    @property
    def endpoint(self) -> str:
        """The key of the share's endpoint table: `scheme://host`."""
        return f"{self.scheme}://{self.host}"

    @property
    def secure(self) -> bool:
        """Whether its connections have a TLS session."""
        return self.scheme in ("https", "tls")

    @property
    def goes_anywhere(self) -> bool:
        """Whether answers may lead it to any address of the lab."""
        return self.url is not None or self.follow_redirects > 0

    @property
    def ends_connection(self) -> bool:
        """Whether its own end is the connection's."""
        return bool(self.dialogue) and self.dialogue[-1].until_close

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part that varies or not: of address, headers, body, dialogue and checks."""
        texts: list[Template] = [self.path, self.url or (), *(value for _, value in self.headers)]
        texts.append((self.body and self.body.text) or ())
        texts += [turn.send for turn in self.dialogue if turn.send]
        texts += [turn.read for turn in self.dialogue if isinstance(turn.read, tuple)]
        texts += [word for words in (self.commands.commands if self.commands else ()) for word in words]
        for check in self.checks:
            if isinstance(check, SizeCheck):
                texts.append(() if isinstance(check.size_bytes, int) else (check.size_bytes,))
            elif isinstance(check, DigestCheck):
                texts.append(check.equals)
            elif not isinstance(check, StatusCheck):
                test = check.test if isinstance(check, HeaderCheck) else check.body
                texts.append(test.equals or test.contains or ())
        return tuple(part for text in texts for part in text)


TakeRows = Literal["first", "walk", "sequential", "unique", "random", "zipf", "hot", "vu"]


class Feeder(Frozen):
    """Rows for iterations: which table of inputs/, and how it is walked. `offset` is
    between the begins of two VUs' walks.

    `skew` is the exponent of zipf; `hot` the share of the rows that is hot, and the share of
    the requests that ask for these.
    """

    name: str
    table: str
    take: TakeRows = "walk"
    offset: int | None = None
    skew: float | None = None
    hot: tuple[float, float] | None = None
    when_exhausted: Literal["repeat", "stop"] = "repeat"


class WrittenSet(Frozen):
    """Objects that requests write, as rows for other requests. `table` holds those that are there at first;
    `digest` is taken of what is sent."""

    name: str
    digest: Literal["md5", "sha256"] = "md5"
    table: str | None = None


class TableSource(Frozen):
    """A table of the study's own: a CSV or Parquet file (an absolute path), a list, or a
    range [from, to] of whole numbers."""

    name: str
    csv: str | None = None
    parquet: str | None = None
    values: tuple[str, ...] | None = None
    numbers: tuple[int, int] | None = None


class Step(Frozen):
    """A request of a scenario, and the pause between its end and the due time of the step after it."""

    name: str
    request: Request
    think_time: ThinkTime = ThinkTime(constant_ns=0)


class Scenario(Frozen):
    """Steps in order; of several an iteration takes one by `weight`.

    With `renew_ns` it is no part of the mix: an iteration begins with it where the user's last one is so
    long ago, or an answer was 401.
    """

    name: str
    weight: int = Field(default=1, ge=0)
    renew_ns: int | None = None
    steps: tuple[Step, ...] = Field(min_length=1)


class SetUp(Frozen):
    """A request before the load whose variables its groups use: once a trial, or once for each
    VU of the group that uses them.

    `renew_ns`: each user asks it again after so long, and after a 401.
    """

    request: Request
    once: Literal["trial", "vu"] = "trial"
    renew_ns: int | None = None


Http2 = bool | Literal["preferred"]
"""Whether HTTP/2 is spoken; preferred: the server may choose HTTP/1.1."""


class Group(Frozen, GroupOptions):  # type: ignore[misc]  # frozen as its options are, by its model_config
    """One traffic group of a case, with the options of `model.options`. An iteration is one `request`, or the
    steps of one of `scenarios`. `start_when` names the group whose ramp must have ended first.

    Over HTTP/2 `streams` users (or requests at once) share a connection; `preferred`: a server may choose HTTP/1.1.

    `graceful_stop_ns` is how long what is due by the end is followed; None: until its time-out. Connections
    leave from `source_addresses` in turn; empty: from where the kernel says. `close: reset` ends them with
    RST, which leaves no port in TIME_WAIT.

    What waits for its time begins only at multiples of `pacing_quantum_ns` from the trial's start (0: when
    due); due times stay exact, so the wait is generator lag.
    """

    name: str
    executor: Executor
    request: Request
    scenarios: tuple[Scenario, ...] = ()
    start_when: str | None = None
    source_addresses: tuple[str, ...] = ()
    http2: Http2 = False

    def connections(self, slots: int) -> int:
        """How many connections so many users, or requests at once, share."""
        return -(-slots // self.streams)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps of all scenarios, as results number them; a request alone is the only one."""
        alone = (Step(name=self.request.name, request=self.request),)
        return tuple(step for scenario in self.scenarios for step in scenario.steps) or alone

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests of all steps."""
        return tuple(step.request for step in self.steps)

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that its requests name; where variables make an address, the empty one is among them."""
        return frozenset(request.host for request in self.requests)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`scheme://host` of its requests, each once; what variables make is not among them."""
        return tuple(dict.fromkeys(request.endpoint for request in self.requests if request.url is None))

    @property
    def longest_timeout_ns(self) -> int:
        """The longest time-out of its requests: what a failure counts in a mean."""
        return max(request.timeout_ns for request in self.requests)

    @property
    def longest_iteration_ns(self) -> float:
        """What an iteration takes if every request of it is answered just in time; its think times at their mean."""
        lengths = [
            sum(step.request.timeout_ns + step.think_time.mean_ns for step in scenario.steps)
            for scenario in self.scenarios
        ]
        return max(lengths, default=float(self.request.timeout_ns))

    @property
    def longest_iteration(self) -> int:
        """The most requests that an iteration may have."""
        return max([len(scenario.steps) for scenario in self.scenarios], default=1)

    @property
    def without_ramp(self) -> Group:
        """The same group, whole from its beginning."""
        if not self.executor.ramp_up_ns:
            return self
        return self.model_copy(update={"executor": self.executor.model_copy(update={"ramp_up_ns": 0})})

    @property
    def keeps_rows(self) -> bool:
        """Whether every request becomes a row; histograms alone otherwise."""
        if self.record != "auto":
            return self.record == "rows"
        executor = self.executor
        most = self.longest_iteration
        if isinstance(executor, FixedWork) and executor.work * most <= ROWS_UP_TO:
            return True
        slow = executor.peak_rps is not None and executor.peak_rps * most <= ROWS_UP_TO_RPS
        return self.client == "curl" or slow
