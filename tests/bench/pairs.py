"""Two builds of the server compared in pairs: both run, and take short turns under the same load. Called so:

    python3 -B tests/bench/pairs.py [--rounds N] [--only get,send] BEFORE AFTER

BEFORE and AFTER are paths of binaries; variables may be set for one of them: `NAME=VALUE,path/to/colloquy`. Shown are
medians of CPU and latency, and the median of AFTER / BEFORE over the pairs with its quartiles: a difference counts
where the quartiles lie on one side of 1."""

import argparse
import signal
import statistics
from pathlib import Path

import load
from load import Ids
from servers import ROOT, Colloquy

CUSTOMERS = 250
CONVERSATIONS = 10_000
DOCUMENTS = 1_000
# Kinds of request, and how many of the conversations they go to; none: to customers.
KINDS = {"get": 1_000, "list_status": 0, "send": 64, "mixed": 64, "create": None}
# Kinds of request that go to documents, and how many of them.
DOCUMENT_KINDS = {"document_get": DOCUMENTS, "document_list": 0, "document_update": 64, "document_create": 0}


class Build:
    """One of the two, with conversations and documents of its own."""

    def __init__(self, name, given, folder):
        *variables, binary = given.split(",")
        self.server = Colloquy(name, folder / f"pairs.{name}", (variable.split("=", 1) for variable in variables))
        self.server.command = [Path(binary).resolve()]
        self.server.start()
        self.server.make_account()
        self.customers = self.made("create_customer", None, CUSTOMERS, "customers")
        self.conversations = self.made("create", self.customers, CONVERSATIONS, "conversations")
        load.wrk(self.server, "get_each", self.conversations, 3)
        self.documents = self.made("document_create", None, DOCUMENTS, "documents", "/api/v1")
        load.wrk(self.server, "document_get_each", self.documents, 3)

    def made(self, kind, ids, wanted, what, interface="/v1"):
        file = self.server.folder / what
        return load.make(self.server, kind, ids, wanted, file, lambda: self.server.total(what, interface))

    def measure(self, kind, seconds, seed):
        if kind in DOCUMENT_KINDS:
            count = DOCUMENT_KINDS[kind]
            return load.measure(self.server, kind, self.documents.part(0, count) if count else None, seconds, seed)
        count = KINDS[kind]
        ids = self.customers if count is None else self.conversations.part(0, count) if count else None
        return load.measure(self.server, kind, ids, seconds, seed)


def compare(builds, kind, rounds, seconds):
    pairs = []
    for number in range(rounds):
        order = builds if number % 2 == 0 else builds[::-1]
        costs = {build: build.measure(kind, seconds, number) for build in order}
        pairs.append([costs[build] for build in builds])
    failed = sum(cost.failed for pair in pairs for cost in pair)
    if failed:
        raise SystemExit(f"{kind}: {failed} requests failed")
    def medians(figure):
        return " → ".join(f"{statistics.median(figure(pair[which]) for pair in pairs):.1f}" for which in (0, 1))
    def ratio(figure):
        low, middle, high = statistics.quantiles((figure(after) / figure(before) for before, after in pairs), n=4)
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"
    print(f"| {kind} | {medians(lambda cost: cost.cpu_us)} | {ratio(lambda cost: cost.cpu_us)} | "
          f"{medians(lambda cost: cost.p50_ms)} | {medians(lambda cost: cost.p99_ms)} | "
          f"{ratio(lambda cost: cost.each_second)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Compares two builds of the server in pairs.")
    parser.add_argument("--rounds", type=int, default=15, help="pairs of each kind of request")
    parser.add_argument("--seconds", type=int, default=1, help="how long each turn takes")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[*KINDS, *DOCUMENT_KINDS],
                        help=", ".join([*KINDS, *DOCUMENT_KINDS]))
    parser.add_argument("before")
    parser.add_argument("after")
    options = parser.parse_args()
    folder = ROOT / "target/bench"
    folder.mkdir(parents=True, exist_ok=True)
    builds = []
    try:
        for name, given in (("before", options.before), ("after", options.after)):
            builds.append(Build(name, given, folder))
        print("| | CPU µs | after / before | p50 ms | p99 ms | requests/s, after / before |\n|---|---|---|---|---|---|")
        for kind in options.only:
            compare(builds, kind, options.rounds, options.seconds)
    finally:
        for build in builds:
            build.server.end(signal.SIGKILL)


if __name__ == "__main__":
    main()
