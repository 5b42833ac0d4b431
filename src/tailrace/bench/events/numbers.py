"""Random-looking values from an event's number.

Problem: a generator with a state of its own can neither be split over tasks nor replayed.
Answer: every value is a hash of the event's number, a seed and the value's name.
Invariant: equal arguments give equal values, in every batch, task and run.
"""

from __future__ import annotations

import math
import random
import zlib

from pyspark.sql import Column
from pyspark.sql import functions as F

_PADDING_SOURCE_LENGTH = 8192


def hashed(number: Column, seed: int, what: str) -> Column:
    """64 hashed bits; draws with different names of one number are independent."""
    salt = (seed << 32) ^ zlib.crc32(what.encode())
    # A seed may have any size; the literal is a signed 64-bit integer.
    return F.xxhash64(number, F.lit((salt + 2**63) % 2**64 - 2**63).cast("long"))


def below(number: Column, seed: int, what: str, bound: int | Column) -> Column:
    """An integer from 0 to bound - 1, uniform."""
    limit = F.lit(bound).cast("long") if isinstance(bound, int) else bound
    return F.pmod(hashed(number, seed, what), limit)


def fraction(number: Column, seed: int, what: str) -> Column:
    """A double in [0, 1), uniform."""
    return F.shiftrightunsigned(hashed(number, seed, what), 11) / F.lit(float(2**53))


def chance(number: Column, seed: int, what: str, share: float) -> Column:
    """True for this share of the numbers."""
    return fraction(number, seed, what) < F.lit(float(share))


def zipf(number: Column, seed: int, what: str, bound: int, exponent: float) -> Column:
    """An integer from 0 to bound - 1, of which small ones are frequent; exponent 0 is uniform.

    The continuous distribution with density x^-exponent on [1, bound + 1) is inverted and rounded
    down, which is zipf's law but for the rounding, and needs no table.
    """
    if exponent == 0:
        return below(number, seed, what, bound)
    u = fraction(number, seed, what)
    end = float(bound + 1)
    if exponent == 1:
        drawn = F.pow(F.lit(end), u)
    else:
        power = 1 - exponent
        drawn = F.pow(u * F.lit(end**power - 1) + F.lit(1.0), F.lit(1 / power))
    # Rounding of the power must not exceed the range.
    return F.least(F.floor(drawn) - 1, F.lit(bound - 1)).cast("long")


def padding(number: Column, seed: int, what: str, length: int) -> Column:
    """Text of this length that differs from row to row and hardly compresses within one."""
    if length <= 0:
        return F.lit("")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    source = "".join(random.Random(seed).choices(letters, k=_PADDING_SOURCE_LENGTH + length))
    start = below(number, seed, what, _PADDING_SOURCE_LENGTH) + 1
    return F.substring(F.lit(source), start.cast("int"), F.lit(length))


def noise(number: Column, seed: int, what: str, length: int) -> Column:
    """Text of this length that does not compress over many rows either, as NEXMark's does not."""
    if length <= 0:
        return F.lit("")
    parts = [
        F.lpad(F.hex(hashed(number, seed, f"{what} {part}")), 16, "0")
        for part in range(-(-length // 16))
    ]
    return F.substring(F.concat(*parts), 1, length)


def permuted(number: Column, seed: int, group: int) -> Column:
    """Permutes the numbers inside each block of `group` consecutive ones; 1 changes nothing.

    Inside a block: position -> (position * step + shift) mod group. The step is prime to the
    group and far from it, the shift is drawn per block.
    """
    if group == 1:
        return number
    step = max(1, round(group * 0.618))
    while math.gcd(step, group) != 1:
        step += 1
    position = F.pmod(number, F.lit(group).cast("long"))
    block = number - position
    return block + F.pmod(
        position * F.lit(step) + below(block, seed, "permutation", group),
        F.lit(group).cast("long"),
    )
