"""A study's secrets come from the environment, or from a file that it names; errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.study import CaseConfig
from svload.run import secret_values

CONFIG = CaseConfig.model_construct(secrets={"secret.token": "API_TOKEN"})


def test_a_value_is_the_variables_or_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("from a file\n")
    monkeypatch.setenv("API_TOKEN_FILE", str(tmp_path / "token"))
    assert secret_values(CONFIG) == {"secret.token": "from a file"}
    monkeypatch.setenv("API_TOKEN", "its own")
    assert secret_values(CONFIG) == {"secret.token": "its own"}
    assert secret_values(CaseConfig.model_construct(secrets={})) == {}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "API_TOKEN is not set"),
        ({"API_TOKEN": ""}, "API_TOKEN is empty"),
        ({"API_TOKEN": "hush\r\nX-More: hush"}, "more than one line"),
        ({"API_TOKEN_FILE": "nowhere"}, "nowhere cannot be read: No such file"),
    ],
)
def test_unset_secret(environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SvloadError) as why:
        secret_values(CONFIG)
    text = str(why.value)
    assert "${secret.token} has no value" in text
    assert expected in text
    assert "Set API_TOKEN to the value, or API_TOKEN_FILE" in text
    assert "hush" not in text
