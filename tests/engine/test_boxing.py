"""Records, nodes, references and slots' words are plain 64-bit words in the compiled engine.

Problem: they are value classes, which cost nothing until one of them gets into a collection, a
tuple or a function's type; then each use makes an object, and nothing says so.
Answer: a class that makes such an object names its constructor in its constant pool.
Invariant: only the classes that are listed here do, on rare paths.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator

import tailrace

VALUE_CLASSES = {
    "tailrace/cold/ColdRef",
    "tailrace/cold/ColdRefs",
    "tailrace/layout/Node",
    "tailrace/layout/Nodes",
    "tailrace/layout/Record",
    "tailrace/layout/Records",
    "tailrace/layout/SlotWord",
}

# One for each bucket of lists that are looked at for spilling.
ALLOWED = {
    ("tailrace/layout/time/TimeIndex", "tailrace/layout/Records"),
    ("tailrace/store/ListVictims", "tailrace/layout/Records"),
}

# Tags of the constant pool, and the bytes after each (JVM specification, 4.4).
UTF8, LONG, DOUBLE, CLASS, METHOD, NAME_AND_TYPE = 1, 5, 6, 7, 10, 12
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4}
SIZES |= {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def constructors(code: bytes) -> Iterator[str]:
    """The classes whose constructors a class file calls."""
    (count,) = struct.unpack_from(">H", code, 8)
    texts: dict[int, str] = {}
    pairs: dict[int, tuple[int, int]] = {}
    classes: dict[int, int] = {}
    methods: list[tuple[int, int]] = []
    at, index = 10, 1
    while index < count:
        tag = code[at]
        if tag == UTF8:
            (size,) = struct.unpack_from(">H", code, at + 1)
            texts[index] = code[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            if tag == CLASS:
                (classes[index],) = struct.unpack_from(">H", code, at + 1)
            elif tag == NAME_AND_TYPE:
                pairs[index] = struct.unpack_from(">HH", code, at + 1)
            elif tag == METHOD:
                methods.append(struct.unpack_from(">HH", code, at + 1))
            at += 1 + SIZES[tag]
        index += 2 if tag in (LONG, DOUBLE) else 1
    for owner, name in methods:
        if texts[pairs[name][0]] == "<init>":
            yield texts[classes[owner]]


def test_no_word_becomes_an_object() -> None:
    found = set()
    with zipfile.ZipFile(tailrace.jar()) as jar:
        names = [name for name in jar.namelist() if name.endswith(".class")]
        for name in names:
            for made in constructors(jar.read(name)):
                if made in VALUE_CLASSES:
                    found.add((name.removesuffix(".class"), made))
    assert {f"{name}.class" for name in VALUE_CLASSES} <= set(names)
    assert found == ALLOWED
