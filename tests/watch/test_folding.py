"""Folding of perf's output into stacks: the service's own processes, in the window, functions by short
names."""

from __future__ import annotations

import pytest

from svload.model.stacks import KERNEL
from svload.watch.folding import MOST_STACKS, OTHER, fold, short_name

SECOND = 1_000_000_000
PRINTED = """\
         swapper     0/0         0.000000000: PERF_RECORD_FORK(7:7):(1:1)
          server     7/7         0.000000000: PERF_RECORD_COMM: server:7/7
server     7/7        10.000000001:
\t            1215 (anonymous namespace)::answer (/opt/a b/server)
\t            10d5 main (/opt/a b/server)

server     7/9        11.500000000:
\tffffffff81a01234 tcp_sendmsg ([kernel.kallsyms])
\tffffffff81a01000 [unknown] ([unknown])
\t            1215 (anonymous namespace)::send_file (/opt/a b/server)
\t           271ca [unknown] (/usr/lib/libc.so.6)

          server     7/7        12.000000000: PERF_RECORD_FORK(20:20):(7:7)
with space 1  20/20       12.100000000:
\t            1215 checked (/opt/a b/server)

stranger    30/30       12.200000000:
\t            1215 main (/opt/other)

          server     7/7        12.300000000: PERF_RECORD_LOST lost 5
server     7/7        13.000000000:
\t            1215 late (/opt/a b/server)
""".splitlines()


def test_the_services_stacks_of_the_window_are_folded_from_the_outermost() -> None:
    found = fold(PRINTED, {7}, 10 * SECOND, 13 * SECOND)
    assert found.stacks == {
        "server;main;answer": 1,
        f"server;[libc.so.6];send_file;[kernel]{KERNEL};tcp_sendmsg{KERNEL}": 1,
        "with space 1;checked": 1,
    }
    assert (found.samples, found.lost) == (3, 5)
    window = {(1, 1): 4, (2, 0): 2}  # it begins with its first nanosecond and ends before its last
    for (later_ns, longer_ns), samples in window.items():
        assert fold(PRINTED, {7}, 10 * SECOND + later_ns, 13 * SECOND + longer_ns).samples == samples


def test_another_process_with_the_pid_of_an_ended_one_does_not_belong_to_the_service() -> None:
    assert fold(PRINTED, {30}, 0, 20 * SECOND).stacks == {"stranger;main": 1}
    again = [
        "stranger 30/30 12.400000000: PERF_RECORD_FORK(20:20):(30:30)",
        "stranger 20/20 12.500000000: ",
        "\t 1215 main (/opt/other)",
    ]
    assert fold([*PRINTED, *again], {7}, 12 * SECOND, 13 * SECOND).stacks == {"with space 1;checked": 1}


def test_a_thread_that_has_ended_bears_its_process_s_name() -> None:
    text = [
        "          server     7/7         0.000000000: PERF_RECORD_COMM: a server:7/7",
        "          server     7/7        1.000000000: PERF_RECORD_FORK(20:20):(7:7)",
        ":-1     7/-1        2.000000000: ",
        "\t ffffffff81a01234 do_exit ([kernel.kallsyms])",
        "",
        ":20    20/20        2.000000000: ",
        "\t 1215 main (/opt/server)",
    ]
    assert fold(text, {7}, 0, 9 * SECOND).stacks == {f"a server;do_exit{KERNEL}": 1, "a server;main": 1}


def test_nothing_that_perf_may_print_is_more_than_passed_over() -> None:
    for text in ([], ["", "Warning: nonsense", "\t zz (", "server 7/7 1.0:", ":8 8/8 2.0: ", ""]):
        assert fold(text, {7}, 0, 9 * SECOND).samples == 0


def test_of_very_many_stacks_the_frequent_ones_are_kept_and_no_sample_is_lost() -> None:
    text = []
    for number in range(MOST_STACKS + 10):
        for _ in range(2 if number == MOST_STACKS + 9 else 1):
            text += ["server 7/7 1.000000000: ", f"\t 1215 f{number} (/opt/server)", ""]
    found = fold(text, {7}, 0, 9 * SECOND)
    assert found.samples == sum(found.stacks.values()) == MOST_STACKS + 11
    assert found.stacks[f"server;f{MOST_STACKS + 9}"] == 2
    assert found.stacks[f"server;{OTHER}"] == 10


def test_a_deep_recursion_keeps_what_ran() -> None:
    text = ["server 7/7 1.000000000: ", "\t 1 leaf (/s)", *["\t 1 again (/s)"] * 500, "\t 1 main (/s)"]
    ((stack, _),) = fold(text, {7}, 0, 9 * SECOND).stacks.items()
    assert stack.endswith(";again;leaf")
    assert stack.count(";") == 100


@pytest.mark.parametrize(
    ("symbol", "short"),
    [
        ("(anonymous namespace)::send_file", "send_file"),
        ("(anonymous namespace)::send_file(int, int, long)", "send_file"),
        ("std::vector<int (*)(char)>::push_back(int const&)", "std::vector<int (*)(char)>::push_back"),
        ("answer [clone .isra.0]", "answer"),
        ("do_syscall_64", "do_syscall_64"),
        ("rest.constprop.0", "rest"),
        ("operator new(unsigned long)", "operator new"),
    ],
)
def test_a_name_is_short_but_whole(symbol: str, short: str) -> None:
    assert short_name(symbol) == short
