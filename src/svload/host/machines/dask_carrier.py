"""Messages to a machine through a Dask actor on its worker. Every wait is bounded, nothing is retried."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from svload.model.errors import SvloadError, fail

BEAT_S = 1.0
CALL_S = 30.0
_MORE_S = 5.0
_END_S = 25.0
_LOOK_S = 0.25


class DaskCarrier:
    """The carrier of the machine `name` with the bearer `actor`. It sends a sign of life once per second."""

    def __init__(self, name: str, actor: Any) -> None:
        self._name, self._actor = name, actor
        self._lost = ""
        self._ended = threading.Event()
        threading.Thread(target=self._beat, name=f"svload-beat-{name}", daemon=True).start()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            with contextlib.suppress(SvloadError):
                self.call("beat")

    def lose(self, reason: str) -> None:
        """Refuse all further requests immediately."""
        self._lost = self._lost or reason

    def ask(self, kind: str, bound_s: float, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the agent's answer. Raises SvloadError agent-lost."""
        answer: dict[str, Any] = self._call("ask", bound_s + _MORE_S, kind, bound_s, dict(fields))
        return answer

    def call(self, method: str, *words: Any) -> Any:
        """Call a method of the bearer. Raises SvloadError: agent-lost, or what the method raises."""
        return self._call(method, CALL_S, *words)

    def wait_for(self, method: str, *words: Any, waiting: Callable[[], None]) -> Any:
        """Call a method of the bearer that may take as long as its machine lives; `waiting` is called
        repeatedly until it answers. Raises SvloadError agent-lost."""
        if self._lost:
            raise fail("agent-lost", reason=self._lost)
        try:
            future = getattr(self._actor, method)(*words)
            while not self._lost:
                try:
                    return future.result(timeout=_LOOK_S)
                except TimeoutError:
                    waiting()
        except SvloadError:
            raise
        except Exception as why:
            raise self._gone(why, lost=True) from why
        raise fail("agent-lost", reason=self._lost)

    def _call(self, method: str, bound_s: float, *words: Any) -> Any:
        if self._lost:
            raise fail("agent-lost", reason=self._lost)
        try:
            return getattr(self._actor, method)(*words).result(timeout=bound_s)
        except SvloadError:  # raised there: the machine is well
            raise
        except Exception as why:
            raise self._gone(why, lost=method != "ask" or not isinstance(why, TimeoutError)) from why

    def _gone(self, why: Exception, *, lost: bool) -> SvloadError:
        """Return the error for whatever Dask raises if a worker, the scheduler or a connection is gone."""
        reason = (
            f"{self._name} is lost ({type(why).__name__}: {why})" if str(why) else f"{self._name} is lost"
        )
        if lost:
            self.lose(reason)
        return fail("agent-lost", reason=reason)

    def close(self) -> None:
        """End the agent there; if it can't be reached, it ends by itself within 5 s."""
        self._ended.set()
        if not self._lost:
            with contextlib.suppress(SvloadError):
                self._call("close", _END_S)
        self.lose(f"{self._name} was let go")
