"""Verifies an export of the audit trail, from the words of the README alone."""

import hashlib
import json
import struct
import sys

with open(sys.argv[1], encoding="utf-8") as export:
    lines = [json.loads(line) for line in export]
header, records, end = lines[0], lines[1:-1], lines[-1]
assert header["colloquy_audit"] == 1, header
link, position = bytes(32), 0


def text(value):
    return b"\0" if value is None else b"\2" + struct.pack(">I", len(value)) + value


for record in records:
    numbers = b"".join(
        b"\0" if number is None else b"\1" + struct.pack(">q", number) for number in record["numbers"]
    )
    address = None if record["address"] is None else record["address"].encode()
    texts = text(address) + text(record["request"].encode()) + text(bytes.fromhex(record["hash"]))
    digest = hashlib.sha256(b"colloquy audit record 1\n" + numbers + texts).digest()
    link = hashlib.sha256(link + digest).digest()
    assert record["link"] == link.hex(), f"broken at {record['numbers'][0]}"
    assert record["numbers"][0] > position
    position = record["numbers"][0]
assert end["head"]["link"] == link.hex(), "the tail is cut off"
print(f"{len(records)} records verified")
