"""Another account's messages beside each attack of `tests/hostile`, which are run one by one on the release build."""

import contextlib
import os
import re
import statistics
import struct
import subprocess
from pathlib import Path

from servers import ROOT

ROUNDS = 3
ATTACKS = ["cargo", "test", "--release", "--test", "blackbox", "--", "hostile::", "--nocapture", "--test-threads=1"]
# Tells the tests to put the other account on a server of its own, which is not attacked: what is slower there too
# beside an attack is slower because both share the machine.
ELSEWHERE = "HOSTILE_ELSEWHERE"
# Those for block requests, and those for what comes over the network.
KERNEL_THREADS = re.compile(r"kworker/\d+:\d+H|ksoftirqd/\d+")
# The promise: beside an attack the p99 is at most so many times what it is without.
TIMES_MAX = 2
FIGURES = re.compile(r"hostile: (.*): p99 of the neighbour's (messages|lists) ([\d.]+) ms alone, ([\d.]+) ms beside, "
                     r"at worst [\d.]+ ms, (\d+) MiB")


class Hostile:
    """`note` takes lines of the report."""

    def __init__(self, note):
        self.note = note

    def names(self):
        return ["hostile"]

    def run(self, wanted):
        if not wanted("hostile"):
            return
        rounds, elsewhere = {}, {}
        with processors_awake(), kernel_threads_at_once():
            for _ in range(ROUNDS):
                self.attacks(rounds, {})
                self.attacks(elsewhere, {ELSEWHERE: "1"})
        for (name, asked), figures in rounds.items():
            alone, beside, peak = medians(figures)
            alone_elsewhere, beside_elsewhere, _ = medians(elsewhere[name, asked])
            self.note(f"- {name}: p99 of another account's {asked} {alone:.2f} ms alone, {beside:.2f} ms beside, "
                      f"{beside / alone:.1f} × (target ≤ {TIMES_MAX} ×: {'met' if beside <= TIMES_MAX * alone else 'MISSED'}; "
                      f"of an account on another server {beside_elsewhere / alone_elsewhere:.1f} ×); {peak:.0f} MiB at most")

    def attacks(self, rounds, environment):
        """Runs each attack once and adds the figures that it printed to `rounds`."""
        ran = subprocess.run(ATTACKS, cwd=ROOT, env=dict(os.environ, **environment), text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        if ran.returncode:
            raise SystemExit(f"an attack failed:\n{ran.stdout[-5000:]}")
        figures = [found.groups() for line in ran.stdout.splitlines() if (found := FIGURES.search(line))]
        if not figures:
            raise SystemExit(f"no attack told its figures:\n{ran.stdout[-5000:]}")
        for name, asked, *of_attack in figures:
            rounds.setdefault((name, asked), []).append([float(figure) for figure in of_attack])


def medians(figures):
    return [statistics.median(column) for column in zip(*figures)]


@contextlib.contextmanager
def processors_awake():
    """Idle processors wait awake meanwhile, where that is allowed (root), as `cyclictest` has it: a virtual one
    that sleeps may take 11 ms to wake. The kernel's document is admin-guide/pm/cpuidle, "Power Management Quality
    of Service"."""
    try:
        latency = open("/dev/cpu_dma_latency", "wb", buffering=0)
    except OSError:
        yield
        return
    with latency:
        latency.write(struct.pack("i", 0))
        yield


@contextlib.contextmanager
def kernel_threads_at_once():
    """Kernel threads that a message needs run as soon as they are woken meanwhile, where that is allowed (root).
    The attacks' clients are on the server's own processors, and beside those Linux 6.18 let the thread that starts a
    flush wait up to 16 ms, whatever its priority among those that share."""
    threads = list(kernel_threads())
    schedule(threads, os.SCHED_FIFO, 1)
    try:
        yield
    finally:
        schedule(threads, os.SCHED_OTHER, 0)


def kernel_threads():
    """Those whose policy nobody has changed: the others keep theirs."""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        thread = int(comm.parent.name)
        # A process may have ended meanwhile.
        with contextlib.suppress(OSError):
            if KERNEL_THREADS.match(comm.read_text()) and os.sched_getscheduler(thread) == os.SCHED_OTHER:
                yield thread


def schedule(threads, policy, priority):
    for thread in threads:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(thread, policy, os.sched_param(priority))
