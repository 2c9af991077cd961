"""Kinds of request, each measured on both servers in turns, and the table of what they cost."""

import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

import load
from load import measure

ROUNDS = 3


@dataclass
class Scenario:
    """One kind of request. `ids` gives each round its own; `target` is in times the bare server's CPU a request."""
    server: object
    name: str
    title: str
    kind: str
    ids: object
    target: float | None = None
    per_second: int | None = None
    warm: str | None = None
    actor: str = "conversation"


@dataclass
class Result:
    scenario: Scenario
    bare: load.Cost
    ours: load.Cost
    ratio: float
    requests: int
    failed: int
    activations: float


class Table:
    """What was measured of each scenario, in turns with the bare server."""

    def __init__(self, bare, folder, quick, profiled):
        self.bare, self.folder, self.quick, self.profiled = bare, folder, quick, profiled
        self.seconds = 1 if quick else 5
        self.results = []

    def add(self, scenario):
        server = scenario.server
        def activations():
            return server.actors("actors_activations_total", scenario.actor)
        bares, ours, activated = [], [], activations()
        for number in range(ROUNDS):
            ids = scenario.ids(number)
            if scenario.warm:
                # Long enough that each of the ids is activated.
                load.wrk(server, scenario.warm, ids, 1 if self.quick or not ids.count > 1_000 else 5)
                activated = activations() if number == 0 else activated
            order = [(self.bare, bares), (server, ours)]
            for measured, costs in order if number % 2 == 0 else reversed(order):
                costs.append(measure(measured, scenario.kind, ids, self.seconds, seed=number))
        ratio = statistics.median(our.cpu_us / its.cpu_us for its, our in zip(bares, ours))
        requests = sum(cost.requests for cost in ours)
        result = Result(scenario, middle(bares), middle(ours), ratio, requests,
                        sum(cost.failed for cost in bares + ours), (activations() - activated) / requests)
        print(row(result), flush=True)
        self.results.append(result)
        if self.profiled:
            self.profile(scenario)
        return result

    def profile(self, scenario):
        server = scenario.server
        data, text = self.folder / "perf.data", self.folder / f"profile.{scenario.name}"
        record = subprocess.Popen(["perf", "record", "-q", "-F", "1999", "-e", "cpu-clock", "-p",
                                   str(server.process.pid), "-o", data, "--", "sleep", str(self.seconds)])
        load.wrk(server, scenario.kind, scenario.ids(0), self.seconds + 1, seed=ROUNDS)
        record.wait()
        for name, columns in (("symbols", "overhead,comm,symbol"), ("modules", "overhead,comm,dso")):
            report = ["perf", "report", "-i", data, "--stdio", "--percent-limit", "0.3", "--fields", columns]
            seen = subprocess.run(report, capture_output=True, text=True).stdout
            lines = [" ".join(line.split()) for line in seen.splitlines() if line.strip() and line[0] != "#"]
            Path(f"{text}.{name}").write_text("\n".join(lines) + "\n")

    def rows(self):
        return ["| | bare µs | Colloquy µs | ratio | target | | bare/s | Colloquy/s | p50 / p99 ms | bytes, bare / ours |",
                "|---|---|---|---|---|---|---|---|---|---|", *(row(result) for result in self.results)]

    def threads(self):
        """Where the CPU went."""
        lines = ["CPU by thread, µs a request:", ""]
        for result in self.results:
            shares = sorted(result.ours.by_thread.items(), key=lambda share: -share[1])
            lines.append(f"- {result.scenario.name}: " + ", ".join(f"{name} {us:.1f}" for name, us in shares if us >= 0.1))
        return lines


def middle(costs):
    """The run of median CPU; its other figures go with it."""
    return sorted(costs, key=lambda cost: cost.cpu_us)[len(costs) // 2]


def row(result):
    scenario, its, ours = result.scenario, result.bare, result.ours
    if scenario.per_second:
        target, met = f"≥ {scenario.per_second:,}/s", ours.each_second >= scenario.per_second
    else:
        target, met = (f"≤ {scenario.target} ×", result.ratio <= scenario.target) if scenario.target else ("", None)
    verdict = {True: "met", False: "MISSED", None: ""}[met]
    if result.failed:
        verdict += f" ({result.failed} FAILED)"
    title = scenario.title
    if scenario.kind.startswith(("get", "document_get")):
        title += f" ({result.activations:.2f} activations a request)"
    return (f"| {title} | {its.cpu_us:.1f} | {ours.cpu_us:.1f} | {result.ratio:.2f} | {target} | {verdict} | "
            f"{its.each_second:,.0f} | {ours.each_second:,.0f} | {ours.p50_ms:.1f} / {ours.p99_ms:.1f} | "
            f"{its.bytes_each:,.0f} / {ours.bytes_each:,.0f} |")
