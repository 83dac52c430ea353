"""Every kit with its options."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from reference.markdown import code, default, page, sentence, table

TITLE = "Kits and their options"


def make() -> str:
    from svload import lab
    from svload.lab.kit import KitOptions

    common = KitOptions.model_fields
    texts = [
        "A service is `{kit: NAME, …}`. *Change* says what changing the option requires, also by a factor: "
        "`request` nothing, `live` and `reload` leave the server running, `restart` restarts it, `rebuild` also "
        "fills it again.\n",
        "## Options of every service\n",
        _options(common),
    ]
    for name, kit in lab.all_kits().items():
        if not kit.__module__.startswith("svload."):
            continue
        texts.append(f"## {name}\n\n{kit.summary}. {sentence(kit.__doc__)}\n")
        tls = [form for form, has in (("`true`", kit.own_tls), ("`hitch`", kit.front)) if has]
        texts.append(f"`tls:` {' or '.join(tls) if tls else 'none'}.{_ignored(kit.ignores)}\n")
        if kit.permits:
            texts.append(f"Until the study is trusted, requests may ask for {kit.permits.text}.\n")
        else:
            texts.append("It needs `--trust`, since nothing holds requests back from administering it.\n")
        own = {key: field for key, field in kit.Options.model_fields.items() if key not in common}
        if own:
            texts.append(_options(own))
            texts.append(_trust(own, kit))
        note = sentence(kit.Options.__doc__).partition(";")[2].strip()
        if note:
            texts.append(note[0].upper() + note[1:] + "\n" if note[0] != "`" else note + "\n")
    return page("Kits", *texts)


def _trust(own: Mapping[str, Any], kit: Any) -> str:
    """Return which of its options need --trust, and which parameters of `tuning` do not."""
    asking = [code(name) for name in own if name not in kit.harmless | kit.addresses]
    found = [f"Needs `--trust`: {', '.join(asking)}."] if asking else []
    if kit.addresses:
        found.append(
            f"Its host needs `--authorise`: {', '.join(code(name) for name in sorted(kit.addresses))}."
        )
    if kit.harmless_tuning:
        plain = ", ".join(code(name) for name in sorted(kit.harmless_tuning))
        found.append(f"Parameters of `tuning` that need no `--trust` while they have a plain value: {plain}.")
    return " ".join(found) + "\n" if found else ""


def _ignored(names: Sequence[str]) -> str:
    return (
        f" Refused, because they would have no effect: {', '.join(code(name) for name in names)}."
        if names
        else ""
    )


def _options(fields: Mapping[str, Any]) -> str:
    rows = []
    for name, field in fields.items():
        extra = field.json_schema_extra or {}
        rows.append(
            (
                code(name),
                extra.get("unit") or _kind(field.annotation),
                "required" if field.is_required() else default(field.default),
                extra.get("change", ""),
                field.description or "",
            )
        )
    return table(("option", "value", "default", "change", "meaning"), rows)


def _kind(annotation: Any) -> str:
    """Return a type in words."""
    if typing.get_origin(annotation) is Literal:
        return " or ".join(code(str(value)) for value in typing.get_args(annotation))
    inner = [one for one in typing.get_args(annotation) if one is not type(None)]
    if typing.get_origin(annotation) is list:
        return "list"
    if typing.get_origin(annotation) is dict:
        return "mapping"
    if inner:
        return " or ".join(
            dict.fromkeys(_kind(one) for one in inner if isinstance(one, type) or typing.get_origin(one))
        )
    return {int: "whole number", float: "number", str: "text", bool: "true or false", dict: "mapping"}.get(
        annotation, "value"
    )
