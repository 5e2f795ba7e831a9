"""What episodes are, as a number: the same for the same content, wherever it lies."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..types import Columns
from .episodes import Held, Source


class Sums(NamedTuple):
    """SHA-256 of some episodes, in hexadecimal."""

    content: str
    """Of what they hold, in whatever lanes and order: columns bit for bit, ages and endings."""

    whole: str
    """Of that, with lanes and row counters, in order."""


class Summed:
    """A source whose episodes are summed as they are read, each as a whole and in any order."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.space = source.space
        self.held = source.held
        self._digests: dict[int, bytes] = {}

    def pieces(self, number: int) -> Iterator[Columns]:
        """See `Source.pieces`."""
        sums = {name: hashlib.sha256() for name in self.space.columns}
        for piece in self._source.pieces(number):
            for name, array in piece.items():
                sums[name].update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            yield piece
        one = self.held[number]
        head = _packed([one.age, one.steps, one.ended])
        columns = b"".join(x.digest() for x in sums.values())
        self._digests[number] = hashlib.sha256(head + columns).digest()

    def skip(self, number: int) -> None:
        """Reads an episode for its sum alone."""
        for _ in self.pieces(number):
            pass

    def sums(self) -> Sums:
        """The sums of all episodes; those that were not read are read now."""
        for number in range(len(self.held)):
            if number not in self._digests:
                self.skip(number)
        space = _packed(self.space.as_json())
        content, whole = hashlib.sha256(space), hashlib.sha256(space)
        for digest in sorted(self._digests.values()):
            content.update(digest)
        for number, one in enumerate(self.held):
            whole.update(_place(one) + self._digests[number])
        return Sums(content.hexdigest(), whole.hexdigest())


def _place(one: Held) -> bytes:
    return _packed([one.lane, one.first_row])


def _packed(content: Any) -> bytes:
    return json.dumps(content).encode()
