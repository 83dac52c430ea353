"""Values in a study file as pydantic types: quantities, counts, names, and what is allowed instead of them.

With the validation context `{"references": True}` (the file as written) a `${…}` is allowed for any value.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from svload.model.bounds import RATE_RPS, REDIRECTS, SIZE_BYTES, TIME_S, Bound
from svload.model.units import (
    bytes_per_s,
    duration_ns,
    parse_quantity,
    size_bytes,
    units_of,
    written_dimension,
)
from svload.model.visible import marks_as_letters
from svload.study.mistakes import Gap, in_our_words, not_read, wrong
from svload.study.tree import UNQUOTED, WrittenFloat, WrittenInt

AS_WRITTEN = {"references": True}


class Part(BaseModel):
    """A mapping of the study file: no unknown keys, every mistake reported with the catalogue's codes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _tell(cls, value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        gap = cls.gap(value) if isinstance(value, Mapping) else None
        try:
            made = handler(value)
        except ValidationError as why:
            known = {field.alias or name: field.description or "" for name, field in cls.model_fields.items()}
            more = [gap.error(value)] if gap else []
            mistakes = in_our_words(
                cls.__name__, known, why, lambda key: cls.hint(key, value), cls.other_kind, more
            )
            raise mistakes from None
        if gap:
            raise ValidationError.from_exception_data(cls.__name__, [gap.error(value)])
        return made

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return what to write if `key` is missing in `written`, or wrong; empty: the schema's text
        is enough."""
        return ""

    @classmethod
    def other_kind(cls, stranger: str, missing: str) -> bool:
        """Return whether an unknown key shows that another kind of mapping was meant, without `missing`."""
        return False

    @classmethod
    def gap(cls, written: Mapping[str, Any]) -> Gap | None:
        """Return what no single field reports; added to their mistakes, which hide checks across fields."""
        return None


# values


def holds_reference(value: object) -> bool:
    """Return whether a text contains a `${…}` (or its escape)."""
    return isinstance(value, str) and "${" in value


class OrReference:
    """Besides the annotated type, in the file as written, a text that contains a `${…}`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
            if holds_reference(value) and isinstance(info.context, dict) and info.context.get("references"):
                return value
            return inner(value)

        return core_schema.with_info_wrap_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": r"\$\{.+\}"}]}


class WithoutReference:
    """A value for the whole study: a `${…}` in its place is rejected with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> Any:
            if holds_reference(value):
                raise wrong(f"{self.reason}, so no level can say it", "Write the value itself.")
            return value

        return core_schema.no_info_before_validator_function(check, handler(source))


class OneOrMany:
    """A list, or its only item written without the list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def as_list(value: Any) -> Any:
            return value if isinstance(value, (list, tuple)) else [value]

        return core_schema.no_info_before_validator_function(as_list, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        many = handler(schema)
        return {"anyOf": [many["items"], many]}


class OrAlone:
    """A mapping, or its only value written alone: `wrap` makes the mapping, `alone` is the value's schema."""

    def __init__(self, wrap: Callable[[Any], Any], alone: dict[str, Any]) -> None:
        self.wrap, self.alone = wrap, alone

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def whole(value: Any) -> Any:
            return value if isinstance(value, (Mapping, BaseModel)) else self.wrap(value)

        return core_schema.no_info_before_validator_function(whole, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [self.alone, handler(schema)]}


class Decided(ABC):
    """A value that only `read` reads, with the model it chooses; the JSON Schema is that of the annotated
    type.

    A study thus only pays for the models that it uses: building those of all executors takes as long as a
    load does.
    """

    _source: Any

    @abstractmethod
    def read(self, value: Any, context: Any) -> Any:
        """Return the value read. Raises ValueError or what a model's validation raises."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        self._source = source
        return core_schema.with_info_plain_validator_function(
            lambda value, info: self.read(value, info.context)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(TypeAdapter(self._source).core_schema)


class UnderNames:
    """A mapping of names to mappings with the key `key`: one of them without its name gets one error."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> Any:
            if isinstance(value, Mapping) and isinstance(value.get(self.key), str):
                raise wrong("expected a name before these keys", f"Write {{NAME: {{{self.key}: …}}}}.")
            return value

        return core_schema.no_info_before_validator_function(check, handler(source))


class Pick(Decided):
    """A union whose member is chosen by `choose(value)`: only that member's mistakes are reported."""

    def __init__(self, choose: Callable[[Any], type[BaseModel]]) -> None:
        self.choose = choose

    def read(self, value: Any, context: Any) -> Any:
        if isinstance(value, BaseModel):
            return value
        return self.choose(value).model_validate(value, context=context)


class AtMost:
    """A number, or a list or mapping of a size, up to a bound; the bound's reason is reported."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> Any:
            if isinstance(value, int) and value > self.bound.most:
                raise wrong(self.bound.text)
            if isinstance(value, (list, dict)) and len(value) > self.bound.most:
                raise wrong(f"{self.bound.text}, and these are {len(value):,}")
            return value

        return core_schema.no_info_before_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        shown = handler(schema)
        words = {"object": "maxProperties", "array": "maxItems"}
        return {**shown, words.get(str(shown.get("type")), "maximum"): self.bound.most}


class Formed:
    """A text that matches a whole pattern; `form` describes such texts when another one is reported."""

    def __init__(self, pattern: str, form: str) -> None:
        self.pattern, self.form = pattern, form

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: str) -> str:
            if re.fullmatch(self.pattern, value) is None:
                raise wrong(f"expected {self.form}")
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}


def _with_unit(value: str | float, bound: Bound, unit: float) -> str:
    """Return a number of seconds, as in k6, or of requests per second without a unit in a study's notation;
    "" for anything else."""
    number = value if isinstance(value, (int, float)) else float("nan")
    if bound is RATE_RPS:
        return f"{value}/s" if 0 < number <= bound.most else ""
    return f"{value} s" if unit == TIME_UNIT and 0 < number <= TIME_S.most else ""


def _measured(
    convert: Callable[[Any], float | int], least: float, example: str, bound: Bound, unit: float
) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise wrong("expected a quantity", f"Write {example}.")
        try:
            number = convert(value)
        except ValueError as why:
            raise not_read(why, f"Write {_with_unit(value, bound, unit) or example}.") from None
        if number > bound.most * unit:
            raise wrong(bound.text, f"Write {example}.")
        if number < least:
            raise wrong(
                "it must not be negative" if least == 0 else "it must be above 0", f"Write {example}."
            )
        return number

    return check


TIME_UNIT = 1e9
"""Nanoseconds per second: times are stored in ns."""
QUANTITY: dict[str, Any] = {"type": ["string", "number"]}


def _quantity(
    convert: Callable[[Any], float | int], least: float, example: str, bound: Bound, unit: float = 1
) -> tuple[Any, Any]:
    shape = WithJsonSchema({**QUANTITY, "examples": [example]})
    return PlainValidator(_measured(convert, least, example, bound, unit)), shape


def _rate_rps(value: str | float | int) -> float:
    """Return a rate, which needs its unit: 5 might mean per second or per minute."""
    rate = parse_quantity(value, "rate_rps")
    if rate != 0 and (not isinstance(value, str) or written_dimension(value) is None):
        raise ValueError(f"a unit is missing ({', '.join(units_of('rate_rps'))})")
    return rate


_TIME = _quantity(duration_ns, 0, "200 ms", TIME_S, TIME_UNIT)
_SPAN = _quantity(duration_ns, 1, "20s", TIME_S, TIME_UNIT)
_SIZE = _quantity(size_bytes, 1, "40 KiB", SIZE_BYTES)
_BYTES_PER_S = _quantity(bytes_per_s, 1, "20 MB/s", SIZE_BYTES)
_RATE = _quantity(_rate_rps, 1e-9, "500/s", RATE_RPS)
_RATE_OR_ZERO = _quantity(_rate_rps, 0, "500/s", RATE_RPS)
PlainCount = Annotated[int, Field(strict=True, ge=1, lt=2**53)]
PlainWholeNumber = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
"""Plain numbers are read before the cases are made: no `${…}`."""
TimeNs = Annotated[int, _TIME[0], _TIME[1], OrReference()]
SpanNs = Annotated[int, _SPAN[0], _SPAN[1], OrReference()]
SizeBytes = Annotated[int, _SIZE[0], _SIZE[1], OrReference()]
BytesPerS = Annotated[int, _BYTES_PER_S[0], _BYTES_PER_S[1], OrReference()]
RateRps = Annotated[float, _RATE[0], _RATE[1], OrReference()]
RateOrZeroRps = Annotated[float, _RATE_OR_ZERO[0], _RATE_OR_ZERO[1], OrReference()]


def time_up_to(bound: Bound, example: str) -> Any:
    """Return a type for times with this bound, in ns."""
    validator, shape = _quantity(duration_ns, 0, example, bound)
    return Annotated[int, validator, shape, OrReference()]


Count = Annotated[PlainCount, OrReference()]
WholeNumber = Annotated[PlainWholeNumber, OrReference()]
Redirects = Annotated[int, Field(strict=True, ge=0, le=REDIRECTS.most), OrReference()]
AnyWholeNumber = Annotated[int, Field(strict=True, gt=-(2**53), lt=2**53), OrReference()]
Flag = Annotated[bool, Field(strict=True), OrReference()]


def _scalar_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


ScalarText = Annotated[
    str, BeforeValidator(_scalar_text), WithJsonSchema({"type": ["string", "number", "boolean"]})
]


def as_written(value: Any) -> Any:
    """Return the value; raise the mistake of a number that would be sent in another form than it is written."""
    if isinstance(value, WrittenInt | WrittenFloat):
        raise wrong(UNQUOTED, f'Write "{value.text}".')
    return value


SentText = Annotated[ScalarText, BeforeValidator(as_written)]
"""A text that a request sends."""
RESERVED = ("request", "vu", "iteration", "port")


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value):
        raise wrong("expected a name: a letter, then letters, digits, - and _")
    if value in RESERVED:
        raise wrong(f"“{value}” is a reserved word", "Take another name.")
    return value


def _label(value: str) -> str:
    if not re.fullmatch(r"[^\W\d_][\w-]*", marks_as_letters(value)):
        raise wrong("expected a name: a letter of any alphabet, then letters, digits, - and _")
    return _name(value) if value.isascii() else value


Name = Annotated[str, AfterValidator(_name)]
Label = Annotated[str, AfterValidator(_label)]
"""The name of a request or a traffic group: it is only used as a name inside svload."""
FileName = Annotated[
    str,
    Formed(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", "a name: a letter or digit, then letters, digits, - _ . +"),
    Field(description="also the name of folders"),
]
When = Annotated[
    dict[str, Annotated[list[ScalarText], Field(min_length=1), OneOrMany()]],
    Field(description="factor: level, or factor: [levels]; all must match"),
]
Texts = Annotated[list[str], OneOrMany()]
