"""The plans and settings with which JMeter 5.6.3 made the files beside this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SAVE = "jmeter.save.saveservice"


@dataclass(frozen=True)
class Sampler:
    """A request: JMeter's JavaTest, or an HTTP request of `path`."""

    name: str
    path: str = ""
    sleep_ms: int = 5
    mask: int = 0xF
    code: str = "200"
    message: str = "OK"
    ok: bool = True


@dataclass(frozen=True)
class Plan:
    """Samplers that each thread of each group takes in turn, within these transactions, the outermost first."""

    samplers: tuple[Sampler, ...]
    groups: tuple[str, ...] = ("Users",)
    threads: int = 3
    loops: int = 40
    ramp_s: int = 0
    transactions: tuple[str, ...] = ()
    parent: bool = False


@dataclass(frozen=True)
class Case:
    """A plan, and JMeter's properties; `xml`: the file kept is XML's."""

    plan: Plan
    settings: Mapping[str, str] = field(default_factory=dict)
    xml: bool = False


HOME, CART, PAY = Sampler("home"), Sampler("cart", sleep_ms=9), Sampler("pay", sleep_ms=2, mask=0x7)
PLAIN = Plan((HOME, CART))
FAILING = Plan((HOME, Sampler("late", code="503", message="busy", ok=False)))
MIXED = replace(PLAIN, transactions=("Checkout",))
NESTED = replace(PLAIN, transactions=("Visit", "Checkout"), loops=25)
HTTP = Plan((Sampler("home", "/ok"), Sampler("old", "/moved")), loops=25)
PAGE = Plan((Sampler("page", "/page"), Sampler("home", "/ok")), loops=20)


def times(pattern: str) -> dict[str, str]:
    """With time stamps of this pattern of Java's."""
    return {f"{SAVE}.timestamp_format": pattern}


CASES: Mapping[str, Case] = {
    "plain": Case(PLAIN),
    "semicolon": Case(PLAIN, {f"{SAVE}.default_delimiter": ";"}),
    "tab": Case(PLAIN, {f"{SAVE}.default_delimiter": "\\t"}),
    "bar": Case(PLAIN, {f"{SAVE}.default_delimiter": "|"}),
    "slashes": Case(PLAIN, times("yyyy/MM/dd HH:mm:ss.SSS")),
    "dashes": Case(PLAIN, times("yyyy-MM-dd HH:mm:ss.SSS")),
    "zulu": Case(PLAIN, times("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")),
    "american": Case(PLAIN, times("MM/dd/yyyy HH:mm:ss.SSS")),
    "german": Case(PLAIN, {**times("dd.MM.yyyy HH:mm:ss.SSS"), f"{SAVE}.default_delimiter": ";"}),
    "seconds": Case(replace(PLAIN, loops=80, ramp_s=1), times("yyyy/MM/dd HH:mm:ss")),
    "no-names": Case(PLAIN, {f"{SAVE}.print_field_names": "false"}),
    "failing": Case(FAILING),
    "refused": Case(Plan((Sampler("gone", "refused"), Sampler("home", "/ok")), loops=20)),
    "missing": Case(Plan((Sampler("missing", "/missing"), Sampler("home", "/ok")), loops=20)),
    "redirects": Case(HTTP),
    "redirects-unnamed": Case(HTTP, {"subresults.disable_renaming": "true"}),
    "resources": Case(PAGE),
    "resources-unnamed": Case(PAGE, {"subresults.disable_renaming": "true"}),
    "transaction": Case(MIXED),
    "transaction-parent": Case(replace(MIXED, parent=True)),
    "transaction-no-parts": Case(replace(MIXED, parent=True), {f"{SAVE}.subresults": "false"}),
    "transactions": Case(NESTED),
    "transaction-redirect": Case(replace(HTTP, transactions=("Order",))),
    "transaction-failing": Case(replace(FAILING, transactions=("Buy",))),
    "groups": Case(replace(PLAIN, groups=("Readers", "Writers"), loops=25)),
    "letters": Case(Plan((Sampler("首页"), Sampler("Корзина"), Sampler("größe")))),
    "signs": Case(Plan((Sampler('a, "b"; c'), Sampler("x|y <z> & w")))),
    "ramp": Case(replace(PLAIN, threads=6, loops=30, ramp_s=2)),
    "one": Case(replace(PLAIN, threads=1, loops=1)),
    "few-columns": Case(PLAIN, {f"{SAVE}.{name}": "false" for name in ("idle_time", "url", "data_type", "assertion_results_failure_message")}),
    "xml": Case(replace(PLAIN, samplers=(HOME, CART, PAY)), xml=True),
    "xml-redirects": Case(HTTP, xml=True),
    "xml-transaction": Case(replace(MIXED, parent=True), xml=True),
}  # fmt: skip
