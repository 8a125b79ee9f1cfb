"""The schedule cache on disk: hits in a new process, never a wrong schedule."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rangeify
from rangeify import Config, Tensor, disk_cache
from rangeify import functions as f
from rangeify.lowering import clear_schedule_cache, statistics

PROGRAM = """
import sys, numpy as np, rangeify
from rangeify import Config, Tensor, functions as f
from rangeify.lowering import statistics
x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
y = f.softmax(x @ x.T) + (x.sum(1, keepdims=True) + 1).contiguous()
schedule = rangeify.schedule(y, config=Config(schedule_cache=2, cache_directory=sys.argv[1]))
print(statistics.disk_hits, statistics.misses, [k.function_name for k in schedule.kernels], rangeify.run(schedule)[0].tolist())
"""


def run_program(directory: Path, seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def entries(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob("*") if p.is_file())


def make() -> Tensor:
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    return f.softmax(x) * 2 + x.sum(1, keepdims=True).contiguous()


def schedule(directory: Path) -> rangeify.Schedule:
    clear_schedule_cache()
    return rangeify.schedule(make(), config=Config(schedule_cache=2, cache_directory=str(directory)))


def test_a_new_process_hits(tmp_path: Path) -> None:
    """checklist 7: the second process lowers nothing and computes the same, under another hash seed."""
    first, second = run_program(tmp_path, "1"), run_program(tmp_path, "2")
    assert first.startswith("0 1 ")
    assert second.startswith("1 0 ")
    assert first[4:] == second[4:]
    assert len(entries(tmp_path)) == 1


def test_configuration_and_structure_are_in_the_name(tmp_path: Path) -> None:
    """checklist 8: another setting or another graph is another file; levels 0 and 1 touch no file."""
    for config in (Config(schedule_cache=0), Config(schedule_cache=1)):
        clear_schedule_cache()
        rangeify.schedule(make(), config=config)
    schedule(tmp_path)
    assert len(entries(tmp_path)) == 1
    clear_schedule_cache()
    rangeify.schedule(
        make(), config=Config(schedule_cache=2, cache_directory=str(tmp_path), fusion="reference")
    )
    rangeify.schedule(make() + 1, config=Config(schedule_cache=2, cache_directory=str(tmp_path)))
    assert len(entries(tmp_path)) == 3


def test_a_write_cut_off_anywhere_is_a_miss(tmp_path: Path) -> None:
    """An entry truncated at 50 places, overwritten, or emptied is never used; the schedule is right each
    time.
    """
    want = [k.function_name for k in schedule(tmp_path).kernels]
    (path,) = entries(tmp_path)
    whole = path.read_bytes()
    damaged = [whole[: len(whole) * i // 50] for i in range(50)]
    damaged += [b"", b"{}", whole.replace(b"32", b"33", 1), whole[:-3] + b"}}}", b"\xff\xfe" + whole]
    for text in damaged:
        path.write_bytes(text)
        before = statistics.disk_hits
        assert [k.function_name for k in schedule(tmp_path).kernels] == want
        assert statistics.disk_hits == before
        assert path.read_bytes() == whole
    before = statistics.disk_hits
    assert [k.function_name for k in schedule(tmp_path).kernels] == want
    assert statistics.disk_hits == before + 1


def test_a_process_killed_while_writing_leaves_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename is the last step: without it there is nothing that a reader could take for an entry."""

    def killed(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        schedule(tmp_path)
    assert entries(tmp_path) == []


KILLS = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np, rangeify
from rangeify import Config, Tensor, disk_cache
from rangeify.lowering import clear_schedule_cache, statistics

directory, seed = sys.argv[1], int(sys.argv[2])
config = Config(schedule_cache=2, cache_directory=directory)

def make():
    x = Tensor(np.arange(36, dtype=np.float32).reshape(6, 6))
    for i in range(10):
        x = (x.T * 2 + i).contiguous() - x.max(1, keepdims=True)
    return x

rng = random.Random(seed)
want = rangeify.schedule(make(), config=Config(schedule_cache=0))
right = rangeify.run(want)[0]
rangeify.schedule(make(), config=config)
(path,) = [p for p in Path(directory).rglob("*.json")]
text = path.read_text()
begin = time.perf_counter()
disk_cache.write(path, text)
writing = time.perf_counter() - begin
misses = unfinished = rounds = 0
while rounds < 50 or (not unfinished or misses in (0, rounds)) and rounds < 2000:
    rounds += 1
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        while True:  # killed in the middle of the first write or of a later one
            disk_cache.write(path, text)
    time.sleep(rng.uniform(0, (2, 10, 50)[rounds % 3] * writing))  # how long a new process takes to start is not known
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    unfinished = len(list(path.parent.glob(".new-*")))
    clear_schedule_cache()
    before = statistics.misses
    schedule = rangeify.schedule(make(), config=config)
    misses += statistics.misses - before
    assert [(k.body, k.buffers) for k in schedule.items] == [(k.body, k.buffers) for k in want.items]
assert schedule.to_json() == want.to_json()
assert np.array_equal(rangeify.run(schedule)[0], right)
clear_schedule_cache()
before = statistics.disk_hits
rangeify.schedule(make(), config=config)
assert statistics.disk_hits == before + 1
print(rounds, misses, unfinished)
"""


def test_a_process_killed_at_any_point_of_a_write_costs_at_most_the_entry(tmp_path: Path) -> None:
    """SIGKILL at 50 random points (at more where these miss a case): the next schedule is right, from the cache or not; both happen, and writes were
    really cut off."""
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(tmp_path), "7"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rounds, misses, unfinished = map(int, done.stdout.split())
    assert rounds >= 50
    assert 0 < misses < rounds
    assert unfinished > 0


def test_what_was_left_half_written_long_ago_is_removed(tmp_path: Path) -> None:
    schedule(tmp_path)
    (path,) = entries(tmp_path)
    old, young = path.parent / ".new-old", path.parent / ".new-young"
    for p in (old, young):
        p.write_text("half")
    os.utime(old, (1, 1))
    path.unlink()
    schedule(tmp_path)
    assert sorted(p.name for p in entries(tmp_path)) == [".new-young", path.name]


def test_entries_are_text_and_belong_to_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pickle: a digest and JSON. Another format is another file."""
    schedule(tmp_path)
    (path,) = entries(tmp_path)
    digest, _, payload = path.read_text().partition("\n")
    assert hashlib.sha256(payload.encode()).hexdigest() == digest
    assert sorted(json.loads(payload)) == ["linear", "reasons"]
    monkeypatch.setattr(disk_cache, "FORMAT", disk_cache.FORMAT + 1)
    schedule(tmp_path)
    assert len(entries(tmp_path)) == 2


def test_a_directory_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(schedule(blocked).kernels) == 2


def test_the_reasons_survive(tmp_path: Path) -> None:
    assert schedule(tmp_path).explain() == schedule(tmp_path).explain()
    assert "it is marked contiguous" in schedule(tmp_path).explain()


def test_threads_and_processes_share_the_cache(tmp_path: Path) -> None:
    results: list[list[str]] = []

    def work() -> None:
        for _ in range(5):
            results.append([k.function_name for k in schedule(tmp_path).kernels])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 40
    assert all(r == results[0] for r in results)


SHARED = """
import sys, threading, numpy as np, rangeify
from rangeify import Config, Tensor
from rangeify.lowering import clear_schedule_cache

config = Config(schedule_cache=2, cache_directory=sys.argv[1])
failures, texts = [], {}

def work(k):
    try:
        for i in range(6):
            n = (k + i) % 8 + 2
            x = Tensor(np.arange(n * n, dtype=np.float32).reshape(n, n))
            schedule = rangeify.schedule((x.T + 1).contiguous() @ x, config=config)
            a = np.arange(n * n, dtype=np.float32).reshape(n, n)
            assert np.array_equal(rangeify.run(schedule)[0], (a.T + 1) @ a)
            assert texts.setdefault(n, schedule.to_json()) == schedule.to_json()
            if i % 3 == 2:
                clear_schedule_cache()
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(failures, sorted(texts))
"""


def test_two_processes_of_eight_threads_share_the_cache(tmp_path: Path) -> None:
    """Every schedule is right and every entry whole, whoever wrote it."""
    command = [sys.executable, "-c", SHARED, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate(timeout=120)[0] for p in running] == [f"[] {list(range(2, 10))}\n"] * 2
    assert len(entries(tmp_path)) == 8
    assert all(disk_cache.load(p) is not None for p in entries(tmp_path))


def test_two_processes_at_once(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", PROGRAM, str(tmp_path)] for _ in range(2)]
    running = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands]
    outputs = [p.communicate(timeout=60)[0] for p in running]
    assert outputs[0][4:] == outputs[1][4:] != ""
    assert len(entries(tmp_path)) == 1


def test_the_default_directory_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.cache_directory("") == tmp_path / "rangeify"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert disk_cache.cache_directory("").name == "rangeify"
    assert disk_cache.cache_directory("/x") == Path("/x")
