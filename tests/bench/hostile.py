"""Another account's messages beside each attack of `tests/hostile`, which are run one by one on the release build."""

import re
import statistics
import subprocess

from servers import ROOT

ROUNDS = 3
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
        rounds = {}
        for _ in range(ROUNDS):
            for name, asked, *figures in self.attacks():
                rounds.setdefault((name, asked), []).append([float(figure) for figure in figures])
        for (name, asked), figures in rounds.items():
            alone, beside, peak = (statistics.median(column) for column in zip(*figures))
            self.note(f"- {name}: p99 of another account's {asked} {alone:.2f} ms alone, {beside:.2f} ms beside, "
                      f"{beside / alone:.1f} × (target ≤ {TIMES_MAX} ×: {'met' if beside <= TIMES_MAX * alone else 'MISSED'}); "
                      f"{peak:.0f} MiB at most")

    def attacks(self):
        """The figures that each attack of one run printed."""
        command = ["cargo", "test", "--release", "--test", "blackbox", "--", "hostile::", "--nocapture", "--test-threads=1"]
        ran = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode:
            raise SystemExit(f"an attack failed:\n{ran.stdout[-5000:]}")
        figures = [found.groups() for line in ran.stdout.splitlines() if (found := FIGURES.search(line))]
        if not figures:
            raise SystemExit(f"no attack told its figures:\n{ran.stdout[-5000:]}")
        return figures
