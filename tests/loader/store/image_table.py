# SPDX-License-Identifier: MIT
"""The tables of a manifest (rimf/store/manifest.h), for tests that change a field of it: found, and
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
    """manifest_checksum (rimf/store/manifest.c)."""
    rest = image[32:]
    four = [len(rest), 1, 2, 3]
    for words in struct.iter_unpack("<4Q", rest[:len(rest) // 32 * 32]):
        four = [mix(value, word) for value, word in zip(four, words)]
    tables = mix(mix(*four[:2]), mix(*four[2:])) ^ hashed(rest[len(rest) // 32 * 32:])
    struct.pack_into("<Q", image, 24, hashed(image[:24]) ^ tables * 3 & MASK)


def tables(image):
    """Where each begins, and how many entries it has."""
    sizes = {"objects": 128, "texts": 40, "words": 16, "relocations": 40, "shifts": 8, "regions": 136,
             "fragments": 40, "fixed": 8, "pointers": 16, "kept": 16, "names": 1}
    counts = struct.unpack_from("<11I", image, 104)
    found, at = {}, struct.unpack_from("<I", image, 12)[0]
    for (name, size), n in zip(sizes.items(), counts):
        found[name] = at, n
        at += size * n
    check(at == len(image), "the test knows another format")
    return found


def rely_on_another_word(folder):
    """The image expects that the first slot leads where it does not."""
    image = bytearray((folder / "manifest").read_bytes())
    at, n = tables(image)["words"]
    check(n >= 1, "it relies on no word")
    struct.pack_into("<I", image, at + 12, struct.unpack_from("<I", image, at + 12)[0] ^ 1)
    seal(image)
    (folder / "manifest").write_bytes(image)
