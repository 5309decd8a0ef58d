"""Processes put together to servers."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.servers.grouping import Engine, Process, grouped

LAUNCH = ("python", "-m", "sglang.launch_server", "--model-path", "m", "--port", "31000")


def table(*rows: tuple[int, int, tuple[str, ...] | str]) -> list[Process]:
    return [
        Process(pid=pid, parent=parent, words=tuple(words.split()) if isinstance(words, str) else words)
        for pid, parent, words in rows
    ]


def only(processes: list[Process]) -> Engine:
    (engine,) = grouped(processes).engines
    return engine


def test_children_belong_to_their_launcher_through_everything_between() -> None:
    engine = only(
        table(
            (1, 0, "init"),
            (10, 1, "bash -c x"),
            (20, 10, LAUNCH),
            (21, 20, "python -c from multiprocessing.resource_tracker import main;main(5)"),
            (22, 20, "sglang::data_parallel_controller"),
            (23, 22, "sglang::scheduler_DP0_TP0"),
            (24, 22, "sglang::scheduler_DP1_TP0"),
            (25, 20, "sglang::detokenizer"),
            (30, 1, "sleep 5"),
        )
    )
    assert (engine.pid, engine.children, engine.schedulers) == (20, (22, 23, 24, 25), 2)
    assert engine.launch is not None
    assert engine.titles == ("data_parallel_controller", "scheduler_DP0_TP0", "scheduler_DP1_TP0", "detokenizer")


def test_a_launcher_without_children_is_a_server_that_starts() -> None:
    assert only(table((20, 1, LAUNCH))).schedulers == 0


def test_several_servers_stay_apart_and_a_fork_is_no_server_of_its_own() -> None:
    engines = grouped(
        table(
            (20, 1, LAUNCH),
            (21, 20, LAUNCH),
            (22, 21, "sglang::scheduler"),
            (40, 1, "sglang serve Qwen/Qwen3-8B"),
            (41, 40, "sglang::scheduler_TP0"),
        )
    ).engines
    assert [(engine.pid, engine.children) for engine in engines] == [(20, (21, 22)), (40, (41,))]


def test_an_engine_inside_another_program_is_found_by_its_children() -> None:
    engine = only(table((50, 1, "/opt/venv/bin/python serve_ours.py"), (51, 50, "sglang::scheduler_TP0")))
    assert (engine.pid, engine.launch, engine.children) == (50, None, (51,))


def test_a_launcher_that_named_itself_is_found_without_arguments() -> None:
    engine = only(
        table((60, 1, "sglang::http_server/tokenizer_manager"), (61, 60, "sglang::scheduler"), (1, 0, "systemd"))
    )
    assert (engine.pid, engine.launch, engine.children) == (60, None, (61,))


def test_children_of_a_killed_launcher_are_left_over() -> None:
    found = grouped(table((1, 0, "systemd"), (71, 1, "sglang::scheduler_TP0"), (72, 1, "sglang::scheduler_TP1")))
    assert found.engines == ()
    assert found.leftovers == (71, 72)


def test_a_table_that_contradicts_itself_ends() -> None:
    assert grouped(table((1, 2, "sglang::scheduler"), (2, 1, "sglang::detokenizer"))).leftovers == (1, 2)


PROCESS = st.builds(
    Process,
    pid=st.integers(0, 12),
    parent=st.none() | st.integers(0, 12),
    words=st.sampled_from([
        (), LAUNCH, ("sglang::scheduler",), ("sglang::http",), ("python", "x.py"), ("bash",), ("sglang", "serve"),
        ("",),
    ]),
)  # fmt: skip


@given(st.lists(PROCESS, max_size=30))
def test_every_titled_process_is_in_exactly_one_place(processes: list[Process]) -> None:
    found = grouped(processes)
    known = {process.pid: process for process in processes}
    placed = [pid for engine in found.engines for pid in (engine.pid, *engine.children)] + list(found.leftovers)
    assert len(placed) == len(set(placed))
    titled = {pid for pid, one in known.items() if one.words and one.words[0].startswith("sglang::")}
    assert titled <= set(placed) <= set(known)
