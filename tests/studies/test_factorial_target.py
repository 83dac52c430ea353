"""The second paper's web server on a real Redis: exact results, and never a 500."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import free_port, python_with, running, wait_until

pytestmark = pytest.mark.real

TARGET = Path(__file__).parents[2] / "studies/002-factorial-redis/target"
Ask = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def python(needs: Callable[..., None]) -> Path:
    """Return the Python of the target's own environment."""
    needs("redis-server")
    return python_with(TARGET / "requirements.txt")


@contextmanager
def serving(python: Path, folder: Path, storage: str, redis: bool = True) -> Iterator[Ask]:
    """Run Redis and the target; yield a function that asks it: (status, body)."""
    redis_port, port = free_port(), free_port()
    store = f"redis-server --port {redis_port} --bind 127.0.0.1 --save '' --dir {folder}"
    web = (
        f"env REDIS_PORT={redis_port} STORAGE={storage} {python} -m uvicorn --app-dir {TARGET} "
        f"--host 127.0.0.1 --port {port} --log-level warning app:app"
    )

    def ask(path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", port, timeout=HANG_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    web_log = folder / "web.log"
    with running(shlex.split(store), redis_port) as server, running(shlex.split(web), port, web_log):
        if not redis:
            server.terminate()
            server.wait(HANG_S)
        else:
            wait_until(lambda: ask("/ready")[0] == 204)
        yield ask


@pytest.fixture(scope="module")
def ask(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with serving(python, tmp_path_factory.mktemp("factorial"), "keys") as made:
        yield made


@pytest.mark.parametrize("number", [0, 1, 5, 20, 170, 1500, 10_000])
def test_factorials_are_exact(ask: Ask, number: int) -> None:
    sys.set_int_max_str_digits(0)
    assert ask(f"/factorial/{number}") == (200, f"{number}!={math.factorial(number)}")


@pytest.mark.parametrize("text", ["-1", "-17", "-" + "9" * 3_000])
def test_a_negative_number_gets_a_prompt_and_no_error(ask: Ask, text: str) -> None:
    status, body = ask(f"/factorial/{text}")
    assert (status, body.split(":")[0]) == (200, "Please enter an integer from 0 to 10000")


@pytest.mark.parametrize("text", ["10001", "9" * 10_000, "1" + "0" * 30])
def test_what_is_too_large_is_reported(ask: Ask, text: str) -> None:
    status, body = ask(f"/factorial/{text}")
    assert status == 400
    assert "the largest number is 10000" in body
    assert len(body) < 200


NO_NUMBERS = ["", "abc", "1.5", "1e3", "0x10", "../etc", "1/2", "--1", "+"]
ESCAPED = ["%00", "1%00", "%F0%9F%98%80", "%FF%FE", "%D9%A3", "%20"]


@pytest.mark.parametrize("text", [*NO_NUMBERS, *ESCAPED])
def test_hostile_paths_are_never_a_500(ask: Ask, text: str) -> None:
    status, body = ask(f"/factorial/{text}")
    assert status in (400, 404), (status, body)


@pytest.mark.parametrize("storage", ["keys", "mget", "scan", "hash"])
def test_all_that_was_stored_is_listed(python: Path, tmp_path: Path, storage: str) -> None:
    with serving(python, tmp_path, storage) as ask:
        assert ask("/calculationsStored") == (200, "")
        wanted = {ask(f"/factorial/{number}")[1] for number in range(300)}
        status, body = ask("/calculationsStored")
        assert status == 200
        assert sorted(body.split(" ")) == sorted(wanted)


def test_without_redis_it_says_so(python: Path, tmp_path: Path) -> None:
    with serving(python, tmp_path, "keys", redis=False) as ask:
        status, body = ask("/factorial/5")
        assert status == 503
        assert body.startswith("Redis failed")
