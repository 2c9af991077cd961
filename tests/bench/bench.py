"""The benchmark: scenarios, their targets (design, section 7), and the table. See `run` for how it is called."""

import argparse
import signal
import subprocess
import time
from pathlib import Path

import load
from backups import Backups
from documents import METADATA, Documents
from erasing import Erasing
from hostile import Hostile
from load import Ids
from nodes import Nodes
from outside import Outside
from searches import Searches
from servers import ROOT, Colloquy, bare
from table import ROUNDS, Scenario, Table
from texts import Texts
from thumbnails import Thumbnails
from uploads import Uploads

CONVERSATIONS_OF_A_CUSTOMER = 40
SMALL = 1_000
MB = 1e6


class Bench:
    def __init__(self, options):
        self.quick, self.only = options.quick, options.only
        self.conversations = 50_000 if self.quick else 1_000_000
        self.active = 10_000 if self.quick else 100_000
        self.folder = ROOT / "target/bench"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bare = bare(self.folder)
        self.small = Colloquy("small", self.folder / "small")
        self.big = Colloquy("big", self.folder / "big")
        self.table = Table(self.bare, self.folder, self.quick, options.profile)
        self.lines = []

    def requests(self):
        self.fill_small()
        self.fill_big()
        self.starts()
        self.memory()
        for scenario in self.scenarios():
            if self.wanted(scenario.name):
                result = self.table.add(scenario)
                if scenario.name == "send_many" and not self.quick:
                    self.what_follows(result.requests)
        self.crashes()

    def wanted(self, name):
        return not self.only or name.startswith(tuple(self.only))

    def run(self):
        self.bare.start()
        try:
            parts = [Outside(self.folder, self.quick, self.bare, self.note),
                     Documents(self.folder, self.quick, self.table, self.note),
                     Texts(self.folder, self.quick, self.note),
                     Backups(self.folder, self.quick, self.note),
                     Erasing(self.folder, self.quick, self.note),
                     Thumbnails(self.folder, self.quick, self.note),
                     Uploads(self.folder, self.quick, self.note),
                     Searches(self.folder, self.note),
                     Nodes(self.folder, self.bare, self.note),
                     Hostile(self.note)]
            for part in parts:
                part.run(self.wanted)
            known = [name for part in parts for name in part.names()]
            if not self.only or not all(any(name.startswith(only) for name in known) for only in self.only):
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
                  f"{big.stored_bytes() / MB:,.0f} MB on disk; {memory(big)} then")

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
        big, every, third = self.big, self.ids, (self.ids.count - self.active) // ROUNDS
        many = 1_000 if self.quick else 10_000
        def same(count):
            return lambda _: every.part(0, count)
        def fresh(count):
            return lambda number: every.part(number * count, count)
        stored = f"{self.conversations:,}"
        return [
            Scenario(big, "get_passive", f"get a passive one, {stored} stored", "get_each",
                     lambda number: every.part(self.active + number * third, third), 6.0),
            Scenario(big, "get_active", "get an active conversation", "get", same(many), 1.6, warm="get_each"),
            Scenario(self.small, "list_status_small", f"list, status and exact total, {SMALL:,} stored", "list_status",
                     lambda _: None, 2.5),
            Scenario(big, "list_status", f"list, status and exact total, {stored} stored", "list_status", lambda _: None, 2.5),
            Scenario(self.small, "list_customer_small", f"list of a customer, {SMALL:,} stored", "list_customer",
                     lambda _: self.small_customers, 2.5),
            Scenario(big, "list_customer", f"list of a customer, {stored} stored", "list_customer",
                     lambda _: self.customers, 2.5),
            Scenario(self.small, "figures_small", f"a year of figures by day, {SMALL:,} stored", "figures", lambda _: None),
            Scenario(big, "figures", f"a year of figures by day, {stored} stored", "figures", lambda _: None),
            Scenario(big, "send_few", "durable message, 64 conversations", "send", same(64), 4.5, warm="get_each"),
            Scenario(big, "send_many", f"durable message, {many:,} conversations", "send", same(many), 4.5, warm="get_each"),
            Scenario(big, "mixed_few", "40 % change the state, 64 conversations", "mixed", fresh(64), 7.0, warm="get_each"),
            Scenario(big, "mixed_many", f"40 % change the state, {many:,} conversations", "mixed", fresh(many), 7.0,
                     warm="get_each"),
            Scenario(big, "hot", "durable message, one conversation", "send", same(1), per_second=20_000, warm="get"),
            Scenario(big, "create", "create a conversation with its first message", "create", lambda _: self.customers),
        ]

    def what_follows(self, requests):
        """What sending left for later: headers that are folded when they have lagged for a minute."""
        before = self.big.cpu_seconds()
        time.sleep(75)
        left = (self.big.cpu_seconds() - before) * 1e6 / requests
        self.note(f"- what {requests:,} messages to 10,000 conversations left for the 75 s after them: {left:.1f} µs of "
                  "CPU a message, not in the table")

    def report(self):
        text = "\n".join([*self.table.rows(), "", *self.lines, "", *self.table.threads(), ""])
        (self.folder / "report.md").write_text(text)
        print("\n" + text)


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
