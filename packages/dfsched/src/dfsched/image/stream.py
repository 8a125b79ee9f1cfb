"""Little-endian writing and bounds-checked reading of records, and the table of strings."""

from __future__ import annotations

import struct

from dfsched.image.errors import InvalidImage

__all__ = ["ALIGNMENT", "Out", "Source", "Strings", "align"]

ALIGNMENT = 128


def align(size: int, to: int = ALIGNMENT) -> int:
    """`size` rounded up to a multiple of `to`."""
    return -(-size // to) * to


class Strings:
    """NUL-terminated strings in order of first use; offset 0 is the empty string."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._offsets = {"": 0}

    def offset(self, text: str) -> int:
        """Offset of `text`, added if new; InvalidImage if it holds a NUL."""
        known = self._offsets.get(text)
        if known is None:
            if "\0" in text:
                raise InvalidImage(f"string {text!r} contains a NUL")
            known = self._offsets[text] = len(self.data)
            try:
                self.data += text.encode() + b"\0"
            except UnicodeEncodeError:
                raise InvalidImage(f"string {text!r} is not valid Unicode") from None
        return known


class Out:
    """Appends records to a section and counts them."""

    def __init__(self, strings: Strings) -> None:
        self.data = bytearray()
        self.count = 0
        self._strings = strings

    def put(self, layout: str, *values: int | bytes) -> None:
        """Append fields (`struct` letters, little-endian, no padding)."""
        try:
            self.data += struct.pack(f"<{layout}", *values)
        except struct.error as error:
            raise InvalidImage(f"a field is out of range: {error}") from None

    def text(self, value: str) -> None:
        """Append the offset of a string."""
        self.put("I", self._strings.offset(value))

    def pad(self, to: int = 8) -> None:
        """Zeros up to a multiple of `to` bytes."""
        self.data += bytes(align(len(self.data), to) - len(self.data))


class Source:
    """Reads records of one section; every read outside it is `InvalidImage`."""

    def __init__(self, data: bytes, tag: str, strings: bytes) -> None:
        self._data = data
        self._tag = tag
        self._strings = strings
        self.position = 0

    def take(self, layout: str) -> tuple[int, ...]:
        """The next fields."""
        reader = struct.Struct(f"<{layout}")
        end = self.position + reader.size
        if end > len(self._data):
            raise InvalidImage(f"section {self._tag} ends inside a record")
        values = reader.unpack_from(self._data, self.position)
        self.position = end
        return values

    def one(self, layout: str) -> int:
        (value,) = self.take(layout)
        return value

    def many(self, letter: str, count: int) -> tuple[int, ...]:
        """`count` equal fields; checks the size first, so a huge count costs nothing."""
        if count * struct.calcsize(f"<{letter}") > len(self._data) - self.position:
            raise InvalidImage(f"section {self._tag} ends inside a record")
        return self.take(f"{count}{letter}")

    def raw(self, count: int) -> bytes:
        if count > len(self._data) - self.position:
            raise InvalidImage(f"section {self._tag} ends inside a record")
        value = self._data[self.position : self.position + count]
        self.position += count
        return value

    def text(self) -> str:
        """The string whose offset is the next field."""
        offset = self.one("I")
        end = self._strings.find(b"\0", offset) if offset < len(self._strings) else -1
        if end < 0:
            raise InvalidImage(f"section {self._tag} names no string at offset {offset}")
        try:
            return self._strings[offset:end].decode()
        except UnicodeDecodeError:
            raise InvalidImage(f"string at offset {offset} is not UTF-8") from None

    def pad(self, to: int = 8) -> None:
        self.raw(align(self.position, to) - self.position)

    @property
    def at_end(self) -> bool:
        return self.position == len(self._data)
