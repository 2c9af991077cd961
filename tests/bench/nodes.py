"""The store on MongoDB beside the embedded one, and one, two and three nodes on one database. The database is the
FerretDB of the tests, which reads whole collections: its figures compare ways of use, and say nothing of MongoDB's."""

import shutil
import signal
import subprocess
import threading

import load
from servers import ROOT, Colloquy

FERRETDB = ROOT / "target/ferretdb"
CONVERSATIONS = 64
SECONDS = 5
KINDS = {"send": "durable message", "get": "get an active conversation", "list_status": "list by status"}


class Database:
    """A server of MongoDB's protocol, with a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [FERRETDB, "127.0.0.1:0", folder]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.uri = self.process.stdout.readline().strip()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Nodes:
    """`note` takes lines of the report."""

    def __init__(self, folder, bare, note):
        self.folder, self.bare, self.note = folder, bare, note

    def names(self):
        return {"nodes"}

    def run(self, wanted):
        if not wanted("nodes"):
            return
        if not FERRETDB.exists():
            self.note(f"- nodes: NOT MEASURED, there is no {FERRETDB}: tests/run builds it")
            return
        self.beside_the_embedded_store()
        for count in (1, 2, 3):
            for hashed in (True, False) if count > 1 else (True,):
                self.several(count, hashed)

    def beside_the_embedded_store(self):
        database = Database(self.folder / "ferretdb")
        embedded = Colloquy("embedded", self.folder / "embedded")
        shared = self.node(database, "shared", 0)
        try:
            for server in (embedded, shared):
                server.start()
                server.make_account()
            ids = [self.conversations(server) for server in (embedded, shared)]
            for kind, title in KINDS.items():
                bare = load.measure(self.bare, kind, ids[0], SECONDS)
                costs = [load.measure(server, kind, its, SECONDS) for server, its in zip((embedded, shared), ids)]
                told = [f"{cost.cpu_us:.0f} µs of CPU ({cost.cpu_us / bare.cpu_us:.1f} × bare), {cost.each_second:,.0f}/s, "
                        f"p50 {cost.p50_ms:.1f}, p99 {cost.p99_ms:.1f} ms, {cost.failed} failed" for cost in costs]
                self.note(f"- {title}, 64 connections: embedded {told[0]}; on FerretDB {told[1]}")
        finally:
            for server in (embedded, shared):
                server.end(signal.SIGKILL)
            database.end()

    def several(self, count, hashed):
        """Messages through so many nodes, each conversation at one of them (as the balancer does it) or at all."""
        database = Database(self.folder / "ferretdb")
        nodes = []
        try:
            for number in range(count):
                nodes.append(self.node(database, "nodes", number))
                nodes[-1].start()
            nodes[0].make_account()
            for node in nodes:
                node.key = nodes[0].key
            ids = self.conversations(nodes[0])
            share = CONVERSATIONS // count
            parts = [ids.part(number * share, share) if hashed else ids for number in range(count)]
            costs = [None] * count

            def run(number):
                costs[number] = load.measure(nodes[number], "send", parts[number], SECONDS, seed=number)

            before = self.conflicts(nodes)
            threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            conflicts = self.conflicts(nodes) - before
            sent = sum(cost.requests for cost in costs)
            cpu = sum(cost.cpu_us * cost.requests for cost in costs) / max(1, sent)
            way = "each conversation at one node" if hashed else "each conversation at all nodes"
            self.note(f"- {count} node{'s' * (count > 1)}, {way}: {sum(cost.each_second for cost in costs):,.0f} messages/s, "
                      f"{cpu:.0f} µs of the nodes' CPU each, p50 {max(cost.p50_ms for cost in costs):.1f}, "
                      f"p99 {max(cost.p99_ms for cost in costs):.1f} ms, {sum(cost.failed for cost in costs)} failed, "
                      f"{conflicts / max(1, sent):.1%} conflicts")
        finally:
            for node in nodes:
                node.end(signal.SIGKILL)
            database.end()

    def node(self, database, name, number):
        settings = {"COLLOQUY__STORE__KIND": "mongodb", "COLLOQUY__STORE__URI": database.uri,
                    "COLLOQUY__STORE__DATABASE": name, "COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS": "20"}
        return Colloquy(f"{name}-{number}", self.folder / f"{name}-{number}", settings)

    def conversations(self, server):
        customer = server.made("/v1/customers", {"name": "Ada"}, server.key)["customer_id"]
        body = {"customer_id": customer, "initial_message": "Hello, where is my parcel?"}
        made = [server.made("/v1/conversations", body, server.key)["conversation_id"] for _ in range(CONVERSATIONS)]
        file = self.folder / f"{server.name}.conversations"
        file.write_text("".join(f"{one}\n" for one in made))
        return load.Ids(file, 0, CONVERSATIONS)

    def conflicts(self, nodes):
        return sum(node.actors("actors_conflicts_total") for node in nodes)
