"""Messages beside the erasing of customers on the embedded store: how much later they are answered."""

import json
import statistics
import time

import load
from beside import MESSAGES_PER_SECOND, Beside, BesideScenario, told
from servers import Colloquy

ROUNDS = 5


class Erasing(BesideScenario):
    def __init__(self, folder, quick, note):
        super().__init__("erasing_beside", Colloquy("erasing", folder / "erasing"), folder, note)
        self.conversations = 20_000 if quick else 200_000
        self.seconds = 10 if quick else 20

    def make(self, kind, ids, more, name):
        """At least so many more; their ids."""
        server, what = self.server, {"create_customer": "customers", "create": "conversations"}[kind]
        return load.make(server, kind, ids, server.total(what) + more, self.folder / f"erasing.{name}.{what}",
                         lambda: server.total(what))

    def beside(self):
        customers = self.make("create_customer", None, self.conversations // 40, "stay")
        stay = self.make("create", customers, self.conversations, "stay")
        gone = self.make("create_customer", None, ROUNDS, "go").part(0, ROUNDS)
        self.make("create", gone, ROUNDS, "go")
        customers = gone.file.read_text().split()[:ROUNDS]
        erasures = [Erasure(self.server, customer) for customer in customers]
        messages = Beside(self.server, stay, self.seconds)
        try:
            alone, beside, took = messages.compare(ROUNDS, iter(erasures).__next__)
        finally:
            messages.end()
        conversations = statistics.median(erasure.conversations for erasure in erasures)
        self.note(f"- {MESSAGES_PER_SECOND} messages/s to 64 conversations of {self.conversations:,}, a customer with some "
                  f"{conversations:,.0f} others erased beside them in {statistics.median(took):.1f} s, "
                  f"{len(took)} times: {told(alone, beside, 'erasing')}")


class Erasure:
    """One customer, erased."""

    def __init__(self, server, customer):
        self.server, self.customer = server, customer

    def start(self):
        self.begun = time.monotonic()
        answer = self.asked("DELETE", f"/v1/customers/{self.customer}?erase=true", 202)
        self.erasure, self.conversations = answer["erasure_id"], answer["conversations"]

    def end(self):
        """Seconds until it was finished."""
        while (state := self.asked("GET", f"/v1/erasures/{self.erasure}", 200)["state"]) != "finished":
            if state != "running":
                raise SystemExit(f"an erasure is {state}")
            time.sleep(0.1)
        return [time.monotonic() - self.begun]

    def asked(self, method, path, expected):
        status, text = self.server.ask(method, path)
        if status != expected:
            raise SystemExit(f"{method} {path} answered {status}: {text.decode()}")
        return json.loads(text)
