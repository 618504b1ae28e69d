# SPDX-License-Identifier: MIT
"""The table of a frozen image (rimf/store/frozen.h), for tests that change a field of it: found, and
sealed again, so that what is refused is the field and not the checksum.
"""
import struct

from support import check

MASK = 2**64 - 1


def mix(value, word):
    value = (value ^ word) * 0x9E3779B97F4A7C15 & MASK
    return value ^ value >> 29


def hashed(text):
    value = mix(0, len(text))
    for word, in struct.iter_unpack("<Q", text + bytes(-len(text) % 8)):
        value = mix(value, word)
    return value


def seal(image):
    """frozen_checksum (rimf/store/frozen.c)."""
    rest = image[32:]
    four = [len(rest), 1, 2, 3]
    for words in struct.iter_unpack("<4Q", rest[:len(rest) // 32 * 32]):
        four = [mix(value, word) for value, word in zip(four, words)]
    tables = mix(mix(*four[:2]), mix(*four[2:])) ^ hashed(rest[len(rest) // 32 * 32:])
    struct.pack_into("<Q", image, 24, hashed(image[:24]) ^ tables * 3 & MASK)


def tables(image):
    """Where each begins, and how many entries it has."""
    names = "objects texts words regions copies names relocations kept homes pointers".split()
    counts = dict(zip(names, struct.unpack_from("<10I", image, 48)))
    counts["shifts"], = struct.unpack_from("<I", image, 108)
    found, at = {}, struct.unpack_from("<I", image, 12)[0]
    for name, size in {"objects": 112, "texts": 40, "words": 16, "relocations": 40, "shifts": 8, "regions": 176,
                       "copies": 40, "homes": 8, "pointers": 16, "kept": 16}.items():
        found[name] = at, counts[name]
        at += size * counts[name]
    check(at + counts["names"] == len(image), "the test knows another format")
    return found


def rely_on_another_word(folder):
    """The image expects that the first slot leads where it does not."""
    image = bytearray((folder / "image").read_bytes())
    at, n = tables(image)["words"]
    check(n >= 1, "it relies on no word")
    struct.pack_into("<I", image, at + 12, struct.unpack_from("<I", image, at + 12)[0] ^ 1)
    seal(image)
    (folder / "image").write_bytes(image)
