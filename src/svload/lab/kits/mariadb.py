"""MariaDB, alone or for a service that needs a database."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from svload.lab.kit import KitOptions, Permits, SizeBytes, Spelling, option, words
from svload.lab.server import Server, path_of, user_name
from svload.model.costs import Costs
from svload.model.errors import SvloadError, fail
from svload.model.facts import Counters, ServiceFacts, Setting
from svload.study.beside import file_beside

SOCKET_PATH_BYTES = 107
"""unix(7)"""
INITIALISED_WITHIN_S = 120.0
SQL_WITHIN_S = 120.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_PASSWORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SPELLING = Spelling("variable", "[a-z0-9_]+", ("OFF", "ON"), example=", such as back_log")
_ADMINISTRATORS = ("root", "mysql", "mariadb")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text) or text.lower() in _ADMINISTRATORS:
        raise ValueError("write letters, digits and _, no name of an administrator")
    return text


def _password(text: str) -> str:
    if not _PASSWORD.fullmatch(text):
        raise ValueError("write letters, digits and “_.-”")
    return text


class MariadbOptions(KitOptions):
    """Options of `mariadb`; `tuning` has its variables (thread_handling, back_log …), with underscores."""

    database: Annotated[str, AfterValidator(_name)] = option("lab", doc="the database that is created in it")
    user: Annotated[str, AfterValidator(_name)] = option(
        "lab",
        doc="a user with all rights on that database (until the study is trusted: reads and writes rows)",
    )
    password: Annotated[str, AfterValidator(_password)] = option(
        "lab", doc="the user's password: only for this private server, since it is recorded"
    )
    sql: str | None = option(
        None, doc="an SQL file next to the study that creates tables and rows; run by the administrator"
    )
    connections: int = option(151, ge=1, change="live", doc="maximum number of connections (max_connections)")
    buffer_pool: SizeBytes = option(
        "128 MiB", unit="size", doc="memory for its pages (innodb_buffer_pool_size)"
    )

    spelling = _SPELLING


_HARMLESS = words(
    """
    back_log connect_timeout innodb_adaptive_flushing innodb_adaptive_hash_index innodb_doublewrite
    innodb_flush_log_at_trx_commit innodb_flush_neighbors innodb_io_capacity innodb_io_capacity_max
    innodb_lock_wait_timeout innodb_log_buffer_size innodb_log_file_size innodb_lru_scan_depth
    innodb_max_dirty_pages_pct innodb_open_files innodb_purge_threads innodb_random_read_ahead
    innodb_read_ahead_threshold innodb_read_io_threads innodb_spin_wait_delay innodb_sync_spin_loops
    innodb_write_io_threads interactive_timeout join_buffer_size key_buffer_size lock_wait_timeout max_allowed_packet
    max_connect_errors max_heap_table_size max_statement_time net_buffer_length net_read_timeout net_write_timeout
    open_files_limit performance_schema query_cache_limit query_cache_size query_cache_type read_buffer_size
    read_rnd_buffer_size sort_buffer_size table_definition_cache table_open_cache table_open_cache_instances
    thread_cache_size thread_handling thread_pool_idle_timeout thread_pool_max_threads thread_pool_oversubscribe
    thread_pool_size thread_pool_stall_limit thread_stack tmp_memory_table_size tmp_table_size transaction_isolation
    wait_timeout
    """
)
"""Left out: variables that name files, plugins, users or servers (init_file, plugin_load, datadir …)."""


class Mariadb(Server):
    """A separate mariadbd with its data in the service's folder, created at each start.

    It reads none of the system's configuration. A reset creates database, user and tables again from the same
    file.
    """

    name = "mariadb"
    summary = "MariaDB, a database"
    Options = MariadbOptions
    costs = Costs(up_s=3.5, reset_s=0.3, answers_per_s=20_000)
    front = False
    harmless = frozenset({"database", "user", "password", "connections", "buffer_pool"})
    harmless_tuning = _HARMLESS
    permits = Permits(
        "rows and temporary tables of its own database, by the grants of its user",
        frozenset(("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE TEMPORARY TABLES", "EXECUTE")),
    )
    programs = {
        "mariadbd": "mariadb-server-core",
        "mariadb-install-db": "mariadb-server-core",
        "mariadb": "mariadb-client-core",
    }
    counted = ("requests", "connections")
    options: MariadbOptions
    _port: int
    _opened: int
    """The number of connections that this kit has opened since the start."""

    # up

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        self._opened = 0
        if (length := len(os.fsencode(self._socket))) > SOCKET_PATH_BYTES:
            raise fail(
                "lab-failed",
                place=self.context.service,
                reason=f"the path of its socket has {length} bytes, and the kernel takes {SOCKET_PATH_BYTES}: "
                f"{self._socket}",
                hint="Set SVLOAD_STATE to a folder with a shorter path, or give the study a shorter name.",
            )
        self._port = self.context.take_port("mariadb", self.options.port)
        work, me = self.context.work, user_name()
        # A server that starts deletes all temporary tables in its folder: in /tmp those of others, too.
        common = ["--no-defaults", f"--datadir={work / 'data'}", f"--tmpdir={work}", "--skip-name-resolve"]
        if os.geteuid() == 0:  # it refuses to run as root unless it is told to
            common.append(f"--user={me}")
        root = ["--auth-root-authentication-method=socket", f"--auth-root-socket-user={me}", "--skip-test-db"]
        self.tool([path_of("mariadb-install-db"), *common, *root], timeout_s=INITIALISED_WITHIN_S)
        self.spawn(
            "mariadbd",
            [
                path_of("mariadbd"),
                *common,
                f"--socket={self._socket}",
                f"--port={self._port}",
                f"--bind-address={self.context.address}",
                f"--pid-file={work / 'pid'}",
                f"--secure-file-priv={work}",
                "--skip-log-bin",
                *(() if self.context.trusted else ("--local-infile=0",)),
                f"--max-connections={self.options.connections}",
                f"--innodb-buffer-pool-size={self.options.buffer_pool}",
                *(f"--{name}={_SPELLING.value(value)}" for name, value in self.options.tuning.items()),
            ],
        )

    @property
    def _socket(self) -> Path:
        return self.context.work / "s"

    def condition(self) -> bool:
        """Return whether it listens; connections then wait until it is ready."""
        return self.accepts(self._port)

    def ready(self, timeout_s: float) -> None:
        """Wait until it answers, then create its database."""
        super().ready(timeout_s)
        self._make_database()

    def _make_database(self) -> None:
        """Create database, user and tables. Raises SvloadError lab-failed with MariaDB's message."""
        options = self.options
        name, user = f"`{options.database}`", f"'{options.user}'@'%'"
        rights = "ALL" if self.context.trusted else ", ".join(sorted(self.permits.names))
        self._ask(
            f"DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}; "
            f"CREATE OR REPLACE USER {user} IDENTIFIED BY '{options.password}'; GRANT {rights} ON {name}.* TO {user}"
        )
        if options.sql is None:
            return
        file = file_beside(self.context.study, options.sql)
        if file is None:
            raise fail(
                "lab-failed",
                place=self.context.service,
                reason=f"there is no file “{options.sql}” in the study's folder to make its tables",
                hint="Name a file next to the study.",
            )
        self._opened += 1
        # it stops at the first error in a file
        client = [*self._client(), f"--database={options.database}"]
        self.tool(["/bin/sh", "-c", 'exec "$@" < "$0"', file, *client], timeout_s=SQL_WITHIN_S)

    def describe(self) -> ServiceFacts:
        options, socket = self.options, str(self._socket)
        return self.service_facts(
            self._ask("SELECT VERSION()").strip(),
            self.endpoint(self._port, "tcp"),
            admin={"mariadb": {"socket": socket, "user": user_name()}},
            outputs={"socket": socket, "database": options.database, "user": options.user},
        )

    # while it runs

    def reset(self) -> dict[str, Any]:
        """Create database, user and tables again; proved by what it then reports about them."""
        try:
            self._make_database()
            sizes = self._ask(
                "SELECT COUNT(*), COALESCE(SUM(table_rows), 0) FROM information_schema.tables "
                f"WHERE table_schema = '{self.options.database}'"
            ).split()
            connected = self._shown("STATUS")["Threads_connected"]
        except SvloadError as why:
            raise self.reset_failed("mariadbd", why) from why
        return {"tables": int(sizes[0]), "rows": int(sizes[1]), "connections": int(connected) - 1}

    def counters(self) -> Counters:
        """Return exact counters: statements that read or change rows, and others' connections."""
        at_ns = time.monotonic_ns()
        return canonical(self._shown("STATUS"), at_ns, self._opened)

    def adjust(self, options: KitOptions) -> bool:
        assert isinstance(options, MariadbOptions)
        if options.connections != self.options.connections:
            self._ask(f"SET GLOBAL max_connections = {options.connections}")
        self.options = options
        return True

    def effective(self) -> list[Setting]:
        """Return each option and variable as the running server reports it, and the kernel's accept queue."""
        shown, options = self._shown("VARIABLES"), self.options
        asked = {"max_connections": options.connections, "innodb_buffer_pool_size": options.buffer_pool}
        settings = []
        for name, value in {**asked, **options.tuning}.items():
            wanted, found = _SPELLING.value(value), shown.get(name)
            same = found is not None and _plain(found) == _plain(wanted)
            if name != "back_log":
                settings.append(Setting(name=name, asked=wanted, found=wanted if same else found))
        asked_backlog = shown.get("back_log")
        backlog = None if asked_backlog is None else int(asked_backlog)
        return [*settings, self.backlog_setting("back_log", backlog, self._port)]

    def _shown(self, what: str) -> dict[str, str]:
        """Return `SHOW GLOBAL STATUS` or `VARIABLES` by name."""
        rows = (line.partition("\t") for line in self._ask(f"SHOW GLOBAL {what}").splitlines())
        return {name: value for name, _, value in rows}

    def _ask(self, statements: str) -> str:
        """Return the result of the administrator's statements, one line per row, columns separated by tabs.
        Raises SvloadError lab-failed."""
        self._opened += 1
        return self.tool([*self._client(), f"--execute={statements}"], timeout_s=SQL_WITHIN_S)

    def _client(self) -> list[str]:
        """Return the command of its client as administrator."""
        where = [f"--socket={self._socket}", f"--user={user_name()}"]
        return [path_of("mariadb"), "--no-defaults", *where, "--batch", "--skip-column-names"]


_COUNTED = ("select", "insert", "insert_select", "update", "delete", "replace", "call_procedure")
"""Kinds of statements that count as requests; SHOW, which svload itself uses, is not one."""


def canonical(status: Mapping[str, str], at_ns: int, opened: int) -> Counters:
    """Return the global status under the canonical names, without the `opened` connections of the kit."""
    counted = {name: float(status[f"Com_{name}"]) for name in _COUNTED if f"Com_{name}" in status}
    values = {"requests": sum(counted.values())}
    if "Connections" in status:
        values["connections"] = float(status["Connections"]) - opened
    return Counters(at_ns=at_ns, values=values, raw={f"Com_{name}": count for name, count in counted.items()})


def _plain(text: str) -> str | float:
    """Return a value in a normalised form: numbers and sizes (`64M`), 1 for ON, capital letters."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?)([KMGT]?)", text.upper())
    if found:
        return float(found[1]) * float(1024 ** " KMGT".index(found[2] or " "))
    return {"ON": 1.0, "OFF": 0.0}.get(text.upper(), text.upper())
