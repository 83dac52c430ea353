"""Scenarios and set-up of the study file as pydantic models: requests in order, or before the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from svload.model import bounds
from svload.model.other_words import PAUSES
from svload.study.distributions import ThinkTime, ThinkTimePart
from svload.study.mistakes import wrong
from svload.study.schema_requests import InlineRequest
from svload.study.values import AtMost, OrReference, Part, TimeNs


class ScenarioStepPart(Part):
    """A step of a scenario. It is due when the previous step has ended and its think time is over."""

    request: InlineRequest = Field(description="a name under requests, or GET http://service/path")
    think_time: ThinkTime = Field(
        ThinkTimePart(constant=0),
        description="between its end and the next step; the group's follows the last",
    )


_OF_STEP = ("think_time", "once", "renew")
"""Keys that stand beside a step's or a set-up's request."""


def _without_request(why: ValidationError) -> ValidationError:
    """Return the mistakes of a request written alone at their places in the file, which has no `request`."""
    lines = [
        InitErrorDetails(
            type=PydanticCustomError(error["type"], "{reason}", error.get("ctx")),
            loc=error["loc"][1:] if error["loc"][:1] == ("request",) else error["loc"],
            input=error["input"],
        )
        for error in why.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(why.title, lines)


class StepForm:
    """A mapping with a request, or the request alone."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
            whole = self.whole(value)
            try:
                return inner(whole)
            except ValidationError as why:
                raise why if whole is value else _without_request(why) from None

        return core_schema.no_info_wrap_validator_function(check, handler(source))

    @staticmethod
    def whole(value: Any) -> Any:
        """Return the mapping that `value` stands for."""
        words = value.split()[:1] if isinstance(value, str) else value if isinstance(value, Mapping) else ()
        if words and all(str(word).lower() in PAUSES for word in words):
            hint = "Write the pause at the step before it: {request: NAME, think_time: 2s}."
            raise wrong("a pause is not a step; use the step's think_time", hint)
        alone = isinstance(value, str) or (isinstance(value, Mapping) and "request" not in value)
        beside = [key for key in _OF_STEP if alone and isinstance(value, Mapping) and key in value]
        if beside:
            hint = f"Write {{request: {{get: http://service/path}}, {beside[0]}: …}}."
            raise wrong(f"{beside[0]} is not a key of a request; write it beside request", hint)
        return {"request": value} if alone else value

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema), {"type": "object"}]}


AnyStep = Annotated[ScenarioStepPart, StepForm()]
Steps = Annotated[list[AnyStep], AtMost(bounds.STEPS), Field(min_length=1)]


class OrName:
    """A name, or the steps themselves."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: ValidatorFunctionWrapHandler, _: ValidationInfo) -> Any:
            return value if isinstance(value, str) else inner(value)

        return core_schema.with_info_wrap_validator_function(check, handler.generate_schema(Steps))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


class SetUpPart(Part):
    """A request before the load; every group may use the variables that it takes. If it fails, so does the trial."""

    request: InlineRequest = Field(description="a name under requests, or the request itself")
    once: Annotated[Literal["trial", "vu"], OrReference()] = Field(
        "trial", description="vu: for each VU of the groups that use it"
    )
    renew: TimeNs | None = Field(
        None,
        description="each user repeats it after this time, and after a 401; these requests are part of the "
        "load",
    )

    @model_validator(mode="after")
    def _of_the_trial(self) -> SetUpPart:
        if self.renew is not None and (self.once == "vu" or self.renew == 0):
            raise wrong("renew takes a time, and only for a request that is sent once per trial")
        return self


AnySetUp = Annotated[SetUpPart, StepForm()]
