"""Requests for documents of 1 KB: made, changed, read, listed and searched."""

import time

import load
from servers import Colloquy
from table import Scenario

FEW = 1_000
MB = 1e6
METADATA = {"order": "2026-000123456", "source": "web shop", "language": "en",
            "page": "https://shop.example/orders/2026-000123456"}


class Documents:
    """`note` takes lines of the report."""

    def __init__(self, folder, quick, table, note):
        self.server = Colloquy("documents", folder / "documents")
        self.folder, self.table, self.note = folder, table, note
        self.documents = 10_000 if quick else 100_000
        self.active = 1_000 if quick else 10_000

    def names(self):
        return ["docs_list_few", *(scenario.name for scenario in self.scenarios(load.Ids(self.folder)))]

    def run(self, wanted):
        """The scenarios whose names are wanted."""
        if not any(wanted(name) for name in self.names()):
            return
        self.server.start()
        try:
            self.server.make_account()
            self.measure(wanted)
        finally:
            self.server.end()

    def measure(self, wanted):
        if wanted("docs_list_few"):
            self.few()
            self.table.add(self.listed("docs_list_few", FEW))
        for scenario in self.scenarios(self.fill()):
            if wanted(scenario.name):
                self.table.add(scenario)

    def few(self):
        for number in range(FEW):
            body = {"title": f"Report 0.{number:07} of the benchmark", "content": "Nothing yet.", "metadata": METADATA}
            self.server.made("/api/v1/documents", body, self.server.key)

    def fill(self):
        server = self.server
        begun, cpu, before = time.monotonic(), server.cpu_seconds(), self.total()
        ids = load.make(server, "document_create", None, self.documents, self.folder / "documents.ids", self.total)
        took, made = time.monotonic() - begun, self.total() - before
        while server.status("/api/v1/documents?q=benchmark&limit=1") != 200:
            pass
        found = time.monotonic() - begun - took
        cpu = server.cpu_seconds() - cpu
        self.note(f"- stored over HTTP: {made:,} documents of 1 KB in {took:.0f} s ({made / took:,.0f}/s), all to be found "
                  f"{found:.1f} s later; {cpu * 1e6 / made:.0f} µs of CPU each, the search's included; "
                  f"{server.stored_bytes('colloquy.db.search') / MB:,.0f} MB of {server.stored_bytes() / MB:,.0f} on disk are "
                  "the search's")
        return ids

    def total(self):
        return self.server.total("documents", "/api/v1")

    def scenarios(self, ids):
        def same(count):
            return lambda _: ids.part(0, count)
        def scenario(name, title, kind, of, target=None, warm=None):
            return Scenario(self.server, name, title, kind, of, target, warm=warm, actor="document")
        stored, active = f"{self.documents:,} stored", f"{self.active:,} documents"
        return [
            self.listed("docs_list", self.documents),
            scenario("docs_search_rare", f"search for a rare word, {stored}", "search_rare", lambda _: None),
            scenario("docs_get", "get an active document of 1 KB", "document_get", same(self.active),
                     warm="document_get_each"),
            scenario("docs_update_few", "update a document of 1 KB, 64 documents", "document_update", same(64),
                     warm="document_get_each"),
            scenario("docs_update_many", f"update a document of 1 KB, {active}", "document_update", same(self.active),
                     warm="document_get_each"),
            scenario("docs_create", "create a document of 1 KB", "document_create", lambda _: None),
            # The last: its requests go on when the round is over.
            scenario("docs_search_common", f"search for a word of all documents, {stored}", "search_common",
                     lambda _: None),
        ]

    def listed(self, name, stored):
        return Scenario(self.server, name, f"list of documents with its exact total, {stored:,} stored", "document_list",
                        lambda _: None, 2.5, actor="document")
