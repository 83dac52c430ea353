"""What `svload init` writes is a sound study, whose files are found from another folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from svload.lab import asks_trust
from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.study import first_batch, init_study, load_study, moved, needs_trust, resolve
from svload.study.first import url_of

from .conftest import SMALL


@pytest.mark.parametrize(
    ("target", "kit", "options", "path"),
    [
        ("http://127.0.0.1:8080", "external", {"at": "http://127.0.0.1:8080"}, "/"),
        (
            "https://api.example.test/v1/items?page=2#top",
            "external",
            {"at": "https://api.example.test"},
            "/v1/items?page=2",
        ),
        ("http://[::1]:8080/x", "external", {"at": "http://[::1]:8080"}, "/x"),
        ("http://localhost:1/${a}", "external", {"at": "http://localhost:1"}, "/${a}"),
        ("./server --port {port}", "command", {"run": "./server --port ${port}"}, "/"),
        ("False", "command", {"run": "False"}, "/"),
        ('python3 -m "my server" ${port}', "command", {"run": 'python3 -m "my server" ${port}'}, "/"),
    ],
)
def test_the_first_study(folder: Path, target: str, kit: str, options: dict[str, str], path: str) -> None:
    text = init_study(target)
    assert len(text.splitlines()) <= 10
    (folder / "study.yaml").write_text(text)
    lock = load_study(folder)
    config = resolve(lock, lock.cases[0])
    assert [(service.kit, service.options) for service in config.services] == [(kit, options)]
    assert config.groups[0].request.path[0].text == path
    assert config.groups[0].request.scheme == ("https" if target.startswith("https") else "http")
    assert len(first_batch(lock).trials) == 6
    assert needs_trust(lock, asks_trust) == (
        [f"lab.server.run: {options['run']}"] if kit == "command" else []
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30).filter(lambda text: text.strip() and "${" not in text))
def test_any_command_is_kept_to_the_letter(folder: Path, command: str) -> None:
    assume(url_of(command) is None)
    (folder / "study.yaml").write_text(init_study(command), encoding="utf-8")
    lock = load_study(folder)
    wanted = command.strip().replace("{port}", "${port}")
    if "://" not in command:
        assert resolve(lock, lock.cases[0]).services[0].options == {"run": wanted}


@pytest.mark.parametrize(
    "target", ["", "  ", "ftp://x", "http://", "http://user:secret@host/", "http://[::1", "http://h:port/"]
)
def test_what_is_neither(target: str) -> None:
    with pytest.raises(SvloadError):
        init_study(target)


def test_commands_of_every_case_need_trust(load: Callable[..., Lock], folder: Path) -> None:
    lock = load(SMALL.replace("{kit: stone, workers: 4}", '{run: "./server --${scheme}"}'))
    assert needs_trust(lock, asks_trust) == [
        "lab.store.run: ./server --http",
        "lab.store.run: ./server --https",
    ]
    assert needs_trust(load(), asks_trust) == []


def test_code_beside_the_study_needs_trust(load: Callable[..., Lock], folder: Path) -> None:
    (folder / "kits").mkdir()
    (folder / "kits" / "mine.py").write_text("")
    assert needs_trust(load(), asks_trust) == [str(folder / "kits" / "mine.py")]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for folder in ("bin", "conf", "test", "studies"):
        (tmp_path / folder).mkdir()
    for file in ("server", "server.py", "my server", "conf/a.yaml", "bin/tool"):
        (tmp_path / file).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("./server --port {port}", "../server --port {port}"),
        ("server {port}", "../server {port}"),
        ("bin/tool run", "../bin/tool run"),
        ("./bin/../server", "../server"),
        ("python3 server.py", "python3 ../server.py"),
        ("python3 -m server", "python3 -m server"),
        ("python3 -u ./server.py -c conf/a.yaml", "python3 -u ../server.py -c ../conf/a.yaml"),
        ("./server --conf=conf/a.yaml --dir conf " "--root=conf", "../server --conf=../conf/a.yaml --dir " "../conf " "--root=../conf"),
        ("./server test", "../server test"),
        ("./server ./test .", "../server ../test .."),
        ("./server --name=none --empty= -x 8080 no/such", "../server --name=none --empty= -x 8080 no/such"),
        ("'./my server' --say 'two words'", "'../my server' --say 'two words'"),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ("/usr/bin/env  python3   -V", "/usr/bin/env  python3   -V"),
    ],
)  # fmt: skip
def test_paths_are_relative_to_the_studys_folder(here: Path, typed: str, meant: str) -> None:
    assert moved(typed, here, here / "s1") == meant


def test_a_deeper_folder_is_further_away(here: Path) -> None:
    assert (
        moved("./server conf/a.yaml .", here, here / "studies" / "s1")
        == "../../server ../../conf/a.yaml ../.."
    )


def test_a_link_is_called_by_its_own_name(here: Path) -> None:
    """A virtual environment's python finds its packages by where the link lies."""
    (here / "venv").mkdir()
    (here / "venv" / "python").symlink_to("/usr/bin/env")
    (here / "far").symlink_to(here / "studies")
    assert moved("venv/python server.py", here, here / "s1") == "../venv/python ../server.py"
    assert moved("./server", here, here / "far" / "s1") == "../../server", (
        "the folder lies where its link leads"
    )


def test_in_the_same_folder_only_the_programme_is_respelt(here: Path) -> None:
    assert moved("./server conf/a.yaml", here, here) == "./server conf/a.yaml"
    assert moved("server conf/a.yaml", here, here) == "./server conf/a.yaml"


def test_a_programme_may_lie_in_the_studys_folder(here: Path) -> None:
    (here / "s1").mkdir()
    (here / "s1" / "own").write_text("")
    assert moved("./own", here, here / "s1") == "./own"


@pytest.mark.parametrize(
    ("typed", "words"), [("./none", "neither here nor"), ("./server 'x", "split into words")]
)
def test_what_can_never_start_is_told(here: Path, typed: str, words: str) -> None:
    with pytest.raises(SvloadError, match=words):
        moved(typed, here, here / "s1")
