"""Load from wrk, and what it cost the server. Knows no scenario."""

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

CONNECTIONS = 64
THREADS = 2


@dataclass
class Ids:
    """Lines of a file of ids: where they begin, how many."""
    file: Path
    start: int = 0
    count: int = 10**9

    def part(self, start, count):
        return Ids(self.file, self.start + start, count)


@dataclass
class Cost:
    """One run against one server."""
    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float
    bytes_each: float
    cpu_us: float
    by_thread: dict

    @property
    def each_second(self):
        return self.requests / self.seconds


def wrk(server, kind, ids, seconds, seen=None, seed=1):
    command = ["wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "--timeout", "10s",
               "-s", Path(__file__).parent / "requests.lua", server.address(), "--",
               f"kind={kind}", f"key={server.key}", f"seed={seed}"]
    if ids:
        command += [f"ids={ids.file}", f"from={ids.start}", f"count={ids.count}"]
    if seen:
        command += [f"seen={seen}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    results = [line[7:] for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
    if not results:
        raise SystemExit(f"wrk failed: {ended.stdout}{ended.stderr}")
    return json.loads(results[0])


def measure(server, kind, ids, seconds, seed=1):
    before, threads_before = server.cpu_seconds(), server.cpu_by_thread()
    seen = wrk(server, kind, ids, seconds, seed=seed)
    used, threads_after = server.cpu_seconds() - before, server.cpu_by_thread()
    each = 1e6 / max(1, seen["requests"])
    by_thread = {name: (after - threads_before.get(name, 0)) * each for name, after in threads_after.items()}
    return Cost(seen["requests"], seen["seconds"], seen["refused"] + seen["broken"], seen["p50_ms"], seen["p99_ms"],
                seen["bytes"] / max(1, seen["requests"]), used * each, by_thread)


def make(server, kind, ids, target, file, count):
    """Creates through HTTP until `count()` has reached the target, and leaves the ids in a file, in random order."""
    parts = [Path(f"{file}.{number}") for number in range(1, THREADS + 1)]
    have, rate, rounds = count(), 0, 0
    while have < target:
        seconds = min(20, max(1, (target - have) / rate if rate else 1))
        rounds += 1
        rate = wrk(server, kind, ids, seconds, seen=file, seed=rounds)["requests"] / max(1, round(seconds))
        have = count()
    lines = [line for part in parts for line in part.read_text().splitlines(keepends=True)]
    random.Random(1).shuffle(lines)
    Path(file).write_text("".join(lines))
    for part in parts:
        part.unlink()
    return Ids(Path(file), 0, len(lines))
