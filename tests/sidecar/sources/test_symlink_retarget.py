"""The path that is a link, and then a link to another file, as kubelet keeps its logs."""

from pathlib import Path

from ddwatch_sidecar.sources.log_file import LogFile

from ddwatch.core.records import Rotation, SourceFault
from tests.fakes.clock import Clock
from tests.sidecar.sources.reading import only, story


def point(link: Path, target: Path) -> None:
    """As kubelet does: the new link is renamed over the old one."""
    fresh = link.with_name("fresh-link")
    fresh.symlink_to(target)
    fresh.rename(link)


def test_a_link_to_the_next_container_s_log_is_a_rotation(tmp_path: Path) -> None:
    clock, link = Clock(), tmp_path / "sglang.log"
    pod = tmp_path / "pod"
    pod.mkdir()
    (pod / "0.log").write_bytes(b"one\n")
    point(link, pod / "0.log")
    source = LogFile(link)
    assert story(source.poll(clock.now)) == ["<up>", "one"]
    with (pod / "0.log").open("ab") as file:
        file.write(b"last words\n")
    (pod / "1.log").write_bytes(b"two\n")
    point(link, pod / "1.log")
    items = source.poll(clock.advance(0.2))
    assert story(items) == ["last words", "<rotation>", "two"]
    assert "sglang.log was rotated to 1.log" in only(Rotation, items)[0].detail
    source.close()


def test_two_retargets_between_two_looks_are_a_gap(tmp_path: Path) -> None:
    clock, link = Clock(), tmp_path / "sglang.log"
    (tmp_path / "0.log").write_bytes(b"one\n")
    point(link, tmp_path / "0.log")
    source = LogFile(link)
    source.poll(clock.now)
    (tmp_path / "1.log").write_bytes(b"never seen\n")
    (tmp_path / "2.log").write_bytes(b"three\n")
    point(link, tmp_path / "2.log")
    assert story(source.poll(clock.advance(0.2))) == ["<gap rotated>", "three"]
    source.close()


def test_the_target_is_rotated_by_rename(tmp_path: Path) -> None:
    clock, link, target = Clock(), tmp_path / "sglang.log", tmp_path / "0.log"
    target.write_bytes(b"one\n")
    point(link, target)
    source = LogFile(link)
    source.poll(clock.now)
    target.rename(tmp_path / "0.log.20260501-120000")
    target.write_bytes(b"two\n")
    assert story(source.poll(clock.advance(0.2))) == ["<rotation>", "two"]
    source.close()


def test_a_link_that_dangles_for_a_while(tmp_path: Path) -> None:
    clock, link, target = Clock(), tmp_path / "sglang.log", tmp_path / "0.log"
    point(link, target)
    source = LogFile(link)
    (fault,) = only(SourceFault, source.poll(clock.now))
    assert (fault.waiting, "is a link to" in fault.reason) == (True, True)
    target.write_bytes(b"one\n")
    assert story(source.poll(clock.advance(0.2))) == ["<up>", "one"]
    target.unlink()
    source.poll(clock.advance(0.2))
    assert story(source.poll(clock.advance(2))) == ["<waiting>"]
    target.write_bytes(b"two\n")
    assert story(source.poll(clock.advance(0.2))) == ["<up>", "<gap replaced>", "two"]
    source.close()
