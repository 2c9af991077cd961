"""Messages beside uploads of large files into a folder: how much later they are answered."""

import os
import statistics

import load
from beside import MESSAGES_PER_SECOND, Beside, BesideScenario, Repeating, told
from servers import Colloquy

ROUNDS = 5
BYTES = 100_000_000


class Uploads(BesideScenario):
    def __init__(self, folder, quick, note):
        settings = {"COLLOQUY__LIMITS__MAX_ATTACHMENT_BYTES": str(BYTES)}
        super().__init__("uploads_beside", Colloquy("uploads", folder / "uploads", settings), folder, note)
        self.seconds = 5 if quick else 15

    def beside(self):
        server = self.server
        customers = load.make(server, "create_customer", None, 1, self.folder / "uploads.customers",
                              lambda: server.total("customers"))
        ids = load.make(server, "create", customers, 64, self.folder / "uploads.conversations",
                        lambda: server.total("conversations"))
        messages, file = Beside(server, ids, self.seconds), os.urandom(BYTES)
        try:
            alone, beside, took = messages.compare(ROUNDS, lambda: Uploading(server, file))
        finally:
            messages.end()
        self.note(f"- {MESSAGES_PER_SECOND} messages/s, {len(took)} files of {BYTES / 1e6:.0f} MB put one behind the other beside them, "
                  f"each in {statistics.median(took):.1f} s: {told(alone, beside, 'uploads')}")


class Uploading(Repeating):
    """One file, put again and again."""

    def __init__(self, server, file):
        super().__init__()
        self.server, self.file = server, file

    def begin(self):
        return self.server.connection()

    def once(self, connection):
        headers = {"Authorization": f"Bearer {self.server.key}", "Content-Type": "application/octet-stream",
                   "Content-Disposition": 'attachment; filename="large.bin"'}
        connection.request("POST", "/v1/attachments", body=self.file, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise SystemExit(f"POST /v1/attachments answered {answer.status}: {text.decode()}")
