"""Random sizes and times, as written in a study file."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from svload.study.mistakes import wrong
from svload.study.values import QUANTITY, OrAlone, Part, Pick, SizeBytes, SpanNs, TimeNs


def _ascending(low: Any, high: Any, reason: str = "the high end must not be below the low one") -> None:
    """Raise an error if the two are numbers (not references) in descending order."""
    if isinstance(low, int) and isinstance(high, int) and high < low:
        raise wrong(reason)


class Lognormal(Part):
    """Log-normal sizes."""

    median: SizeBytes = Field(description="half of the objects are smaller")
    p99: SizeBytes = Field(description="99 % of the objects are smaller")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _ascending(self.median, self.p99, "p99 must not be below the median")
        return self


class LognormalSize(Part):
    """`{lognormal: {median, p99}}`."""

    lognormal: Lognormal = Field(description="{median: 40 KiB, p99: 400 KiB}")


class UniformSize(Part):
    """`{uniform: [low, high]}`."""

    uniform: tuple[SizeBytes, SizeBytes] = Field(description="[least, most]")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _ascending(*self.uniform)
        return self


class ConstantSize(Part):
    """A size written without a distribution."""

    constant: SizeBytes = Field(description="each of this size")


def _size_kind(value: Any) -> type[BaseModel]:
    kinds: dict[str, type[BaseModel]] = {
        "lognormal": LognormalSize,
        "uniform": UniformSize,
        "constant": ConstantSize,
    }
    named = [kind for kind in kinds if kind in value]
    if len(value) != 1 or not named:
        raise wrong("expected a size or one distribution", "Write 40 KiB, {lognormal: {median: 40 KiB, p99: 400 KiB}} or {uniform: [1 KiB, 9 KiB]}.")  # fmt: skip
    return kinds[named[0]]


SizeOrLaw = Annotated[
    LognormalSize | UniformSize | ConstantSize,
    Pick(_size_kind),
    OrAlone(lambda value: {"constant": value}, QUANTITY),
]


class LognormalTime(Lognormal):
    """Log-normal times."""

    median: SpanNs = Field(description="half of them are shorter")
    p99: SpanNs = Field(description="99 % of them are shorter")


class ThinkTimePart(Part):
    """A pause between a VU's requests."""

    constant: TimeNs | None = Field(default=None, description="always this long")
    uniform: tuple[TimeNs, TimeNs] | None = Field(default=None, description="[shortest, longest]")
    exponential: SpanNs | None = Field(default=None, description="its mean")
    lognormal: LognormalTime | None = Field(default=None, description="{median: 1s, p99: 10s}")

    @model_validator(mode="after")
    def _one_kind(self) -> ThinkTimePart:
        kinds = (self.constant, self.uniform, self.exponential, self.lognormal)
        if sum(kind is not None for kind in kinds) != 1:
            raise wrong(
                "expected one of constant, uniform, exponential, lognormal",
                "Write 0.1s, or {exponential: 2s}.",
            )
        if self.uniform:
            _ascending(*self.uniform)
        return self


ThinkTime = Annotated[ThinkTimePart, OrAlone(lambda value: {"constant": value}, QUANTITY)]
