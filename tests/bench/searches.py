"""Searches for what was just written, beside another account whose texts are more than the index keeps up with."""

import json
import random
import time
from urllib.parse import quote

from beside import BesideScenario, Repeating
from servers import Colloquy

SEARCHES = 40
# Texts that the index takes in by parts, and texts that it takes in at once.
BYTES = (7_000_000, 60_000)
LETTERS = bytes(range(ord("!"), ord("{")))


class Searches(BesideScenario):
    def __init__(self, folder, note):
        super().__init__("searches_beside", Colloquy("searches", folder / "searches"), folder, note)

    def beside(self):
        other = self.server.key
        self.server.make_account()
        self.word = 0
        for size in BYTES:
            alone = self.searched(other)
            texts = Texts(self.server, self.server.key, size)
            texts.start()
            time.sleep(3)
            beside = self.searched(other)
            took = texts.end()
            self.note(f"- {self.scenario}: a text of {size / 1e6:.2f} MB of random words is put again and again by one account, "
                      f"each in {sorted(took)[len(took) // 2]:.2f} s; another one writes a short text and searches for it, "
                      f"{SEARCHES} times: alone {told(alone)}; beside {told(beside)}")

    def searched(self, key):
        """Of each search whether it found the text, and how many ms it took."""
        seen = []
        for _ in range(SEARCHES):
            self.word += 1
            word = f"zebra{self.word}"
            status, text = self.server.ask("POST", "/api/v1/documents", {"title": word, "content": "short"}, key)
            if status != 201:
                raise SystemExit(f"a document was answered {status}: {text.decode()}")
            begun = time.monotonic()
            status, text = self.server.ask("GET", f"/api/v1/documents?q={quote(word)}", key=key)
            took = (time.monotonic() - begun) * 1e3
            seen.append((status == 200 and json.loads(text)["meta"]["total"] == 1, took))
        return seen


class Texts(Repeating):
    def __init__(self, server, key, size):
        super().__init__()
        self.server, self.key, self.size, self.seed = server, key, size, 0

    def begin(self):
        return json.loads(self.put("POST", "/api/v1/documents")[1])["id"]

    def once(self, document):
        self.put("PUT", f"/api/v1/documents/{document}")

    def put(self, method, path):
        self.seed += 1
        noise = random.Random(self.seed).randbytes(self.size)
        content = noise.translate(bytes(LETTERS[byte % len(LETTERS)] for byte in range(256))).decode()
        return self.server.ask(method, path, {"title": "Random words", "content": content}, self.key)


def told(seen):
    took = sorted(ms for _, ms in seen)
    refused = sum(not found for found, _ in seen)
    return f"p50 {took[len(took) // 2]:.1f} ms, at worst {took[-1]:.1f} ms, {refused} refused"
