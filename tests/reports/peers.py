"""The defects of other replay memories, and which test shows that ours lacks each of them.

Numbers are those that users reported, owner/repo#n by each test; letters were found while reading
the peers' sources. A test says by `@peers(24)` which it is about. What cannot be tested before the
part exists that could have the defect stands in `LATER`, so that none is forgotten.
"""

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])
DEFECTS = [*map(str, range(1, 50)), *"abcdefghijklmnop"]
COVERED: dict[str, list[str]] = {}
"""Names of the tests of each defect, as far as their modules are loaded."""

TREE = "the prioritized sampler and its tree (M11)"
LOG = "the log of segments: the disk tier, and the replay in a checkpoint (M10)"
PARALLEL = "the parallel runtime with its shared tier (I3, DESIGN 6)"
NOBODY = "no step of DESIGN brings it; it has to be decided first"

LATER = {
    "12": ("workers hold no copies of the one store", PARALLEL),
    "13": ("what spills is really on disk, size and place shown before", LOG),
    "14": ("what does not fit goes to disk", LOG),
    "19": ("a large memory is saved in chunks", LOG),
    "20": ("shared memory and disk are reserved, and refuse with words", f"{PARALLEL}; {LOG}"),
    "21": ("what is on disk lies in the run's folder, and is there at a resume", LOG),
    "22": ("a data set larger than RAM is read in chunks", f"{NOBODY}: offline data; after {LOG}"),
    "36": ("hindsight goals at the ring's seam and an episode's end", f"{NOBODY}: HER"),
    "40": ("no index past the end, no leaf of priority zero", TREE),
    "41": ("one exponent, the current greatest priority", TREE),
    "42": ("prioritized windows within an episode, in a full ring too", TREE),
    "43": ("no endless loop where few leaves are legal", TREE),
    "44": ("priorities stay with their rows as the ring turns", TREE),
    "45": ("no NaN enters, the least probability is of live leaves", TREE),
    "46": ("the newest leaf is in the sum", TREE),
    "47": ("the greatest priority is not rounded", TREE),
    "48": ("tree and generator are in the checkpoint", f"{TREE}; {LOG}"),
    "49": ("a resumed run keeps its replay ratio", f"`resume`, with {LOG}"),
    "k": ("evicted chunks leave the disk, saving is atomic", LOG),
    "l": ("the disk is trimmed, a torn tail is cut off", LOG),
}
"""What is right, and the step that it comes with."""

PARTLY = {
    "11": ("loading a checkpoint's replay", LOG),
    "18": ("writing the state to disk within 64 MB", LOG),
    "a": ("the plan's other tiers, named by where they are", f"{PARALLEL}; {LOG}"),
    "d": ("NaN priorities, the least priority", TREE),
    "e": ("NaN priorities", TREE),
    "g": ("weights that know which starts can be drawn", TREE),
    "h": ("the greatest priority after a resume", f"{TREE}; {LOG}"),
    "o": ("exports without loss", f"{NOBODY}: export to Minari"),
}
"""What the tests there are leave open of a defect, and the step that it comes with."""


def peers(*defects: int | str) -> Callable[[Test], Test]:
    """Says of which defects a test is; its name has to begin with them."""
    names = [str(defect) for defect in defects]
    kind = "3b_" if names[0].isalpha() else ""

    def note(test: Test) -> Test:
        begins = f"test_{kind}{'_'.join(name.zfill(2) if not kind else name for name in names)}_"
        assert test.__name__.startswith(begins), f"{test.__name__} begins with {begins}"
        for name in names:
            COVERED.setdefault(name, []).append(test.__name__)
        return test

    return note
