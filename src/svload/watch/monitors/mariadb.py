"""MariaDB, from SHOW GLOBAL STATUS over its Unix socket, where its administrator needs no password."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Mapping
from typing import ClassVar

from svload.host.machine.bounded import BoundedSocket
from svload.model.declared import Limit, Refusal
from svload.watch.monitor import TIMEOUT_S, ConnectedMonitor, Reading

_MS, _PLAIN = 1e-3, 1.0
_STATUS: Mapping[str, tuple[str, float, str]] = {
    "Threads_connected": ("connections_open", _PLAIN, "number of open connections, ours included"),
    "Max_used_connections": ("connections_peak", _PLAIN, "number of connections open at once, most since its start"),
    "Connections": ("connections_total", _PLAIN, "number of connections tried"),
    "Connection_errors_max_connections": ("rejected_total", _PLAIN, "number of connections above max_connections"),
    "Connection_errors_accept": ("accept_errors_total", _PLAIN, "number of connections that could not be accepted"),
    "Connection_errors_internal": ("internal_errors_total", _PLAIN, "number of connections without thread or memory"),
    "Aborted_connects": ("aborted_connects_total", _PLAIN, "number of connections that failed to log in"),
    "Aborted_clients": ("aborted_clients_total", _PLAIN, "number of connections that broke off without saying so"),
    "Access_denied_errors": ("denied_total", _PLAIN, "number of log-ins and statements denied"),
    "Threads_running": ("threads_running", _PLAIN, "number of threads that carry out a statement, ours included"),
    "Threads_cached": ("threads_cached", _PLAIN, "number of threads that wait for a connection"),
    "Threads_created": ("threads_created_total", _PLAIN, "number of threads created for connections"),
    "Questions": ("questions_total", _PLAIN, "number of statements of clients, ours included"),
    "Com_select": ("selects_total", _PLAIN, "number of SELECT statements"),
    "Com_insert": ("inserts_total", _PLAIN, "number of INSERT statements"),
    "Com_update": ("updates_total", _PLAIN, "number of UPDATE statements"),
    "Com_delete": ("deletes_total", _PLAIN, "number of DELETE statements"),
    "Slow_queries": ("slow_total", _PLAIN, "number of statements longer than long_query_time"),
    "Bytes_received": ("received_bytes_total", _PLAIN, "bytes received"),
    "Bytes_sent": ("sent_bytes_total", _PLAIN, "bytes sent"),
    "Table_locks_waited": ("table_lock_waits_total", _PLAIN, "number of times that a table's lock was waited for"),
    "Innodb_row_lock_waits": ("row_lock_waits_total", _PLAIN, "number of times that a row's lock was waited for"),
    "Innodb_row_lock_time": ("row_lock_wait_seconds_total", _MS, "time that rows' locks were waited for"),
    "Innodb_row_lock_current_waits": ("row_locks_waited", _PLAIN, "number of rows' locks that are waited for"),
    "Innodb_buffer_pool_read_requests": ("pool_reads_total", _PLAIN, "number of reads of pages"),
    "Innodb_buffer_pool_reads": ("pool_misses_total", _PLAIN, "number of pages that had to come from the disk"),
    "Innodb_buffer_pool_wait_free": ("pool_waits_total", _PLAIN, "number of times that a free page was waited for"),
    "Innodb_buffer_pool_bytes_data": ("pool_used_bytes", _PLAIN, "bytes of pages in the buffer pool"),
    "Innodb_log_waits": ("log_waits_total", _PLAIN, "number of times that the log's buffer was too small"),
    "Innodb_data_fsyncs": ("fsyncs_total", _PLAIN, "number of fsyncs of its data"),
    "Innodb_data_read": ("data_read_bytes_total", _PLAIN, "bytes read from its data files"),
    "Innodb_data_written": ("data_written_bytes_total", _PLAIN, "bytes written to its data files"),
    "Open_files": ("files_open", _PLAIN, "number of files it holds open, sockets apart"),
    "Uptime": ("uptime_seconds", _PLAIN, "time since it started"),
}  # fmt: skip
_VARIABLES: Mapping[str, tuple[str, float, str]] = {
    "max_connections": ("connections_limit", _PLAIN, "number of connections allowed (max_connections)"),
    "innodb_buffer_pool_size": ("pool_limit_bytes", _PLAIN, "size of the buffer pool"),
    "open_files_limit": ("files_limit", _PLAIN, "number of files it may open"),
}


class MariadbMonitor(ConnectedMonitor):
    """Status and a few variables at admin["mariadb"] = {"socket", "user"}."""

    name = "mariadb"
    summary = (
        "connections, their errors, threads, statements, locks and buffer pool of MariaDB, from its status"
    )
    metrics: ClassVar[Mapping[str, str]] = {
        metric: text for metric, _, text in (*_STATUS.values(), *_VARIABLES.values())
    }
    interval_s = 1.0
    limits = (
        Limit("connections", "connections", "connections_open", "connections_limit", brief=True),
        Limit("open files", "descriptors", "files_open", "files_limit", brief=True),
        # Pages are kept as long as there is room for them.
        Limit("buffer pool", "memory", "pool_used_bytes", "pool_limit_bytes", at=0.95, verdict=False),
    )
    refusals = (
        Refusal("rejected_total", "connections refused for max_connections", "connections"),
        Refusal("accept_errors_total", "connections that could not be accepted", "connections", kind="failed"),
        Refusal("internal_errors_total", "connections refused for lack of a thread or memory", "memory"),
        Refusal("aborted_connects_total", "connections that failed before they were logged in", "connections", kind="failed", verdict=False),
        Refusal("aborted_clients_total", "connections that broke off", "connections", kind="failed", verdict=False),
        Refusal("slow_total", "statements longer than long_query_time", "workers", kind="waited", verdict=False),
        Refusal("table_lock_waits_total", "waits for a table's lock", "lock", kind="waited", verdict=False),
        Refusal("row_lock_waits_total", "waits for a row's lock", "lock", kind="waited", verdict=False),
        Refusal("pool_waits_total", "waits for a free page of the buffer pool", "memory", kind="waited", verdict=False),
        Refusal("log_waits_total", "waits for the log's buffer", "disk", kind="waited", verdict=False),
    )  # fmt: skip
    attaches = ("mariadb", "socket", "user")
    example = {"mariadb": {"socket": "/proc/nowhere", "user": "nobody"}}

    def connect(self) -> Client:
        return Client(str(self.where["socket"]), str(self.where["user"]))

    def ask(self, line: Client) -> tuple[list[list[str]], list[list[str]]]:
        return line.ask(_shown("STATUS", _STATUS)), line.ask(_shown("VARIABLES", _VARIABLES))

    def parsed(self, answer: tuple[list[list[str]], list[list[str]]]) -> list[Reading]:
        return [*readings(_STATUS, answer[0]), *readings(_VARIABLES, answer[1])]


def _shown(what: str, names: Iterable[str]) -> str:
    listed = ", ".join(f"'{name}'" for name in names)
    return f"SHOW GLOBAL {what} WHERE Variable_name IN ({listed})"


def readings(wanted: Mapping[str, tuple[str, float, str]], rows: Iterable[list[str]]) -> list[Reading]:
    """Return rows of name and value as readings; what this version lacks is left out."""
    found = {name.lower(): value for name, value in rows}
    return [
        Reading("", metric, float(found[name.lower()]) * factor)
        for name, (metric, factor, _) in wanted.items()
        if name.lower() in found
    ]


_PROTOCOL_41, _SECURE_CONNECTION, _PLUGIN_AUTH = 0x200, 0x8000, 0x80000
_UTF8 = 33
_END, _ERROR = 0xFE, 0xFF
_MOST_BYTES = 1 << 20


class Client:
    """A connection with MySQL's protocol for a user whom the Unix socket authenticates. Raises OSError."""

    def __init__(self, path: str, user: str) -> None:
        self._line = BoundedSocket(path, TIMEOUT_S, _MOST_BYTES)
        try:
            self._log_in(user)
        except OSError:
            self.close()
            raise

    def _log_in(self, user: str) -> None:
        number, _ = self._packet()
        wanted = _PROTOCOL_41 | _SECURE_CONNECTION | _PLUGIN_AUTH
        head = struct.pack("<IIB23x", wanted, 1 << 24, _UTF8)
        self._send(number + 1, head + user.encode() + b"\0\0mysql_native_password\0")
        number, answer = self._packet()
        if answer[0] == _END:  # another login method is requested: none needs data from us
            self._send(number + 1, b"")
            self._packet()

    def ask(self, statement: str) -> list[list[str]]:
        """Return the rows that a statement gives."""
        self._line.renew()
        self._send(0, b"\x03" + statement.encode())
        _, answer = self._packet()
        columns = answer[0]
        for _ in range(columns + 1):  # each column's description, and the end of them
            self._packet()
        rows = []
        while not _is_end(row := self._packet()[1]):
            rows.append(_texts(row))
        return rows

    def _send(self, number: int, packet: bytes) -> None:
        self._line.sendall(len(packet).to_bytes(3, "little") + bytes([number]) + packet)

    def _packet(self) -> tuple[int, bytes]:
        """Return the next packet's number and content; raise an error that it contains."""
        head = self._exactly(4)
        packet = self._exactly(int.from_bytes(head[:3], "little"))
        if not packet:
            raise ConnectionError("MariaDB sent an empty packet")
        if packet[0] == _ERROR:
            raise ConnectionError(f"MariaDB: {packet[3:].decode(errors='replace')[:200]}")
        return head[3], packet

    def _exactly(self, length: int) -> bytes:
        got = b""
        while len(got) < length:
            piece = self._line.recv(length - len(got))
            if not piece:
                raise ConnectionError("MariaDB hung up")
            got += piece
        return got

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._line.close()


def _is_end(packet: bytes) -> bool:
    return packet[0] == _END and len(packet) < 9


def _texts(row: bytes) -> list[str]:
    """Return a row's texts, each after its length: one byte or, after 0xfc or 0xfd, two or three."""
    texts, at = [], 0
    while at < len(row):
        wide = {0xFC: 2, 0xFD: 3}.get(row[at], 0)
        length = int.from_bytes(row[at + 1 : at + 1 + wide], "little") if wide else row[at]
        at += 1 + wide
        texts.append(row[at : at + length].decode(errors="replace"))
        at += length
    return texts
