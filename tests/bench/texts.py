"""What is done with long texts, beside git: merged, compared, kept version by version; and what that does to others."""

import http.client
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import load
from beside import MESSAGES_PER_SECOND, TARGET, Beside, told
from servers import ROOT, Colloquy

# Name, lines, edits, times. Half of the edits on either side.
SIZES = [("1 KB", 22, 4, 100), ("100 KB", 2_200, 50, 50), ("1 MB", 20_000, 500, 20)]
# As JSON just below 8 MiB. There are as many merges as pairs of sides.
LARGEST_LINES, LARGEST_EDITS, LARGEST_SIDES = 160_000, 500, 12
VERSIONS = 1_000
MARKDOWN_BYTES = 100_000
READ_ROUNDS = 3
# The figure is small beside what a busy machine adds.
BESIDE_ROUNDS = 7
# A slot of so many lines takes at most one edit: merges find no conflict.
SLOT = 4
SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo zu grö ße né".split()
GIT = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")


class Line:
    """A connection that is kept, and how long each answer took to come."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.head = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}

    def ask(self, method, path, body=None, expected=200):
        body = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        begun = time.perf_counter()
        self.connection.request(method, f"/api/v1/documents{path}", body, self.head)
        answer = self.connection.getresponse()
        text = answer.read()
        took = (time.perf_counter() - begun) * 1e3
        if answer.status != expected:
            raise SystemExit(f"{method} {path} answered {answer.status}: {text[:500].decode()}")
        return text, took

    def made(self, path, body):
        return json.loads(self.ask("POST", path, body, 201)[0])["id"]


class Texts:
    """`note` takes lines of the report."""

    def __init__(self, folder, quick, note):
        self.server = Colloquy("texts", folder / "texts")
        self.folder, self.note = folder, note
        self.seconds = 5 if quick else 15
        self.dice = random.Random(7)
        self.words = ["".join(self.dice.choices(SYLLABLES, k=self.dice.randint(1, 4))) for _ in range(4_000)]
        # As in prose: the first ones are common.
        self.weights = list(accumulate(1 / place for place in range(1, len(self.words) + 1)))

    def scenarios(self):
        return {"docs_merge": self.merges, "docs_awkward": self.awkward, "docs_large": self.large, "docs_history": self.history, "docs_beside": self.beside}

    def names(self):
        return list(self.scenarios())

    def run(self, wanted):
        """The scenarios whose names are wanted."""
        scenarios = [scenario for name, scenario in self.scenarios().items() if wanted(name)]
        if not scenarios:
            return
        self.server.start()
        try:
            self.server.make_account()
            for scenario in scenarios:
                self.note(f"- load of the machine {os.getloadavg()[0]:.1f}")
                scenario()
        finally:
            self.server.end()

    # Texts

    def line(self):
        return " ".join(self.dice.choices(self.words, cum_weights=self.weights, k=8))

    def edited(self, lines, edits, sides=2):
        """A base and sides that share the edits; no two of these touch."""
        base = [self.line() for _ in range(lines)]
        slots = self.dice.sample(range(lines // SLOT), edits)
        texts = [base]
        for side in range(sides):
            text = list(base)
            for at in sorted((slot * SLOT for slot in slots[side::sides]), reverse=True):
                self.edit(text, at)
            texts.append(text)
        return ["".join(f"{line}\n" for line in text) for text in texts]

    def edit(self, lines, at):
        kind = self.dice.randrange(3)
        lines[at:at + (kind > 0)] = [self.line()] if kind < 2 else []

    # Merges and diffs

    def merges(self):
        for size in SIZES:
            self.merge(*size)

    def merge(self, name, lines, edits, times):
        texts, folder = self.edited(lines, edits), self.folder / "merge"
        folder.mkdir(exist_ok=True)
        for file, text in zip(("base", "ours", "theirs"), texts):
            (folder / file).write_text(text)
        line = Line(self.server)
        document = "/" + line.made("", {"title": name, "content": texts[0]})
        for branch, text in [("theirs", texts[2]), *((f"ours-{number}", texts[1]) for number in range(times))]:
            line.made(f"{document}/versions", {"content": text, "branch": branch, "parent": "1"})
        merged, compared, git_merged, git_compared, git_started = [], [], [], [], []
        for number in range(times):
            merge = {"source": "theirs", "target": f"ours-{number}"}
            merged.append(line.ask("POST", f"{document}/merge", merge, 201)[1])
            git_text = git(folder, git_merged, "merge-file", "-p", "-q", "ours", "base", "theirs")
            patch, took = line.ask("GET", f"{document}/diff?from=1&to=theirs")
            compared.append(took)
            git_patch = git(folder, git_compared, "diff", "--no-index", "--no-color", "--text", "base", "theirs")
            git(folder, git_started, "merge-file", "-h")
        text = json.loads(line.ask("GET", f"{document}/versions/ours-0")[0])["content"].encode()
        alone, started = computing(folder, times), statistics.median(git_started)
        shown = [("merge", merged, "merge-file", git_merged, text == git_text, ("merge",)),
                 ("diff", compared, "diff", git_compared, hunks(patch) == hunks(git_patch), ("unified", "json", "html"))]
        for what, ours, command, its, same, parts in shown:
            ours, its = statistics.median(ours), statistics.median(its)
            each, own = ", ".join(f"{part} {alone[part]:.2f}" for part in parts), its - started
            verdict = ""
            if name == SIZES[-1][0]:
                ratio = alone[parts[0]] / own
                verdict = f": computing takes {ratio:.2f} × (target ≤ 1): {'met' if ratio <= 1 else 'MISSED'}"
            self.note(f"- {what}, {name}, {lines:,} lines, {edits} edits: {ours:.1f} ms over HTTP, computing it alone {each}; "
                      f"`git {command}` {its:.1f} ms, {started:.1f} of them its start{verdict}"
                      f"{'' if same else ', OTHER TEXT THAN GIT'}")

    def awkward(self):
        """Texts of 8 MiB in which nearly every line could be nearly every other one."""
        folder = self.folder / "merge"
        folder.mkdir(exist_ok=True)
        def drawn(size, lines):
            return "".join(f"{line}\n" for line in self.dice.choices(lines, k=size // (len(lines[0]) + 1)))
        pool = [f"line {number:04} of a pool of lines that all texts have" for number in range(5_000)]
        mib = 1 << 20
        for name, texts in [("8 MiB, all lines equal", ["same\n" * (8 * mib // 5 - less) for less in (0, 180, 1_000)]),
                            ("8 MiB, no common line", [f"{word}\n" * (2 * mib) for word in ("one", "two", "six")]),
                            ("8 MiB drawn from 5,000 lines", [drawn(8 * mib, pool) for _ in range(3)]),
                            ("1 MiB drawn from 3 lines", [drawn(mib, ["a", "b", "c"]) for _ in range(3)])]:
            for file, text in zip(("base", "ours", "theirs"), texts):
                (folder / file).write_text(text)
            alone = computing(folder, 1)
            merged, compared = [], []
            git(folder, merged, "merge-file", "-p", "-q", "ours", "base", "theirs")
            git(folder, compared, "diff", "--no-index", "--no-color", "--text", "base", "theirs")
            self.note(f"- {name}: merging takes {alone['merge']:,.0f} ms, `git merge-file` {merged[0]:,.0f}; comparing "
                      f"{alone['unified']:,.0f} (json {alone['json']:,.0f}, html {alone['html']:,.0f}), `git diff` {compared[0]:,.0f}")

    def large(self):
        """A document of 8 MiB that changes, and how soon it is found."""
        line, texts = Line(self.server), self.edited(LARGEST_LINES, LARGEST_EDITS, 3)
        document, took, found = "/" + line.made("", {"title": "Large", "content": "Begun."}), [], []
        for text in texts:
            took.append(line.ask("PUT", document, {"content": text})[1])
            begun = time.perf_counter()
            self.settle()
            found.append((time.perf_counter() - begun) * 1e3)
        self.note(f"- 8 MiB, stored over HTTP in {in_turn(took)} ms, found {in_turn(found)} ms later (in place of a short one, "
                  f"then each with other {LARGEST_EDITS // 3} lines changed)")

    # Histories

    def history(self):
        server = Colloquy("history", self.folder / "history")
        server.start()
        server.make_account()
        line, text = Line(server), self.markdown()
        document = "/" + line.made("", {"title": "History", "content": "Begun."})
        versions, before = [], self.stored(server)
        line, took = Line(server), []
        for _ in range(VERSIONS):
            took.append(line.ask("PUT", document, {"content": "\n".join(text)})[1])
            versions.append("\n".join(text))
            for _ in range(self.dice.randint(1, 3)):
                self.edit(text, self.dice.randrange(len(text)))
        after = self.stored(server)
        line, reads = Line(server), []
        for number in self.dice.sample(range(VERSIONS), VERSIONS):
            times = []
            for _ in range(READ_ROUNDS):
                answer, ms = line.ask("GET", f"{document}/versions/{number + 2}")
                times.append(ms)
            if json.loads(answer)["content"] != versions[number]:
                raise SystemExit(f"version {number + 2} is not what was written")
            reads.append(times)
        server.end()
        frames = sqlite3.connect(server.folder / "data/colloquy.db").execute("SELECT sum(length(frame)) FROM versions")
        self.tell_history(took, after - before, frames.fetchone()[0], self.repository(versions), reads)

    def stored(self, server):
        """Bytes of the store's file, everything in it. The server runs again then."""
        server.end()
        stored = server.stored_bytes("colloquy.db") - server.stored_bytes("colloquy.db.")
        server.start()
        return stored

    def markdown(self):
        lines, size = [], 0
        while size < MARKDOWN_BYTES:
            kind = self.dice.randrange(10)
            lines.append({0: "", 1: f"## {self.line()}", 2: f"- {self.line()}"}.get(kind) or f"{self.line()} {self.line()}.")
            size += len(lines[-1].encode()) + 1
        return lines

    def repository(self, versions):
        """Bytes that git packs these to, as it does it by itself and at its best."""
        folder = self.folder / "repository"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        def run(*command):
            subprocess.run(["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0",
                            *command], cwd=folder, env=GIT, check=True, capture_output=True)
        run("init")
        for number, version in enumerate(versions):
            (folder / "history.md").write_text(version)
            run("add", "history.md")
            run("commit", "-m", f"Version {number}")
        sizes = []
        for how in ([], ["--aggressive"]):
            run("gc", *how)
            sizes.append(sum(file.stat().st_size for file in (folder / ".git/objects").rglob("*") if file.is_file()))
        return sizes

    def tell_history(self, took, stored, frames, repository, reads):
        git_bytes, at_best = repository
        ratio = stored / git_bytes
        self.note(f"- {VERSIONS:,} versions of {MARKDOWN_BYTES // 1_000} KB of Markdown, each made over HTTP in "
                  f"{statistics.median(took):.1f} ms: {stored / 1e6:.2f} MB in the store with their events and activity, "
                  f"{frames / 1e6:.2f} of it texts; `git gc` {git_bytes / 1e6:.2f} MB, with --aggressive {at_best / 1e6:.2f}: "
                  f"{ratio:.2f} × (target ≤ 2): {'met' if ratio <= 2 else 'MISSED'}")
        middles, every = [statistics.median(times) for times in reads], [one for times in reads for one in times]
        worst = max(middles)
        self.note(f"- to read one of them over HTTP: p50 {statistics.median(middles):.1f} ms, the slowest of them "
                  f"{worst:.1f} ms (median of {READ_ROUNDS}; a single time at most {max(every):.1f} ms) (target ≤ 5 ms): "
                  f"{'met' if worst <= 5 else 'MISSED'}")

    # Messages beside merges

    def beside(self):
        server = self.server
        customers = load.make(server, "create_customer", None, 50, self.folder / "texts.customers",
                              lambda: server.total("customers"))
        ids = load.make(server, "create", customers, 64, self.folder / "texts.conversations",
                        lambda: server.total("conversations"))
        messages = Beside(server, ids, self.seconds)
        try:
            texts = self.edited(LARGEST_LINES, LARGEST_EDITS, LARGEST_SIDES)
            alone, beside, merges = messages.compare(BESIDE_ROUNDS, lambda: Merging(server, texts), self.settle)
        finally:
            messages.end()
        self.note(f"- {MESSAGES_PER_SECOND} messages/s to 64 conversations, {len(merges)} merges of 8 MiB beside them, each in "
                  f"{statistics.median(merges):.0f} ms: {told(alone, beside, 'merges')} {TARGET}")

    def settle(self):
        """Until the search has taken in what was written."""
        while self.server.status("/api/v1/documents?q=" + urllib.parse.quote(self.words[0])) != 200:
            pass


class Merging:
    """Merges of a document of 8 MiB, one after the other, until it is ended."""

    def __init__(self, server, texts):
        self.line, self.sides = Line(server), len(texts) - 1
        self.document = "/" + self.line.made("", {"title": "Largest", "content": texts[0]})
        for number, text in enumerate(texts[1:]):
            self.line.made(f"{self.document}/versions", {"content": text, "branch": f"side-{number}", "parent": "1"})
        self.ended = threading.Event()

    def start(self):
        self.running = ThreadPoolExecutor(1).submit(self.run)

    def end(self):
        """Milliseconds that each took."""
        self.ended.set()
        return self.running.result()

    def run(self):
        took = []
        for target in ["head", *(f"side-{number}" for number in range(self.sides))]:
            for source in range(self.sides):
                if self.ended.is_set():
                    return took
                if target != f"side-{source}":
                    merge = {"source": f"{source + 2}", "target": target}
                    took.append(self.line.ask("POST", f"{self.document}/merge", merge, 201)[1])
        raise SystemExit("the merges ended before the messages")


def git(folder, took, *command):
    """What it prints; how long it took is put to the others."""
    begun = time.perf_counter()
    ended = subprocess.run(["git", *command], cwd=folder, env=GIT, stdin=subprocess.DEVNULL, capture_output=True)
    took.append((time.perf_counter() - begun) * 1e3)
    return ended.stdout


def computing(folder, times):
    """Milliseconds that ours take without a server, of the texts in this folder."""
    ended = subprocess.run([ROOT / "target/release/examples/merge", folder, str(times)], check=True, capture_output=True,
                           text=True)
    return json.loads(ended.stdout)


def in_turn(took):
    return " / ".join(f"{one:,.0f}" for one in took)


def hunks(patch):
    return patch[patch.find(b"@@"):]
