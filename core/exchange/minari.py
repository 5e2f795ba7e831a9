"""Episodes as a Minari dataset, its pictures as they are: Minari's own default is JPEG.

A Minari episode has a step at least. Those that have none, an observation alone, lie beside the
dataset in a file of our own, `stepless.hdf5`, which Minari does not look at. See docs/data.md.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..types import Columns
from . import hdf5
from .episodes import ENDINGS, Held, Source, joined
from .header import INSTALL, NAME, check_whole, foreign, header_json, header_of, package, reading
from .minari_spaces import action_space, flat, nested, observation_space
from .space import Space
from .sums import Summed, Sums

if TYPE_CHECKING:
    from gymnasium import Space as GymSpace

METADATA: Final = "metadata.json"
STEPLESS: Final = "stepless.hdf5"
FILES: Final = frozenset({METADATA, "main_data.hdf5", STEPLESS})
"""What such a folder holds."""


def write(
    path: Path, source: Source, about: Mapping[str, Any], observed: "GymSpace[Any] | None" = None
) -> Sums:
    """Writes a new folder, an episode at a time. Raises OSError where the disk fails.

    `observed` is the environment's observation space; without it, one is made of the columns.
    """
    summed, shape = Summed(source), observation_space(source.space, observed)
    data = _storage().new(path, shape, action_space(source.space), jpeg_encoding=False)
    stepless = [number for number, one in enumerate(source.held) if not one.steps]
    others = [number for number, one in enumerate(source.held) if one.steps]
    data.update_episodes(_buffer(summed, number, shape) for number in others)
    data.update_episode_metadata([_facts(source.held[number]) for number in others])
    if stepless:
        hdf5.write(path / STEPLESS, Part(summed, stepless), about)
    sums = summed.sums()
    data.update_metadata(
        {
            "dataset_id": dataset_id(str(about.get("run", "episodes"))),
            "minari_version": package("minari").__version__,
            "description": "Exported by Engram from the memory of a run.",
            NAME: header_json(source, sums, about),
        }
    )
    return sums


def dataset_id(run: str) -> str:
    """A name that Minari takes."""
    return f"{NAME}/{re.sub(r'[^A-Za-z0-9_-]', '-', run)}-v0"


def require() -> None:
    """Raises UsageError where a package is missing, or too old."""
    _storage()


def _storage() -> Any:
    """Minari's class of storages, if it can keep pictures as they are."""
    package("h5py")  # first, since Minari says of its absence what installs only that
    minari = package("minari")
    storage = package("minari.dataset.minari_storage").MinariStorage
    if "jpeg_encoding" not in signature(storage.new).parameters:
        raise UsageError(f"minari {minari.__version__} cannot keep pictures as they are: {INSTALL}")
    return storage


def _facts(one: Held) -> dict[str, Any]:
    """What an episode's metadata hold."""
    return {"lane": one.lane, "first_row": one.first_row, "age": one.age, "ended": one.ended}


def _held(facts: Mapping[str, Any]) -> Held:
    """What `_facts` gave, with the number of steps, which Minari adds."""
    lane, first_row, age = (int(facts[name]) for name in ("lane", "first_row", "age"))
    check_whole(facts["ended"] in ENDINGS, f"an episode ended {facts['ended']}")
    return Held(lane, first_row, age, int(facts["total_steps"]), facts["ended"])


def _buffer(source: Source, number: int, shape: "GymSpace[Any]") -> Any:
    """An episode in Minari's terms."""
    columns, space = joined(source, number), source.space
    terminations, truncations = _ends(source.held[number])
    return package("minari.data_collector").EpisodeBuffer(
        observations=nested(columns, shape),
        actions=columns["action"],
        rewards=columns["reward"],
        terminations=terminations,
        truncations=truncations,
        infos={info: columns[name] for name, info in _infos(space).items()},
    )


def _infos(space: Space) -> dict[str, str]:
    """Columns that Minari has no place for, and what they are called among its infos."""
    return {name: quote(name, safe="") for name in ("terminal", *space.extras)}


def _ends(one: Held) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Minari's terminations and truncations, `[T]`.

    Every episode of Minari ends by one of the two: one that is still open is truncated there, as
    Minari's own collector does it, and its metadata say that it is open.
    """
    last = np.arange(one.steps) == one.steps - 1
    return last & (one.ended == "terminated"), last & (one.ended != "terminated")


class Part:
    """Some episodes of a source."""

    def __init__(self, source: Source, numbers: Sequence[int]) -> None:
        self._source, self._numbers = source, numbers
        self.space = source.space
        self.held = [source.held[number] for number in numbers]

    def pieces(self, number: int) -> Iterator[Columns]:
        """See `Source.pieces`."""
        return self._source.pieces(self._numbers[number])


class MinariEpisodes:
    """The episodes of a dataset that we wrote; opening it reads no observation."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError for a foreign folder, BrokenExportError for a damaged one."""
        self._path, storage = path, _storage()
        if not (path / METADATA).is_file():
            raise foreign(path)
        with reading(path):
            metadata = json.loads((path / METADATA).read_text())
            if NAME not in metadata:
                raise foreign(path)
            self.header = header_of(metadata[NAME], path)
            self.space = self.header.space
            self._data = storage.read(path)
            check_whole(not self._data.jpeg_encoding, "its pictures are not as they were")
        there = (path / STEPLESS).exists()
        self._stepless = hdf5.HDF5Episodes(path / STEPLESS) if there else None
        with reading(path):
            found = self._index()
        self.held = [one for one, _ in found]
        self._places = [place for _, place in found]

    def _index(self) -> list[tuple[Held, int]]:
        """Every episode and its number in the dataset, or below 0 its place among the stepless."""
        metadata = self._data.get_episode_metadata(range(self._data.total_episodes))
        found = [(_held(facts), number) for number, facts in enumerate(metadata)]
        stepless = self._stepless.held if self._stepless else []
        found += [(one, -1 - place) for place, one in enumerate(stepless)]
        return sorted(found, key=lambda item: (item[0].lane, item[0].first_row))

    def pieces(self, number: int) -> Iterator[Columns]:
        """See `Source.pieces`: all at once. Raises BrokenExportError for what cannot be read."""
        place = self._places[number]
        if place < 0 and self._stepless is not None:
            yield from self._stepless.pieces(-1 - place)
            return
        with reading(self._path):
            columns = self._columns(number, place)
        yield columns

    def _columns(self, number: int, place: int) -> Columns:
        (episode,) = self._data.get_episodes([place])
        columns = flat(episode["observations"])
        columns |= {"action": episode["actions"], "reward": episode["rewards"]}
        columns |= {name: episode["infos"][info] for name, info in _infos(self.space).items()}
        one = self.held[number]
        for name, spec in self.space.columns.items():
            rows = one.rows if name in self.space.observations else one.steps
            found, wanted = columns[name], (rows, *spec.shape)
            same = found.shape == wanted and found.dtype == spec.dtype
            check_whole(same, f"'{name}' is {found.dtype}{found.shape}, not {spec.dtype}{wanted}")
        for name, wanted_ends in zip(("terminations", "truncations"), _ends(one), strict=True):
            check_whole(np.array_equal(episode[name], wanted_ends), f"'{name}' are not as written")
        return {name: columns[name] for name in self.space.columns}

    def close(self) -> None:
        """Closes what is open."""
        if self._stepless is not None:
            self._stepless.close()
