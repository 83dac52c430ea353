"""The paper's web server: factorials, stored in Redis and listed again. `uvicorn app:app`, with REDIS_SOCKET or REDIS_PORT set.

GET /factorial/<signed int>    the factorial, stored under its number; a negative number gets a prompt for correct input
GET /calculationsStored        everything stored, joined by spaces; STORAGE says how it is read
GET /ready                     204 once Redis answers
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

LARGEST = 10_000
"""The largest number whose factorial is made (35,660 digits): a larger one would hold the only thread for seconds."""
MOST_DIGITS = 20
"""Digits that are read at all."""
PROMPT = "Please enter an integer from 0 to {largest}: a negative number has no factorial."
TOO_LARGE = "{number} is too large: the largest number is {largest}."
NO_NUMBER = "“{text}” is no integer: ask for /factorial/<integer>, from 0 to {largest}."
HASH = "calculations"
SCANNED = 100
"""Keys that one SCAN asks for."""
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)

sys.set_int_max_str_digits(0)  # 1500! has more digits than Python prints unless it is told to


def entry(number: int) -> str:
    """What is stored and answered: number and factorial, without a space."""
    return f"{number}!={math.factorial(number)}"


async def factorial(request: Request) -> Response:
    """200 with the factorial or, for a negative number, the prompt; 400 for what is no integer or too large."""
    text = request.path_params["text"]
    if not _INTEGER.fullmatch(text):
        return PlainTextResponse(NO_NUMBER.format(text=_short(text), largest=LARGEST), 400)
    if text.startswith("-") and text.strip("-0"):
        return PlainTextResponse(PROMPT.format(largest=LARGEST))
    digits = text.lstrip("+-0") or "0"
    if len(digits) > MOST_DIGITS or int(digits) > LARGEST:
        return PlainTextResponse(TOO_LARGE.format(number=_short(digits), largest=LARGEST), 400)
    number = int(digits)
    made = entry(number)
    redis: Redis = request.app.state.redis
    if request.app.state.storage == "hash":
        await redis.hset(HASH, str(number), made)
    else:
        await redis.set(str(number), made)
    return PlainTextResponse(made)


async def stored(request: Request) -> Response:
    """All stored values, joined by spaces."""
    read = STORAGES[request.app.state.storage]
    return PlainTextResponse(" ".join(await read(request.app.state.redis)))


async def ready(request: Request) -> Response:
    """204, or 503 while Redis does not answer."""
    await request.app.state.redis.ping()
    return Response(status_code=204)


async def _keys_and_gets(redis: Redis) -> list[str]:
    """As the paper does: KEYS, then a GET a key."""
    found = [await redis.get(key) for key in await redis.keys("*")]
    return [value for value in found if value is not None]


async def _mget(redis: Redis) -> list[str]:
    """KEYS, then one MGET."""
    keys = await redis.keys("*")
    return [value for value in await redis.mget(keys) if value is not None] if keys else []


async def _scan(redis: Redis) -> list[str]:
    """SCAN, and an MGET for each of its pages."""
    found: dict[str, str] = {}
    cursor = 0
    while True:
        cursor, keys = await redis.scan(cursor, count=SCANNED)
        values = await redis.mget(keys) if keys else []
        found.update({key: value for key, value in zip(keys, values, strict=True) if value is not None})
        if cursor == 0:
            return list(found.values())


async def _hash(redis: Redis) -> list[str]:
    """One hash, read by one HVALS."""
    values: list[str] = await redis.hvals(HASH)
    return values


STORAGES: dict[str, Callable[[Redis], Awaitable[list[str]]]] = {
    "keys": _keys_and_gets,
    "mget": _mget,
    "scan": _scan,
    "hash": _hash,
}
"""STORAGE → how everything stored is read."""


async def unavailable(request: Request, why: Exception) -> Response:
    """503 where Redis fails: it is no fault of the request."""
    return PlainTextResponse(f"Redis failed: {type(why).__name__}: {_short(str(why))}", 503)


def _short(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:40]) + ("…" if len(text) > 40 else "")


@asynccontextmanager
async def _lifespan(made: Starlette) -> AsyncIterator[None]:
    socket, port = os.environ.get("REDIS_SOCKET"), int(os.environ.get("REDIS_PORT", "6379"))
    where = {"path": socket} if socket else {"host": "127.0.0.1", "port": port}
    kind = {"connection_class": _unix()} if socket else {}
    pool = BlockingConnectionPool(
        max_connections=int(os.environ.get("REDIS_CONNECTIONS", "16")),
        timeout=20,
        decode_responses=True,
        **kind,
        **where,
    )
    made.state.redis = Redis(connection_pool=pool)
    yield
    await made.state.redis.aclose()
    await pool.aclose()


def _unix() -> type:
    from redis.asyncio.connection import UnixDomainSocketConnection

    return UnixDomainSocketConnection


def make(storage: str | None = None) -> Starlette:
    """The application; `storage` stands for the environment's STORAGE (keys, mget, scan or hash)."""
    chosen = storage or os.environ.get("STORAGE", "keys")
    if chosen not in STORAGES:
        raise SystemExit(f"STORAGE is {chosen!r}; it is one of {', '.join(STORAGES)}")
    made = Starlette(
        routes=[
            Route("/factorial/{text:path}", factorial),
            Route("/calculationsStored", stored),
            Route("/ready", ready),
        ],
        exception_handlers={RedisError: unavailable, OSError: unavailable},
        lifespan=_lifespan,
    )
    made.state.storage = chosen
    return made


app = make()
