"""What all artefacts share: they are frozen, reject unknown keys, have a format number, can be read alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from svload.model.errors import fail
from svload.model.parsed import parsed

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Frozen(BaseModel):
    """An immutable value: no unknown keys, tuples instead of lists.

    The docstring on the line after a field describes it; docs/reference/artefacts.md is made of these.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema with each field's docstring as its description."""
        from svload.model.docstrings import of_fields

        schema = handler(core)
        described = handler.resolve_ref_schema(schema).get("properties", {})
        for name, meaning in of_fields(cls).items():
            described.get(name, {}).setdefault("description", meaning)
        return schema


_NO_FORMAT: Final = 1_000_000


class Artefact(Frozen):
    """A file of a run. `FORMAT` is the newest that this svload writes; `upgrade` converts older ones."""

    FORMAT: ClassVar[int] = 1
    format: int = 1
    """number of the file's format; a higher one comes from a newer svload"""

    @classmethod
    def upgrade(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Return `raw`, of an older format, in the newest one; overridden when a format changes."""
        return raw

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the artefact at `path`. Raises SvloadError run-damaged, format-newer; FileNotFoundError."""
        if path.exists() and not path.is_file():
            raise fail("run-damaged", path=path, reason="it is not a regular file")
        try:
            raw = parsed(path.read_text(encoding="utf-8"))
            found = int(raw["format"])
        except (ValueError, KeyError, TypeError, OverflowError) as why:
            raise fail(
                "run-damaged", path=path, reason=f"it is not a valid artefact ({_short(why)})"
            ) from why
        if found >= _NO_FORMAT:
            raise fail("run-damaged", path=path, reason="its format is not a number")
        if found > cls.FORMAT:
            raise fail("format-newer", path=path, found=found, known=cls.FORMAT)
        try:
            return cls.model_validate(cls.upgrade(raw))
        except (KeyError, TypeError, AttributeError, RecursionError) as why:
            raise fail(
                "run-damaged", path=path, reason=f"it is not a valid artefact ({_short(why)})"
            ) from why
        except ValidationError as why:
            first = why.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise fail("run-damaged", path=path, reason=f"{_short(where)}: {_short(first['msg'])}") from why

    def to_json(self) -> str:
        """Return stable text: the same content always gives the same bytes."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else text[:199] + "…"
