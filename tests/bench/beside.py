"""Messages at a steady pace, alone and beside other work: how much later they are answered."""

import os
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from crowd import Crowd

MESSAGES_PER_SECOND = 500
# What nobody should notice.
TARGET = "(target: the p99 changes by ≤ 10 %)"


class BesideScenario:
    """Messages beside something, on a server of its own, as `beside` measures it; `note` takes lines of the report."""

    def __init__(self, scenario, server, folder, note):
        self.scenario, self.server, self.folder, self.note = scenario, server, folder, note

    def names(self):
        return [self.scenario]

    def run(self, wanted):
        if not wanted(self.scenario):
            return
        self.server.start()
        try:
            self.server.make_account()
            self.beside()
        finally:
            self.server.end()


class Beside:
    """Messages to 64 conversations of a server, from clients that keep off the last core: they are elsewhere, as a rule."""

    def __init__(self, server, ids, seconds):
        self.ids, self.seconds = ids, seconds
        self.crowd = Crowd(server, sorted(os.sched_getaffinity(0))[:-1])

    def paced(self):
        self.crowd.ask("clear")
        self.crowd.send(self.ids, MESSAGES_PER_SECOND, MESSAGES_PER_SECOND * self.seconds)
        return self.crowd.ask("seen")["answer"]

    def compare(self, rounds, begin, settle=lambda: None):
        """Runs alone and beside what `begin` begins, in turn. Gives both, and what each `end` of that gave."""
        alone, beside, work = [], [], []
        self.paced()
        for number in range(rounds):
            for is_beside in [False, True] if number % 2 == 0 else [True, False]:
                if is_beside:
                    begun = begin()
                    settle()
                    begun.start()
                    beside.append(self.paced())
                    work.extend(begun.end())
                else:
                    settle()
                    alone.append(self.paced())
        return alone, beside, work

    def end(self):
        self.crowd.end()


class Repeating:
    """What is done `at_once` times, again and again, until it is ended: `once`, with what `begin` gives each of those who do it."""

    def __init__(self, at_once=1):
        self.at_once, self.ended = at_once, threading.Event()

    def begin(self):
        return None

    def start(self):
        those = ThreadPoolExecutor(self.at_once)
        self.running = [those.submit(self.run) for _ in range(self.at_once)]

    def end(self):
        """Seconds that each took, those that were under way too."""
        self.ended.set()
        return [seconds for one in self.running for seconds in one.result()]

    def run(self):
        took, given = [], self.begin()
        while not took or not self.ended.is_set():
            begun = time.monotonic()
            self.once(given)
            took.append(time.monotonic() - begun)
        return took


def told(alone, beside, what):
    """The medians of both, with each run."""
    parts = []
    for part in ("p50", "p99", "max"):
        medians = [statistics.median(run[part] for run in runs) for runs in (alone, beside)]
        every = ["/".join(f"{run[part]:.1f}" for run in runs) for runs in (alone, beside)]
        parts.append(f"{part} {medians[0]:.2f} ms ({every[0]}), beside {what} {medians[1]:.2f} ms ({every[1]}), "
                     f"{medians[1] / medians[0] - 1:+.0%}")
    return "; ".join(parts)
