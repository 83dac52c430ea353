"""What traffic of an untrusted study may ask of real servers: only what their kits allow."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import completed
from tests.watch.watched import Watched

from svload.host.machine.linux import descriptors
from svload.host.machine.sock_diag import listening_sockets
from svload.lab import Lab, all_kits
from svload.lab.kits.redis import Redis, Refused, _known_to
from svload.model.facts import ServiceFacts

from .conftest import fetched, redis, settled, spec

pytestmark = pytest.mark.real
Say = Callable[..., Any]


def listening(pid: int) -> set[tuple[str, int]]:
    """Return the addresses of the TCP sockets on which a process listens."""
    held = descriptors(pid)
    return {(one.address, one.port) for one in listening_sockets() if f"socket:[{one.inode}]" in held}


@pytest.fixture
def store(needs: Callable[..., None], up: Any) -> Lab:
    """Run the Redis of an untrusted study; only the list of commands prevents DEBUG and MODULE."""
    needs("redis-server")
    tuning = {"enable-debug-command": "yes", "enable-module-command": "yes"}
    return up(spec("store", "redis", tuning=tuning))


@contextmanager
def administrator(facts: ServiceFacts) -> Iterator[Say]:
    with redis(facts.endpoints[0]) as say:
        where = facts.admin["redis"]
        assert say("AUTH", where["user"], Path(where["password_file"]).read_text()) == "OK"
        yield say


def state_of(facts: ServiceFacts) -> dict[str, Any]:
    """Return what traffic must not change: settings, users, programs, replication, listening addresses."""
    with administrator(facts) as say:
        told = str(say("INFO", "replication")).splitlines()
        asks = ("CONFIG GET *", "ACL LIST", "MODULE LIST", "FUNCTION LIST")
        return {ask: say(*ask.split()) for ask in asks} | {
            "replication": [one for one in told if one.startswith(("role", "master_host", "connected_"))],
            "listens": listening(facts.processes[0].pid),
        }


def every_command(facts: ServiceFacts) -> dict[str, list[str]]:
    """Return each command and subcommand that the server lists, with its minimum number of words."""
    with administrator(facts) as say:
        listed = say("COMMAND", "LIST")
        names = [name for name in listed if not any(one.startswith(f"{name}|") for one in listed)]
        arity = {name: abs(say("COMMAND", "INFO", name)[0][1]) for name in names}
    words = {name: name.split("|") for name in names}
    return {name: words[name] + ["k"] * (arity[name] - len(words[name])) for name in names}


def test_redis_refuses_each_command_outside_the_list(store: Lab) -> None:
    facts = store.facts()["store"]
    kit = all_kits()["redis"]
    before, commands = state_of(facts), every_command(facts)
    assert len(commands) > 300, "it lists some 360, without those that are only a name for several"
    outside = {name for name in commands if name.split("|")[0] not in kit.permits.names}
    assert len(outside) > 150
    wrong = []
    for name, words in commands.items():
        with redis(facts.endpoints[0]) as say:
            answer = str(say(*words))
        if ("NOPERM" in answer) != (name in outside):
            wrong.append((name, answer))
    assert wrong == []
    assert state_of(facts) == before


ATTACKS: tuple[Sequence[str], ...] = (
    ("CONFIG", "SET", "protected-mode", "no"),
    ("CONFIG", "SET", "bind", "0.0.0.0"),
    ("MIGRATE", "127.0.0.1", "9", "k", "0", "100"),
    ("REPLICAOF", "127.0.0.1", "9"),
    ("SLAVEOF", "127.0.0.1", "9"),
    ("ACL", "SETUSER", "default", "+@all"),
    ("FLUSHALL",),
    ("EVAL", "return redis.call('config', 'set', 'hz', '50')", "0"),
    ("SHUTDOWN", "NOSAVE"),
)


def test_redis_is_not_reconfigured_by_traffic(store: Lab) -> None:
    facts = store.facts()["store"]
    before = state_of(facts)
    for words in ATTACKS:
        with redis(facts.endpoints[0]) as say:
            assert "NOPERM" in say(*words)
            assert "NOPERM" in say(*(word.lower() for word in words))
            say("MULTI")
            assert str(say(*words)).startswith("refused"), "NOPERM, or not in a transaction at all"
        assert state_of(facts) == before, words
    assert store.alive() == []


def test_redis_takes_all_from_the_traffic_of_a_trusted_study(needs: Callable[..., None], up: Any) -> None:
    needs("redis-server")
    facts = up(spec("store", "redis"), trusted=True).facts()["store"]
    before = state_of(facts)
    with redis(facts.endpoints[0]) as say:
        assert say("CONFIG", "SET", "hz", "50") == "OK"
        assert say("FLUSHALL") == "OK"
    assert state_of(facts) != before, "a change is seen where one is made"


def test_redis_counts_what_traffic_asks_and_nothing_of_svload(store: Lab) -> None:
    facts = store.facts()["store"]
    assert re.fullmatch("[0-9a-f]{64}", Path(facts.admin["redis"]["password_file"]).read_text())
    assert Path(facts.admin["redis"]["password_file"]).stat().st_mode & 0o077 == 0
    store.reset(["store"])
    monitor = Watched({"admin": facts.admin}, "redis")
    before = store.counters()["store"].values
    with redis(facts.endpoints[0]) as say:
        assert [say("SET", "a", "1"), say("GET", "a"), say("GET", "b")] == ["OK", "1", None]
    after = store.counters()["store"].values
    wanted = {"requests": 3.0, "hits": 1.0, "misses": 1.0, "connections": 1.0}
    assert {name: after[name] - before[name] for name in wanted} == wanted
    assert monitor.sample()["keys"] == 1.0


def test_an_older_redis_gets_only_commands_that_it_knows() -> None:
    old, new = _known_to("Redis server v=6.0.16 sha=0"), _known_to("Redis server v=7.2.4 sha=0")
    assert old < new
    assert {"get", "set"} <= old
    assert not {"getex", "lmpop"} & old


def test_an_older_redis_is_emptied_as_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(kit: Redis, *command: str) -> object:
        if "SYNC" in command:
            raise Refused("Redis answered “ERR syntax error”")
        return {"DBSIZE": 0, "INFO": "used_memory:1\nconnected_clients:1"}.get(command[0], "OK")

    monkeypatch.setattr(Redis, "_ask", answer)
    assert Redis.__new__(Redis).reset() == {"keys": 0, "used_memory": 1.0, "connected_clients": 1.0}


ADMINISTRATES = {
    "alter_db": "ALTER DATABASE lab CHARACTER SET latin1",
    "alter_db_upgrade": "ALTER DATABASE `#mysql50#a-b` UPGRADE DATA DIRECTORY NAME",
    "alter_event": "ALTER EVENT lab.e DISABLE",
    "alter_function": "ALTER FUNCTION lab.f COMMENT 'x'",
    "alter_procedure": "ALTER PROCEDURE lab.p COMMENT 'x'",
    "alter_server": "ALTER SERVER s OPTIONS (HOST '127.0.0.1')",
    "alter_sequence": "ALTER SEQUENCE lab.s MAXVALUE 9",
    "alter_table": "ALTER TABLE lab.rows ADD COLUMN x INT",
    "alter_user": "ALTER USER root@localhost IDENTIFIED BY 'x'",
    "backup": "BACKUP STAGE START",
    "backup_lock": "BACKUP LOCK lab.rows",
    "binlog": "BINLOG ''",
    "change_master": "CHANGE MASTER TO MASTER_HOST='127.0.0.1'",
    "create_db": "CREATE DATABASE other",
    "create_event": "CREATE EVENT lab.e ON SCHEDULE EVERY 1 DAY DO SET @a = 1",
    "create_function": "CREATE FUNCTION lab.f() RETURNS INT RETURN 1",
    "create_index": "CREATE INDEX x ON lab.rows (id)",
    "create_procedure": "CREATE PROCEDURE lab.p() SELECT 1",
    "create_role": "CREATE ROLE boss",
    "create_sequence": "CREATE SEQUENCE lab.s",
    "create_server": "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1')",
    "create_table": "CREATE TABLE lab.more (id INT)",
    "create_trigger": "CREATE TRIGGER lab.t BEFORE INSERT ON lab.rows FOR EACH ROW SET @a = 1",
    "create_udf": "CREATE FUNCTION f RETURNS STRING SONAME 'f.so'",
    "create_user": "CREATE USER boss IDENTIFIED BY 'x'",
    "create_view": "CREATE VIEW lab.v AS SELECT 1",
    "drop_db": "DROP DATABASE lab",
    "drop_event": "DROP EVENT lab.e",
    "drop_function": "DROP FUNCTION lab.f",
    "drop_index": "DROP INDEX x ON lab.rows",
    "drop_procedure": "DROP PROCEDURE lab.p",
    "drop_role": "DROP ROLE boss",
    "drop_server": "DROP SERVER s",
    "drop_sequence": "DROP SEQUENCE lab.s",
    "drop_table": "DROP TABLE lab.rows",
    "drop_trigger": "DROP TRIGGER lab.t",
    "drop_user": "DROP USER lab",
    "drop_view": "DROP VIEW lab.v",
    "flush": "FLUSH PRIVILEGES",
    "grant": "GRANT ALL ON *.* TO lab",
    "grant_role": "GRANT boss TO lab",
    "install_plugin": "INSTALL SONAME 'ha_connect'",
    "load": "LOAD DATA INFILE '/etc/passwd' INTO TABLE lab.rows",
    "lock_tables": "LOCK TABLES lab.rows WRITE",
    "purge": "PURGE BINARY LOGS TO 'x'",
    "purge_before_date": "PURGE BINARY LOGS BEFORE '2020-01-01'",
    "rename_table": "RENAME TABLE lab.rows TO lab.gone",
    "rename_user": "RENAME USER lab TO boss",
    "reset": "RESET MASTER",
    "revoke": "REVOKE SELECT ON lab.* FROM lab",
    "revoke_all": "REVOKE ALL, GRANT OPTION FROM lab",
    "revoke_role": "REVOKE boss FROM lab",
    "set_option": "SET GLOBAL max_connections = 1",
    "show_binlog_events": "SHOW BINLOG EVENTS",
    "show_binlogs": "SHOW BINARY LOGS",
    "show_create_user": "SHOW CREATE USER root@localhost",
    "show_engine_status": "SHOW ENGINE INNODB STATUS",
    "show_binlog_status": "SHOW MASTER STATUS",
    "show_relaylog_events": "SHOW RELAYLOG EVENTS",
    "show_slave_hosts": "SHOW SLAVE HOSTS",
    "show_slave_status": "SHOW SLAVE STATUS",
    "shutdown": "SHUTDOWN",
    "start_slave": "START SLAVE",
    "stop_slave": "STOP SLAVE",
    "truncate": "TRUNCATE TABLE lab.rows",
    "uninstall_plugin": "UNINSTALL SONAME 'ha_connect'",
}  # fmt: skip
"""Statements as MariaDB counts them (Com_…), each with one that administrates."""
REFUSED = re.compile("denied|has disabled")
ELSE = {
    "every column of every user": "SELECT * FROM mysql.global_priv",
    "a file is written": "SELECT 1 INTO OUTFILE 'out'",
    "a file of the client is read": "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE lab.rows",
    "another user's password": "SET PASSWORD FOR root@localhost = PASSWORD('x')",
    "a log in a table": "SET GLOBAL general_log = ON",
    "a program of the server": "SET GLOBAL init_connect = 'SELECT 1'",
    "rights by a procedure": "EXECUTE IMMEDIATE 'GRANT ALL ON *.* TO lab'",
}  # fmt: skip
OF_ITS_OWN = frozenset(
    """
    admin_commands analyze assign_to_keycache begin call_procedure change_db check checksum commit compound_sql create_package
    create_package_body create_temporary_table dealloc_sql delete delete_multi do drop_package drop_package_body
    drop_temporary_table empty_query execute_immediate execute_sql get_diagnostics ha_close ha_open ha_read help insert
    insert_select kill optimize preload_keys prepare_sql release_savepoint repair replace replace_select resignal rollback
    rollback_to_savepoint savepoint select show_authors show_charsets show_collations show_contributors show_create_db
    show_create_event show_create_func show_create_package show_create_package_body show_create_proc show_create_table
    show_create_trigger show_databases show_engine_logs show_engine_mutex show_errors show_events show_explain show_analyze
    show_fields show_function_status show_generic show_grants show_keys show_open_tables show_package_status
    show_package_body_status show_plugins show_privileges show_procedure_status show_processlist show_profile
    show_profiles show_status show_storage_engines show_table_status show_tables show_triggers show_variables show_warnings
    signal start_all_slaves stop_all_slaves stmt_close stmt_execute stmt_fetch stmt_prepare stmt_reprepare stmt_reset stmt_send_long_data unlock_tables
    update update_multi xa_commit xa_end xa_prepare xa_recover xa_rollback xa_start
    """.split()  # noqa: SIM905
)
"""Statements about rows, its own connection, and what it may see in any case. Packages are procedures in
another dialect; KILL ends its own connections only; there are no replicas, since CHANGE MASTER is refused,
and no key cache but the default one, since SET GLOBAL is."""


@pytest.fixture
def database(needs: Callable[..., None], up: Any) -> Lab:
    needs("mariadbd")
    lab = up(spec("db", "mariadb"))
    made = ("CREATE TABLE lab.rows (id INT)", "INSERT INTO lab.rows VALUES (1)")
    assert told(lab, "root", *made, ADMINISTRATES["create_trigger"], "CREATE ROLE boss")[1] == {}
    return lab


def told(lab: Lab, user: str, *statements: str) -> tuple[list[str], dict[int, str]]:
    """Return the statements' answers, and which of them are refused: number → MariaDB's message."""
    where = lab.facts()["db"].outputs["socket"]
    words = ["mariadb", "--no-defaults", f"--socket={where}", f"--user={user}", "--batch", "--force"]
    words += ["--local-infile=1", *["--password=lab"] * (user == "lab")]
    ended = completed([*words, "--skip-column-names"], input=";\n".join(statements) + ";\n")
    errors = re.findall(r"^ERROR (\d+ \(\w+\)) at line (\d+): (.*)$", ended.stderr, re.MULTILINE)
    return ended.stdout.splitlines(), {int(line) - 1: f"{code} {why}" for code, line, why in errors}


def database_state(lab: Lab) -> list[Any]:
    users = "SELECT host, user, priv FROM mysql.global_priv ORDER BY 1, 2"
    schemas = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'lab'"
    shown = [f"SHOW {what}" for what in ("GLOBAL VARIABLES", "DATABASES", "PLUGINS", "ALL SLAVES STATUS")]
    tables = ("SELECT * FROM lab.rows", "SELECT * FROM mysql.db")
    pid = lab.facts()["db"].processes[0].pid
    return [told(lab, "root", *shown, users, schemas), told(lab, "root", *tables), listening(pid)]


def test_mariadb_refuses_each_statement_that_administrates(database: Lab) -> None:
    before = database_state(database)
    counted, _ = told(database, "root", "SHOW GLOBAL STATUS LIKE 'Com\\_%'")
    listed = {line.split("\t")[0].removeprefix("Com_") for line in counted}
    assert len(listed) > 150
    assert listed - ADMINISTRATES.keys() - OF_ITS_OWN == set(), "say of each whether it administrates"
    statements = {**{name: one for name, one in ADMINISTRATES.items() if name in listed}, **ELSE}
    _, refused = told(database, "lab", *statements.values())
    names = list(statements)
    text = {name: refused.get(number, "nothing") for number, name in enumerate(names)}
    assert {name: why for name, why in text.items() if not REFUSED.search(why)} == {}
    assert database_state(database) == before
    assert database.alive() == []


def test_mariadb_grants_what_its_kit_permits_and_no_more(database: Lab) -> None:
    kit = all_kits()["mariadb"]
    globally = "SELECT privilege_type FROM information_schema.user_privileges WHERE grantee LIKE '''lab''%'"
    mine = "SELECT table_schema, privilege_type FROM information_schema.schema_privileges WHERE grantee LIKE '''lab''%'"
    assert told(database, "root", globally)[0] == ["USAGE"]
    assert set(told(database, "root", mine)[0]) == {f"lab\t{name}" for name in kit.permits.names}
    statements = (
        "INSERT INTO lab.rows VALUES (2), (3)",
        "UPDATE lab.rows SET id = 4 WHERE id = 3",
        "DELETE FROM lab.rows WHERE id = 1",
        "SELECT id FROM lab.rows ORDER BY id",
        "CREATE TEMPORARY TABLE lab.some AS SELECT * FROM lab.rows",
    )
    assert told(database, "lab", *statements) == (["2", "4"], {})
    # a password that traffic sets for itself lasts until the reset
    assert told(database, "lab", "SET PASSWORD = PASSWORD('other')")[1] == {}
    database.reset(["db"])
    assert told(database, "lab", "SELECT 1") == (["1"], {})


def test_a_trusted_studys_user_owns_its_database(needs: Callable[..., None], up: Any) -> None:
    needs("mariadbd")
    lab = up(spec("db", "mariadb"), trusted=True)
    view = "CREATE VIEW lab.v AS SELECT * FROM lab.rows"
    assert told(lab, "lab", "CREATE TABLE lab.rows (id INT)", view, "DROP TABLE lab.rows")[1] == {}
    assert list(told(lab, "lab", "SET GLOBAL max_connections = 1")[1]) == [0]


METHODS = (
    "PURGE", "PURGEALL", "BAN", "REFRESH", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "MKCOL", "COPY", "MOVE",
    "PROPPATCH", "LOCK", "LINK", "RELOAD",
)  # fmt: skip


@pytest.fixture
def front(needs: Callable[..., None], up: Any) -> Lab:
    needs("nginx", "varnishd", "hitch")
    return up(spec("files", "nginx"), spec("cache", "varnish", of="files", tls="hitch"))


def asked(lab: Lab, service: str, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    [found] = fetched(lab.endpoints()[f"http://{service}"], path, method=method, **headers)
    return found


def ports(pids: Sequence[int]) -> set[int]:
    """Return the ports on which these processes and their children listen."""
    found: set[int] = set()
    for pid in pids:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found |= {port for _, port in listening(pid)} | ports([*map(int, children)])
    return found


def test_no_port_that_administrates_is_an_address_of_the_lab(front: Lab) -> None:
    facts = front.facts()
    known = {at.port for at in front.endpoints().values()}
    beside = {name: ports([one.pid for one in of.processes]) - known for name, of in facts.items()}
    status = int(facts["files"].admin["nginx"]["status_url"].rpartition(":")[2].partition("/")[0])
    assert beside["files"] == {status}
    assert len(beside["cache"]) == 2, "the port that hitch speaks PROXY to, and the one that takes commands"
    [command] = beside["cache"] - {facts["cache"].admin["proxy_protocol"]["port"]}
    with socket.create_connection(("127.0.0.1", command), HANG_S) as line:
        assert line.recv(100).startswith(b"107 "), "it asks for the secret"
        line.sendall(b"param.set default_ttl 1\n")
        assert not line.recv(1000).startswith(b"200 ")


def test_no_method_changes_what_nginx_and_varnish_serve(front: Lab) -> None:
    wanted = asked(front, "cache", "GET", "/1k")
    assert (wanted[0], len(wanted[1])) == (200, 1024)
    for method in METHODS:
        for service in ("files", "cache"):
            asked(front, service, method, "/1k", Destination="/other", **{"X-Purge": ".*", "X-Ban": ".*"})
    assert asked(front, "files", "GET", "/1k") == wanted
    assert asked(front, "files", "POST", "/status")[0] in (404, 405)
    before = front.counters()["cache"].values
    assert asked(front, "cache", "GET", "/1k") == wanted
    assert settled(front, "cache", {"hits": 1.0}, before) == {"hits": 1.0}
