"""How variables of an inventory become SSH options, and the commands that start workers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from svload.fleet.inventory import Member
from svload.fleet.reaching import reach_of
from svload.host.machines.reach import PYTHON
from svload.model.errors import SvloadError

MEMBER = Member("gen1", "192.0.2.11", True, False, "brno", 17700)


def words(**variables: Any) -> list[str]:
    return reach_of(MEMBER, variables).words("svload.x", {"-R": 5000, "-L": 6000})


def test_ssh_gets_the_same_options_as_ansible() -> None:
    found = words(
        ansible_host="198.51.100.7", ansible_port=2222, ansible_user="ops", ansible_ssh_private_key_file="/k",
        ansible_ssh_common_args="-o ProxyJump=gate -F /dev/null", ansible_ssh_extra_args="-4",
    )  # fmt: skip
    options = " ".join(found)
    for expected in ("-p 2222", "-l ops", "-i /k", "-o ProxyJump=gate -F /dev/null", "-4"):
        assert expected in options
    assert found[:2] == ["ssh", "-T"]
    assert found[-2:] == ["198.51.100.7", f"exec {PYTHON} -P -m svload.x"]


def test_no_question_is_asked_and_a_silent_host_is_lost() -> None:
    options = " ".join(words())
    for expected in ("BatchMode=yes", "ServerAliveInterval=2", "ExitOnForwardFailure=yes"):
        assert f"-o {expected}" in options
    assert "-R 5000:127.0.0.1:5000" in options
    assert "-L 6000:127.0.0.1:6000" in options


def test_svload_is_where_it_was_installed_or_where_the_inventory_says() -> None:
    assert reach_of(MEMBER, {}).python == "~/.svload-fleet/venv/bin/python"
    assert reach_of(MEMBER, {"svload_home": "/opt/sv/"}).python == "/opt/sv/venv/bin/python"
    assert words(svload_python="/my python")[-1] == "exec '/my python' -P -m svload.x"
    assert words(svload_home="~/a b")[-1] == "exec ~/'a b/venv/bin/python' -P -m svload.x"


def test_this_machine_needs_no_ssh() -> None:
    found = reach_of(MEMBER, {"ansible_connection": "local"})
    assert found.ssh == ()
    assert found.words("svload.x", {"-R": 1, "-L": 2}) == [sys.executable, "-P", "-m", "svload.x"]
    assert found.site == "brno"


def test_arguments_with_an_open_quotation_are_an_error_of_the_inventory() -> None:
    with pytest.raises(SvloadError, match="SSH arguments of gen1 can't be split"):
        words(ansible_ssh_common_args="-o ProxyCommand='ssh -W")
