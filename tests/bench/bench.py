"""The benchmark: scenarios, their targets (design, section 7), and the table. See `run` for how it is called."""

import argparse
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import load
from load import Ids, measure
from outside import Outside
from servers import ROOT, Colloquy, bare

ROUNDS = 3
CONVERSATIONS_OF_A_CUSTOMER = 40
SMALL = 1_000
MB = 1e6
METADATA = {"order": "2026-000123456", "source": "web shop", "language": "en",
            "page": "https://shop.example/orders/2026-000123456"}


@dataclass
class Scenario:
    """One kind of request. `ids` gives each round its own; `target` is in times the bare server's CPU a request."""
    name: str
    title: str
    kind: str
    ids: object
    target: float | None = None
    per_second: int | None = None
    small: bool = False
    warm: str | None = None


@dataclass
class Result:
    scenario: Scenario
    bare: load.Cost
    ours: load.Cost
    ratio: float
    failed: int
    activations: float


class Bench:
    def __init__(self, options):
        self.quick, self.only, self.profiled = options.quick, options.only, options.profile
        self.conversations = 50_000 if self.quick else 1_000_000
        self.active = 10_000 if self.quick else 100_000
        self.seconds = 1 if self.quick else 5
        self.folder = ROOT / "target/bench"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bare = bare(self.folder)
        self.small = Colloquy("small", self.folder / "small")
        self.big = Colloquy("big", self.folder / "big")
        self.lines, self.results = [], []

    def requests(self):
        self.fill_small()
        self.fill_big()
        self.starts()
        self.memory()
        for scenario in self.scenarios():
            if self.wanted(scenario.name):
                self.results.append(self.compare(scenario))
        self.crashes()

    def wanted(self, name):
        return not self.only or name.startswith(tuple(self.only))

    def run(self):
        self.bare.start()
        try:
            outside = Outside(self.folder, self.quick, self.bare, self.note)
            outside.run(self.wanted)
            if not self.only or not outside.names().issuperset(self.only):
                self.requests()
        finally:
            for server in (self.bare, self.small, self.big):
                server.end(signal.SIGKILL)
        self.report()

    def note(self, text):
        print(text, flush=True)
        self.lines.append(text)

    # What is stored

    def fill_small(self):
        self.small.start()
        self.small.make_account()
        customers = [self.small.made("/v1/customers", {"name": f"Customer {number:07} of the benchmark"}, self.small.key)
                     ["customer_id"] for number in range(SMALL // CONVERSATIONS_OF_A_CUSTOMER)]
        for number in range(SMALL):
            body = {"customer_id": customers[number % len(customers)], "initial_message": "Hello, where is my parcel?",
                    "metadata": METADATA}
            self.small.made("/v1/conversations", body, self.small.key)
        file = self.folder / "small.customers"
        file.write_text("".join(f"{customer}\n" for customer in customers))
        self.small_customers = Ids(file, 0, len(customers))

    def fill_big(self):
        big = self.big
        big.start()
        big.make_account()
        wanted = self.conversations // CONVERSATIONS_OF_A_CUSTOMER
        made = load.make(big, "create_customer", None, wanted, self.folder / "customers", lambda: big.total("customers"))
        self.customers = made.part(0, wanted)
        begun, cpu = time.monotonic(), big.cpu_seconds()
        self.ids = load.make(big, "create", self.customers, self.conversations, self.folder / "conversations",
                             lambda: big.total("conversations"))
        took, cpu, total = time.monotonic() - begun, big.cpu_seconds() - cpu, big.total("conversations")
        self.note(f"- stored over HTTP: {total:,} conversations, each with a message, of {wanted:,} customers, in "
                  f"{took:.0f} s ({total / took:,.0f}/s, {cpu * 1e6 / total:.0f} µs of CPU each); "
                  f"{self.stored_bytes() / MB:,.0f} MB on disk; {memory(big)} then")

    def stored_bytes(self):
        return sum(file.stat().st_size for file in self.big.folder.rglob("colloquy.db*"))

    # Starts and memory

    def starts(self):
        took = [self.big.restart() for _ in range(ROUNDS)]
        self.note(f"- start, stopped in order before, the first one directly after storing: {seconds(took)} until /readyz answers 200 (target ≤ 1 s)")
        self.note(f"- just started: {memory(self.big)} (target ≤ 60 MB)")

    def memory(self):
        """Activates conversations, each once, after the caches have been filled by others."""
        big, warmed = self.big, 2_000
        load.wrk(big, "get_each", self.ids.part(0, warmed), 2)
        load.wrk(big, "list_status", None, 1)
        before, live = big.memory_mb()[0], big.actors("actors_live")
        load.wrk(big, "get_each", self.ids.part(warmed, self.active - warmed), 4 if self.quick else 20)
        after, now = big.memory_mb()[0], big.actors("actors_live")
        each = (after - before) * MB / max(1, now - live)
        held = big.actors("actors_bytes") / max(1, now)
        self.note(f"- {now:,.0f} active conversations: {memory(big)}, {each:,.0f} bytes more for each beyond the first "
                  f"{live:,.0f} (target ≤ 2,048; {held:,.0f} of them are its state)")

    def crashes(self):
        took, loaded = [], 3 if self.quick else 20
        for number in range(ROUNDS):
            loading = subprocess.Popen(
                ["wrk", "-t2", "-c64", f"-d{loaded + 1}s", "-s", Path(load.__file__).parent / "requests.lua",
                 f"http://127.0.0.1:{self.big.port}", "--", "kind=mixed", f"key={self.big.key}", f"seed={number}",
                 f"ids={self.ids.file}", "from=0", "count=10000"], stdout=subprocess.DEVNULL)
            time.sleep(loaded)
            took.append(self.big.restart(signal.SIGKILL))
            loading.wait()
        self.note(f"- start after kill -9, {loaded} s under load: {seconds(took)} until /readyz answers 200 (target ≤ 3 s)")

    # Requests

    def scenarios(self):
        every, third = self.ids, (self.ids.count - self.active) // ROUNDS
        many = 1_000 if self.quick else 10_000
        def same(count):
            return lambda _: every.part(0, count)
        def fresh(count):
            return lambda number: every.part(number * count, count)
        stored = f"{self.conversations:,}"
        return [
            Scenario("get_passive", f"get a passive one, {stored} stored", "get_each",
                     lambda number: every.part(self.active + number * third, third), 6.0),
            Scenario("get_active", "get an active conversation", "get", same(many), 1.6, warm="get_each"),
            Scenario("list_status_small", f"list, status and exact total, {SMALL:,} stored", "list_status",
                     lambda _: None, 2.5, small=True),
            Scenario("list_status", f"list, status and exact total, {stored} stored", "list_status", lambda _: None, 2.5),
            Scenario("list_customer_small", f"list of a customer, {SMALL:,} stored", "list_customer",
                     lambda _: self.small_customers, 2.5, small=True),
            Scenario("list_customer", f"list of a customer, {stored} stored", "list_customer",
                     lambda _: self.customers, 2.5),
            Scenario("send_few", "durable message, 64 conversations", "send", same(64), 4.5, warm="get_each"),
            Scenario("send_many", f"durable message, {many:,} conversations", "send", same(many), 4.5, warm="get_each"),
            Scenario("mixed_few", "40 % change the state, 64 conversations", "mixed", fresh(64), 7.0, warm="get_each"),
            Scenario("mixed_many", f"40 % change the state, {many:,} conversations", "mixed", fresh(many), 7.0,
                     warm="get_each"),
            Scenario("hot", "durable message, one conversation", "send", same(1), per_second=20_000, warm="get"),
            Scenario("create", "create a conversation with its first message", "create", lambda _: self.customers),
        ]

    def compare(self, scenario):
        server = self.small if scenario.small else self.big
        bares, ours, activated = [], [], server.actors("actors_activations_total")
        for number in range(ROUNDS):
            ids = scenario.ids(number)
            if scenario.warm:
                # Long enough that each of the ids is activated.
                load.wrk(server, scenario.warm, ids, 1 if self.quick or not ids.count > 1_000 else 5)
                activated = server.actors("actors_activations_total") if number == 0 else activated
            order = [(self.bare, bares), (server, ours)]
            for measured, costs in order if number % 2 == 0 else reversed(order):
                costs.append(measure(measured, scenario.kind, ids, self.seconds, seed=number))
        activated = server.actors("actors_activations_total") - activated
        ratio = statistics.median(our.cpu_us / its.cpu_us for its, our in zip(bares, ours))
        failed = sum(cost.failed for cost in bares + ours)
        result = Result(scenario, middle(bares), middle(ours), ratio, failed,
                        activated / sum(cost.requests for cost in ours))
        print(row(result), flush=True)
        if scenario.name == "send_many" and not self.quick:
            self.what_follows(sum(cost.requests for cost in ours))
        if self.profiled:
            self.profile(scenario, server)
        return result

    def what_follows(self, requests):
        """What sending left for later: headers that are folded when they have lagged for a minute."""
        before = self.big.cpu_seconds()
        time.sleep(75)
        left = (self.big.cpu_seconds() - before) * 1e6 / requests
        self.note(f"- what {requests:,} messages to 10,000 conversations left for the 75 s after them: {left:.1f} µs of "
                  "CPU a message, not in the table")

    def profile(self, scenario, server):
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

    # The table

    def report(self):
        table = ["| | bare µs | Colloquy µs | ratio | target | | bare/s | Colloquy/s | p50 / p99 ms | bytes, bare / ours |",
                 "|---|---|---|---|---|---|---|---|---|---|"]
        table += [row(result) for result in self.results]
        where = ["", "CPU by thread, µs a request:", ""]
        for result in self.results:
            shares = sorted(result.ours.by_thread.items(), key=lambda share: -share[1])
            where.append(f"- {result.scenario.name}: " + ", ".join(f"{name} {us:.1f}" for name, us in shares if us >= 0.1))
        text = "\n".join([*table, "", *self.lines, *where, ""])
        (self.folder / "report.md").write_text(text)
        print("\n" + text)


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
    if scenario.name.startswith("get"):
        title += f" ({result.activations:.2f} activations a request)"
    return (f"| {title} | {its.cpu_us:.1f} | {ours.cpu_us:.1f} | {result.ratio:.2f} | {target} | {verdict} | "
            f"{its.each_second:,.0f} | {ours.each_second:,.0f} | {ours.p50_ms:.1f} / {ours.p99_ms:.1f} | "
            f"{its.bytes_each:,.0f} / {ours.bytes_each:,.0f} |")


def memory(server):
    resident, anonymous = server.memory_mb()
    return f"{resident:.0f} MB resident ({anonymous:.0f} anonymous)"


def seconds(took):
    return f"at worst {max(took):.2f} s ({', '.join(f'{one:.2f}' for one in took)})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measures Colloquy beside a bare actix-web server.")
    parser.add_argument("--quick", action="store_true", help="50,000 conversations and short rounds")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[], help="scenarios whose names begin so")
    parser.add_argument("--profile", action="store_true", help="a perf profile of each scenario in target/bench")
    Bench(parser.parse_args()).run()
