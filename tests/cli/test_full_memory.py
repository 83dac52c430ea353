"""Where the memory does not suffice that is said, in one line, and no defect is."""

from __future__ import annotations

import pytest

from svload.cli import main


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libarrow.so: failed to map segment from shared object"),
        ImportError("x.so: cannot allocate memory in static TLS block"),
    ],
    ids=["allocation", "mapping", "thread-local"],
)
def test_full_memory_is_told(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _said(error, monkeypatch, capsys) == (
        3,
        "svload: svload needs more memory than it is allowed to use. Raise the limit (ulimit -v), or free memory. "
        "[memory-short]\n",
    )


def test_another_import_that_fails_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = _said(ImportError("no module named x"), monkeypatch, capsys)
    assert code == 3
    assert "[internal]" in said


def _said(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    def app(**_: object) -> None:
        raise error

    monkeypatch.setattr("svload.cli.app.app", app)
    with pytest.raises(SystemExit) as left:
        main.run()
    return int(str(left.value.code)), capsys.readouterr().err
