"""What was typed in one folder names the same files from another; what names none stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.study import moved


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
