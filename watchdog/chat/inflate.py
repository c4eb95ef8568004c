"""Compressed bodies from servers that compress although asked not to, inflated under a bound."""

from __future__ import annotations

import zlib


class Inflater:
    """Inflates gzip or zlib data, `limit` bytes in all: a gzip bomb costs no more than any other long reply."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` bytes of output."""
        self._left = limit
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._broken = False

    def feed(self, data: bytes) -> bytes:
        """What `data` inflates to, as far as the limit allows. Data that is not compressed at all comes back as is."""
        if self._broken:
            return data
        out = b""
        while data and self._left > 0 and not self._inflate.eof:
            try:
                piece = self._inflate.decompress(data, min(self._left, 1 << 16))
            except zlib.error:
                self._broken = True
                return out + data
            self._left -= len(piece)
            data = self._inflate.unconsumed_tail
            out += piece
            if not piece and not data:
                break
        return out
