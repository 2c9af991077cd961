"""Messages beside backups of the embedded store: how much later they are answered."""

import json
import os
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import load
from crowd import Crowd
from servers import OPERATOR, Colloquy

MESSAGES_PER_SECOND = 500
# The figure is small beside what a busy machine adds.
ROUNDS = 9


class Backups:
    """`note` takes lines of the report."""

    def __init__(self, folder, quick, note):
        settings = {"COLLOQUY__BACKUP__URL": "file:backups", "COLLOQUY__BACKUP__EVERY_HOURS": "0",
                    "COLLOQUY__BACKUP__KEEP": "1"}
        self.server = Colloquy("backups", folder / "backups", settings)
        self.folder, self.note = folder, note
        self.conversations = 20_000 if quick else 200_000
        self.seconds = 5 if quick else 15

    def names(self):
        return ["backup_beside"]

    def run(self, wanted):
        if not wanted("backup_beside"):
            return
        self.server.start()
        try:
            self.server.make_account()
            self.beside()
        finally:
            self.server.end()

    def beside(self):
        server = self.server
        customers = load.make(server, "create_customer", None, self.conversations // 40,
                              self.folder / "backups.customers", lambda: server.total("customers"))
        ids = load.make(server, "create", customers, self.conversations, self.folder / "backups.conversations",
                        lambda: server.total("conversations"))
        # Clients are elsewhere, as a rule: these keep off the last core.
        crowd = Crowd(server, sorted(os.sched_getaffinity(0))[:-1])
        try:
            self.paced(crowd, ids)
            alone, beside, took = [], [], []
            for number in range(ROUNDS):
                for with_backups in [False, True] if number % 2 == 0 else [True, False]:
                    backing_up = BackingUp(server) if with_backups else None
                    (beside if with_backups else alone).append(self.paced(crowd, ids))
                    if backing_up:
                        took.extend(backing_up.end())
            self.tell(alone, beside, took)
        finally:
            crowd.end()

    def paced(self, crowd, ids):
        crowd.ask("clear")
        crowd.send(ids, MESSAGES_PER_SECOND, MESSAGES_PER_SECOND * self.seconds)
        return crowd.ask("seen")["answer"]

    def tell(self, alone, beside, took):
        told = []
        for part in ("p50", "p99", "max"):
            medians = [statistics.median(run[part] for run in runs) for runs in (alone, beside)]
            every = ["/".join(f"{run[part]:.1f}" for run in runs) for runs in (alone, beside)]
            told.append(f"{part} {medians[0]:.2f} ms ({every[0]}), beside backups {medians[1]:.2f} ms ({every[1]}), "
                        f"{medians[1] / medians[0] - 1:+.0%}")
        self.note(f"- {MESSAGES_PER_SECOND} messages/s to 64 conversations of {self.conversations:,}, {len(took)} backups of "
                  f"{self.server.stored_bytes() / 1e6:,.0f} MB beside them, each made and verified in "
                  f"{statistics.median(took):.1f} s: {'; '.join(told)} (target: the p99 changes by ≤ 10 %)")


class BackingUp:
    """Backups one after the other, until it is ended."""

    def __init__(self, server):
        self.server, self.ended = server, threading.Event()
        self.running = ThreadPoolExecutor(1).submit(self.run)

    def end(self):
        """Seconds that each took, the one that was under way too."""
        self.ended.set()
        return self.running.result()

    def run(self):
        took = []
        while not took or not self.ended.is_set():
            begun = time.monotonic()
            at = "/admin/v1/backups/" + self.asked("POST", "/admin/v1/backups", {}, 202)["backup_id"]
            while (state := self.asked("GET", at, None, 200)["state"]) == "running":
                time.sleep(0.1)
            if state != "finished":
                raise SystemExit(f"a backup ended as {state}")
            took.append(time.monotonic() - begun)
        return took

    def asked(self, method, path, body, expected):
        status, text = self.server.ask(method, path, body, OPERATOR)
        if status != expected:
            raise SystemExit(f"{method} {path} answered {status}: {text.decode()}")
        return json.loads(text)
