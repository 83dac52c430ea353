"""A case's files as paths that are valid everywhere on this machine. Pure."""

from __future__ import annotations

from pathlib import Path as FilePath

from svload.model.study import CaseConfig, Preparation
from svload.model.traffic import Group, Request, Step, TableSource


def placed(config: CaseConfig, folder: FilePath) -> CaseConfig:
    """Return the configuration with file paths valid everywhere on this machine; `folder` is the study's."""
    return config.model_copy(
        update={
            "groups": tuple(_placed_group(group, folder) for group in config.groups),
            "before_trial": tuple(_placed_step_before(step, folder) for step in config.before_trial),
            "set_up": tuple(
                part.model_copy(update={"request": _with_file(part.request, folder)})
                for part in config.set_up
            ),
            "tables": tuple(_placed_table(table, folder) for table in config.tables),
        }
    )


def _placed_step_before(step: Preparation, folder: FilePath) -> Preparation:
    group = step.populate
    return step if group is None else step.model_copy(update={"populate": _placed_group(group, folder)})


def _placed_group(group: Group, folder: FilePath) -> Group:
    scenarios = tuple(
        scenario.model_copy(update={"steps": tuple(_placed_step(step, folder) for step in scenario.steps)})
        for scenario in group.scenarios
    )
    return group.model_copy(update={"request": _with_file(group.request, folder), "scenarios": scenarios})


def _placed_step(step: Step, folder: FilePath) -> Step:
    return step.model_copy(update={"request": _with_file(step.request, folder)})


def _with_file(request: Request, folder: FilePath) -> Request:
    body = request.body
    if body is None or body.file is None:
        return request
    file = str((folder / body.file).absolute())
    return request.model_copy(update={"body": body.model_copy(update={"file": file})})


def _placed_table(table: TableSource, folder: FilePath) -> TableSource:
    kinds = {"csv": table.csv, "parquet": table.parquet}
    return table.model_copy(
        update={kind: str((folder / name).absolute()) for kind, name in kinds.items() if name is not None}
    )
