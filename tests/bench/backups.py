"""Messages beside backups of the embedded store: how much later they are answered."""

import json
import statistics
import time

import load
from beside import MESSAGES_PER_SECOND, TARGET, Beside, BesideScenario, Repeating, told
from servers import OPERATOR, Colloquy

# The figure is small beside what a busy machine adds.
ROUNDS = 9


class Backups(BesideScenario):
    def __init__(self, folder, quick, note):
        settings = {"COLLOQUY__BACKUP__URL": "file:backups", "COLLOQUY__BACKUP__EVERY_HOURS": "0",
                    "COLLOQUY__BACKUP__KEEP": "1"}
        super().__init__("backup_beside", Colloquy("backups", folder / "backups", settings), folder, note)
        self.conversations = 20_000 if quick else 200_000
        self.seconds = 5 if quick else 15

    def beside(self):
        server = self.server
        customers = load.make(server, "create_customer", None, self.conversations // 40,
                              self.folder / "backups.customers", lambda: server.total("customers"))
        ids = load.make(server, "create", customers, self.conversations, self.folder / "backups.conversations",
                        lambda: server.total("conversations"))
        messages = Beside(server, ids, self.seconds)
        try:
            alone, beside, took = messages.compare(ROUNDS, lambda: BackingUp(server))
        finally:
            messages.end()
        self.note(f"- {MESSAGES_PER_SECOND} messages/s to 64 conversations of {self.conversations:,}, {len(took)} backups of "
                  f"{server.stored_bytes() / 1e6:,.0f} MB beside them, each made and verified in "
                  f"{statistics.median(took):.1f} s: {told(alone, beside, 'backups')} {TARGET}")


class BackingUp(Repeating):
    """Backups one after the other."""

    def __init__(self, server):
        super().__init__()
        self.server = server

    def once(self, _):
        at = "/admin/v1/backups/" + self.asked("POST", "/admin/v1/backups", {}, 202)["backup_id"]
        while (state := self.asked("GET", at, None, 200)["state"]) == "running":
            time.sleep(0.1)
        if state != "finished":
            raise SystemExit(f"a backup ended as {state}")

    def asked(self, method, path, body, expected):
        status, text = self.server.ask(method, path, body, OPERATOR)
        if status != expected:
            raise SystemExit(f"{method} {path} answered {status}: {text.decode()}")
        return json.loads(text)
