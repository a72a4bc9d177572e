# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compressed images, as many publishers offer them: unpacked while they are downloaded, never more than a chunk at once."""

from __future__ import annotations

import bz2
import importlib
import lzma
import zlib

try:
    zstd = importlib.import_module("compression.zstd")  # Python 3.14
except ImportError:
    zstd = None

MOST_MEMORY = 256 << 20  # bytes that xz may need: the strongest preset needs 65 MiB
FAULTS = (lzma.LZMAError, zlib.error, OSError, ValueError, EOFError) + ((zstd.ZstdError,) if zstd else ())


class _Gzip:
    """zlib's decompressor with the interface of the others."""

    def __init__(self):
        self._stream, self.needs_input = zlib.decompressobj(31), True

    eof = property(lambda self: self._stream.eof)
    unused_data = property(lambda self: self._stream.unused_data)

    def decompress(self, data, most):
        out = self._stream.decompress(self._stream.unconsumed_tail + data, most)
        self.needs_input = not self._stream.unconsumed_tail and len(out) < most
        return out


# format -> (the first bytes of each stream, what makes its decompressor)
STREAMS = {
    "xz": (b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MOST_MEMORY)),
    "gzip": (b"\x1f\x8b\x08", _Gzip),
    "bzip2": (b"BZh", bz2.BZ2Decompressor),
    **({"zstd": (b"\x28\xb5\x2f\xfd", zstd.ZstdDecompressor)} if zstd else {}),
}


class Unpacker:
    """Unpacks what it is fed in pieces of at most ``most`` bytes. ``fault`` says why that went no further, or is None."""

    def __init__(self, kind, most):
        self.magic, self.make = STREAMS[kind]
        self.kind, self.most, self.stream, self.rest, self.fault = kind, most, self.make(), b"", None
        self.is_over = False

    def feed(self, data):
        try:
            yield from self._feed(data)
        except FAULTS as error:
            self.fault = self.fault or "is damaged: %s" % error

    def _feed(self, data):
        while not (self.fault or self.is_over):
            if self.stream is None:  # between two streams; what is no other one, such as a signature, is left out
                self.rest = (self.rest + data).lstrip(b"\0")
                self.is_over = not self.magic.startswith(self.rest[: len(self.magic)])
                if self.is_over or len(self.rest) < len(self.magic):
                    return
                self.stream, data, self.rest = self.make(), self.rest, b""
            yield self.stream.decompress(data, self.most)
            data = b""
            if self.stream.eof:
                data, self.stream = self.stream.unused_data, None
            elif self.stream.needs_input:
                return

    def end(self):
        """Say so if the last stream has no end."""
        if self.stream is not None:
            self.fault = self.fault or "ends too early"


def packed_as(head):
    """Return the format of a compressed file that can be unpacked here, by its first bytes, or None."""
    return next((kind for kind, (magic, _make) in STREAMS.items() if head.startswith(magic)), None)
