"""What the feed gives to the world outside: webhooks, WebSockets and event streams, and what they cost. The other side
of each scenario is played by `crowd.rs`."""

import os
import socket
import statistics
import time

import load
from crowd import Crowd
from servers import Colloquy

CONVERSATIONS = 2_000
ROUNDS = 3
IDLE_PER_SECOND = 20
HEALTHY = 10
# Many, as the figure is small beside what a busy machine adds.
NEIGHBOURS_ROUNDS = 7


class Outside:
    """`note` takes lines of the report."""

    def __init__(self, folder, quick, bare, note):
        settings = {"COLLOQUY__WEBHOOKS__ALLOW_PRIVATE_TARGETS": "true", "COLLOQUY__REALTIME__LINES_PER_KEY": "4000",
                    "COLLOQUY__REALTIME__LINES_PER_ACCOUNT": "4000", "COLLOQUY__REALTIME__FRAMES_PER_SECOND": "2000"}
        self.server = Colloquy("outside", folder / "outside", settings)
        self.folder, self.quick, self.bare, self.note = folder, quick, bare, note
        self.seconds = 5 if quick else 15
        self.per_second = None

    def scenarios(self):
        return {"hooks": self.hooks, "receipt": self.receipts, "neighbours": self.neighbours,
                "socket_send": self.socket_sends, "streams": self.streams, "sockets_many": self.many_sockets,
                "sockets_one": self.one_conversation}

    def names(self):
        return set(self.scenarios())

    def run(self, wanted):
        """The scenarios whose names are wanted."""
        scenarios = [scenario for name, scenario in self.scenarios().items() if wanted(name)]
        if not scenarios:
            return
        server = self.server
        server.start()
        server.make_account()
        self.crowd = Crowd(server)
        try:
            customers = load.make(server, "create_customer", None, 50, self.folder / "outside.customers",
                                  lambda: server.total("customers"))
            self.ids = load.make(server, "create", customers, CONVERSATIONS, self.folder / "outside.conversations",
                                 lambda: server.total("conversations"))
            self.port = self.crowd.ask("receive", hang="false")["port"]
            for scenario in scenarios:
                self.note(f"- load of the machine {os.getloadavg()[0]:.1f}")
                scenario()
        finally:
            self.crowd.end()
            server.end()

    # What scenarios are made of

    def endpoints(self, paths):
        return [self.server.made("/v1/webhooks", {"url": url, "events": ["message.created"]}, self.server.key)
                ["webhook_id"] for url in paths]

    def receivers(self, count):
        return self.endpoints(f"http://127.0.0.1:{self.port}/{number}" for number in range(count))

    def remove(self, endpoints):
        for endpoint in endpoints:
            self.server.ask("DELETE", f"/v1/webhooks/{endpoint}")

    def waited(self, receipts):
        """Waits until they have come; what is missing stands in the report."""
        answer = self.crowd.ask("wait", **{"for": receipts})
        if answer["receipts"] < receipts:
            self.note(f"- MISSED: {answer['receipts']:,} receipts came of {receipts:,}")
        return answer

    def settle(self):
        """Lets what was left for later be done."""
        time.sleep(2 if self.quick else 10)

    # Webhooks

    def hooks(self):
        for endpoints, messages in [(1, 20_000), (50, 2_000)] if self.quick else [(1, 100_000), (50, 10_000)]:
            without, _ = self.drained(0, messages)
            cpu, each_second = self.drained(endpoints, messages)
            each, bare = (cpu - without) / (messages * endpoints), load.measure(self.bare, "send", self.ids.part(0, 64), 2).cpu_us
            self.per_second = self.per_second or messages / cpu
            self.note(f"- webhooks, {messages:,} messages to {endpoints} endpoint{'s' * (endpoints > 1)}: {each_second:,.0f} "
                      f"deliveries/s while a queue drains, {each * 1e6:.0f} µs of CPU a delivery beside {bare:.1f} of the "
                      f"bare server's request ({each * 1e6 / bare:.1f} ×; target ≤ 150 µs where that is 15)")

    def drained(self, endpoints, messages):
        """Seconds of CPU for messages and all their deliveries, and deliveries a second once the receiver answers."""
        crowd, server = self.crowd, self.server
        made = self.receivers(endpoints)
        self.settle()
        crowd.ask("clear")
        crowd.ask("hold", on="true")
        before = server.cpu_seconds()
        crowd.send(self.ids, 1e6, messages, connections=64, conversations=CONVERSATIONS)
        held = server.cpu_seconds()
        crowd.ask("hold", on="false")
        took = self.waited(messages * endpoints)["ms"] / 1e3
        self.settle()
        used = server.cpu_seconds() - before
        self.note(f"  - {endpoints} endpoints: {used * 1e6 / messages:.0f} µs of CPU a message, "
                  f"{(held - before) * 1e6 / messages:.0f} of them while sending")
        self.remove(made)
        return used, messages * endpoints / max(took, 1e-3)

    def receipts(self):
        made = self.receivers(1)
        for name, rate in (("idle", IDLE_PER_SECOND), ("at half load", self.half())):
            seen = self.paced(rate, 1)
            target = " (target p50 ≤ 5 ms)" if name == "idle" else ""
            self.note(f"- message to webhook receiver, {name}, {rate:,.0f} messages/s: {two(seen['from_answer'])} from the "
                      f"201 to the receipt{target}, {two(seen['from_sent'])} from the request; the 201 after "
                      f"{two(seen['answer'])}")
        self.remove(made)

    def half(self):
        """Half of the messages a second, each with one delivery, that one busy core would do."""
        return (self.per_second or 5_000) / 2

    def paced(self, rate, copies, **how):
        self.crowd.ask("clear")
        count = int(rate * self.seconds)
        self.crowd.send(self.ids, rate, count, **how)
        self.waited(count * copies)
        return self.crowd.ask("seen")

    def neighbours(self):
        """Healthy endpoints without and with one that hangs and one that is dead beside them."""
        rate = 100
        healthy = self.receivers(HEALTHY)
        hanging = f"http://127.0.0.1:{self.crowd.ask('receive', hang='true')['port']}/"
        alone, beside = [], []
        self.paced(rate, HEALTHY)
        for number in range(NEIGHBOURS_ROUNDS):
            for with_bad in [False, True] if number % 2 == 0 else [True, False]:
                bad = self.endpoints([hanging, f"http://127.0.0.1:{unused_port()}/"]) if with_bad else []
                (beside if with_bad else alone).append(self.paced(rate, HEALTHY)["from_answer"])
                self.remove(bad)
                self.settle()
        self.remove(healthy)
        told = []
        for part in ("p50", "p99"):
            medians = [statistics.median(run[part] for run in runs) for runs in (alone, beside)]
            every = ["/".join(f"{run[part]:.1f}" for run in runs) for runs in (alone, beside)]
            told.append(f"{part} {medians[0]:.2f} ms ({every[0]}), beside one that hangs and one that is dead {medians[1]:.2f} "
                        f"ms ({every[1]}), {medians[1] / medians[0] - 1:+.0%}")
        self.note(f"- {HEALTHY} healthy endpoints, {rate} messages/s, from the 201 to the receipt: {'; '.join(told)} "
                  "(target: the p99 changes by < 10 %)")

    # Real time

    def socket_sends(self):
        for rate in (IDLE_PER_SECOND, 1_000):
            self.crowd.ask("sockets", count=64, ids=self.ids.file, **{"from": 0}, ids_count=64)
            seen = self.paced(rate, 1, by="socket")
            self.crowd.ask("leave")
            self.note(f"- WebSocket, {rate:,} messages/s: send to ack {two(seen['answer'])}; send to another socket's "
                      f"receipt {two(seen['from_sent'])}")

    def streams(self):
        """What streams of the whole account cost who writes."""
        costs = {0: [], 10: []}
        for number in range(ROUNDS):
            for streams, cost in costs.items():
                self.crowd.ask("clear")
                if streams:
                    self.crowd.ask("streams", count=streams)
                cost.append(load.measure(self.server, "send", self.ids.part(0, 64), self.seconds, seed=number))
                if streams:
                    self.waited(cost[-1].requests * streams)
                    ended = self.crowd.ask("seen")["ended"]
                    self.note(f"  - {streams} streams: {cost[-1].cpu_us:.1f} µs, {ended} of them ended" if ended else
                              f"  - {streams} streams: {cost[-1].cpu_us:.1f} µs, {by_thread(cost[-1])}")
                    self.crowd.ask("leave")
        none, ten = (sorted(cost, key=lambda one: one.cpu_us)[ROUNDS // 2] for cost in costs.values())
        self.note(f"- durable message, 64 conversations, 64 connections: {none.cpu_us:.1f} µs of CPU, "
                  f"{none.each_second:,.0f}/s; with 10 event streams of the account {ten.cpu_us:.1f} µs, "
                  f"{ten.each_second:,.0f}/s")

    def many_sockets(self):
        server, count = self.server, CONVERSATIONS
        before = server.memory_mb()[0]
        self.crowd.ask("sockets", count=count, ids=self.ids.file, **{"from": 0}, ids_count=count)
        after, used = server.memory_mb()[0], server.cpu_seconds()
        seen = self.paced(IDLE_PER_SECOND, 1, conversations=count)
        used = (server.cpu_seconds() - used) / self.seconds
        self.note(f"- {count:,} WebSockets, each on its own conversation, {IDLE_PER_SECOND} messages/s: {after:.0f} MB "
                  f"resident ({before:.0f} before them, {(after - before) * 1e3 / count:.1f} KB each), {used:.1%} of a core; "
                  f"send to receipt {two(seen['from_sent'])}")
        self.crowd.ask("leave")

    def one_conversation(self):
        count, rate = 500, 10
        self.crowd.ask("sockets", count=count, ids=self.ids.file, **{"from": 0}, ids_count=1)
        used = self.server.cpu_seconds()
        seen = self.paced(rate, count, conversations=1)
        used = (self.server.cpu_seconds() - used) * 1e6 / max(1, seen["receipts"])
        self.note(f"- 500 WebSockets on one conversation, {rate} messages/s: each got {seen['least']} to {seen['most']} of "
                  f"{rate * self.seconds} events, {seen['ended']} were closed; send to the last one's receipt "
                  f"{two(seen['to_all'])}, {used:.1f} µs of CPU an event and socket")
        self.crowd.ask("leave")


def two(spread):
    return f"p50 {spread['p50']:.1f} / p99 {spread['p99']:.1f} ms"


def by_thread(cost):
    shares = sorted(cost.by_thread.items(), key=lambda share: -share[1])
    return ", ".join(f"{name} {us:.1f}" for name, us in shares if us >= 0.1)


def unused_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
