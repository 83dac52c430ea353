"""The load of a case, every `${…}` resolved except those only a request knows (feeder rows, request.id)."""

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
    """A part that is encoded for its place in the request; a `raw` one is sent unchanged."""

    raw: bool = False


class FeederPart(Value):
    """A column of the feeder's current row."""

    feeder: str
    column: str


class VarPart(Value):
    """A value that every request has: `request.id`, `vu`, `iteration`."""

    var: Literal["request.id", "vu", "iteration"]


class TakenPart(Value):
    """A variable taken from an earlier answer."""

    taken: str


Part = Text | FeederPart | VarPart | TakenPart
Template = tuple[Part, ...]


class StatusCheck(Frozen):
    """The answer's status lies in [low, high]."""

    name: str
    status: tuple[int, int]


class SizeCheck(Frozen):
    """The body's size is this many bytes, this column's value, or the size of a written object."""

    name: str
    size_bytes: int | FeederPart | TakenPart


class TextTest(Frozen):
    """A condition on a text of the answer; exactly one field is set. `matches` is a regular expression that
    matches somewhere."""

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
    """A variable and its place in an answer; one of header, json (a path), regex (on the body) is set."""

    name: str
    header: str | None = None
    json_path: str | None = None
    regex: str | None = None


class SizeLaw(Frozen):
    """The length of generated bodies; exactly one field is set. `lognormal` is (median, p99)."""

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
    """The body of a request; exactly one field is set. `file` is an absolute path."""

    text: Template | None = None
    random: SizeLaw | None = None
    file: str | None = None


class Turn(Frozen):
    """A turn of a raw dialogue; exactly one field is set, and `take` only with `match`.

    `send` and `send_hex` (pairs of hexadecimal digits) are sent; `expect`, `expect_hex` (a literal) and
    `match` (a regular expression over bytes) must arrive, and bytes before them are skipped; `read` takes a
    number of bytes, `until_close` all until the peer closes. `take` names the variable for the match's first
    group; a `read` of varying length is a text that contains a number.
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
    """Commands of one of `model.protocols`, each a list of words; sent together, each with one reply."""

    protocol: str
    commands: tuple[tuple[Template, ...], ...] = Field(min_length=1)


class Request(Frozen):
    """One named request. `host` is a service's name or an address; `scheme` is http or https, for a raw
    dialogue tcp or tls.

    If variables form the address, `url` replaces scheme, host and path, which are empty. `dialogue` or
    `commands` replaces everything of HTTP; `counts_as` is how many requests its server counts for one of
    these.

    What it uploads becomes a row of the set `adds`. It requests a row of the set `draws`, from which
    `removes` deletes it.
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
        """Return whether it uses another protocol than HTTP."""
        return bool(self.dialogue) or self.commands is not None

    @property
    def takes(self) -> tuple[str, ...]:
        """Return the variables that it sets: during the request, and from its answer."""
        return (*self.takes_under_way, *(take.name for take in self.take))

    @property
    def written(self) -> str | None:
        """Return the set of written objects that it adds to or reads."""
        return self.adds or self.draws

    @property
    def takes_under_way(self) -> tuple[str, ...]:
        """Return the variables that its own later turns may use."""
        return tuple(turn.take for turn in self.dialogue if turn.take)

    @property
    def endpoint(self) -> str:
        """Return the key of the share's endpoint table: `scheme://host`."""
        return f"{self.scheme}://{self.host}"

    @property
    def secure(self) -> bool:
        """Return whether its connections use TLS."""
        return self.scheme in ("https", "tls")

    @property
    def goes_anywhere(self) -> bool:
        """Return whether answers may lead it to any address of the lab."""
        return self.url is not None or self.follow_redirects > 0

    @property
    def ends_connection(self) -> bool:
        """Return whether its connection ends with it."""
        return bool(self.dialogue) and self.dialogue[-1].until_close

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return every part, constant or not, of address, headers, body, dialogue and checks."""
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
    """Rows for iterations: the table of inputs/, and the order of its rows. `offset` is the distance between
    the first rows of two VUs.

    `skew` is the exponent of zipf; `hot` the share of the rows that is hot, and the share of the requests for
    these.
    """

    name: str
    table: str
    take: TakeRows = "walk"
    offset: int | None = None
    skew: float | None = None
    hot: tuple[float, float] | None = None
    when_exhausted: Literal["repeat", "stop"] = "repeat"


class WrittenSet(Frozen):
    """Objects that requests write, as rows for other requests. `table` holds the initial ones; `digest` is
    computed from what is sent."""

    name: str
    digest: Literal["md5", "sha256"] = "md5"
    table: str | None = None


class TableSource(Frozen):
    """A table that the study brings: a CSV or Parquet file (an absolute path), a list, or a range [from, to]
    of whole numbers."""

    name: str
    csv: str | None = None
    parquet: str | None = None
    values: tuple[str, ...] | None = None
    numbers: tuple[int, int] | None = None


class Step(Frozen):
    """A request of a scenario, and the pause between its end and the due time of the next step."""

    name: str
    request: Request
    think_time: ThinkTime = ThinkTime(constant_ns=0)


class Scenario(Frozen):
    """Steps in order; with several scenarios an iteration takes one by `weight`.

    With `renew_ns` it is not part of the mix: an iteration begins with it if the user's last one is that long
    ago, or an answer was 401.
    """

    name: str
    weight: int = Field(default=1, ge=0)
    renew_ns: int | None = None
    steps: tuple[Step, ...] = Field(min_length=1)


class SetUp(Frozen):
    """A request before the load that sets variables for its groups: once per trial, or once for each VU of
    the group that uses them.

    `renew_ns`: each user repeats it after this time, and after a 401.
    """

    request: Request
    once: Literal["trial", "vu"] = "trial"
    renew_ns: int | None = None


Http2 = bool | Literal["preferred"]
"""Whether HTTP/2 is used; preferred: the server may choose HTTP/1.1."""


class Group(Frozen, GroupOptions):  # type: ignore[misc]  # frozen as its options are, by its model_config
    """One traffic group of a case, with the options of `model.options`. An iteration is one `request`, or the
    steps of one of `scenarios`. `start_when` names the group whose ramp must have ended first.

    Over HTTP/2 `streams` users (or concurrent requests) share a connection; `preferred`: a server may choose
    HTTP/1.1.

    `graceful_stop_ns` is how long requests due by the end are followed; None: until their timeout.
    Connections use `source_addresses` in turn; empty: the kernel's choice. `close: reset` ends them with RST,
    which leaves no port in TIME_WAIT.

    Requests that wait for their time begin only at multiples of `pacing_quantum_ns` from the trial's start
    (0: when due); due times stay exact, so the wait is generator lag.
    """

    name: str
    executor: Executor
    request: Request
    scenarios: tuple[Scenario, ...] = ()
    start_when: str | None = None
    source_addresses: tuple[str, ...] = ()
    http2: Http2 = False

    def connections(self, slots: int) -> int:
        """Return how many connections this many users, or concurrent requests, share."""
        return -(-slots // self.streams)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return all steps of all scenarios, as results number them; a lone request is the only step."""
        alone = (Step(name=self.request.name, request=self.request),)
        return tuple(step for scenario in self.scenarios for step in scenario.steps) or alone

    @property
    def requests(self) -> tuple[Request, ...]:
        """Return the requests of all steps."""
        return tuple(step.request for step in self.steps)

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts that its requests name; if variables form an address, also the empty host."""
        return frozenset(request.host for request in self.requests)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the distinct `scheme://host` of its requests; without addresses that variables form."""
        return tuple(dict.fromkeys(request.endpoint for request in self.requests if request.url is None))

    @property
    def longest_timeout_ns(self) -> int:
        """Return the longest timeout of its requests: the value of a failure in a mean."""
        return max(request.timeout_ns for request in self.requests)

    @property
    def longest_iteration_ns(self) -> float:
        """Return the longest iteration, with every request answered just in time and mean think times."""
        lengths = [
            sum(step.request.timeout_ns + step.think_time.mean_ns for step in scenario.steps)
            for scenario in self.scenarios
        ]
        return max(lengths, default=float(self.request.timeout_ns))

    @property
    def longest_iteration(self) -> int:
        """Return the largest number of requests in an iteration."""
        return max([len(scenario.steps) for scenario in self.scenarios], default=1)

    @property
    def without_ramp(self) -> Group:
        """Return the same group without its ramp."""
        if not self.executor.ramp_up_ns:
            return self
        return self.model_copy(update={"executor": self.executor.model_copy(update={"ramp_up_ns": 0})})

    @property
    def keeps_rows(self) -> bool:
        """Return whether every request becomes a row; otherwise there are only histograms."""
        if self.record != "auto":
            return self.record == "rows"
        executor = self.executor
        most = self.longest_iteration
        if isinstance(executor, FixedWork) and executor.work * most <= ROWS_UP_TO:
            return True
        slow = executor.peak_rps is not None and executor.peak_rps * most <= ROWS_UP_TO_RPS
        return self.client == "curl" or slow
