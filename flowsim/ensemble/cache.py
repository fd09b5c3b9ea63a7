"""How many lanes fit in the cache of one core."""

from pathlib import Path

from flowsim.ensemble.series import ARRAYS_A_LANE

CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
#: Bytes where the system does not say.
USUAL = 2**19
MOST_LANES = 128


def second_level_bytes(place: Path = CACHE) -> int:
    """Size of a core's second-level cache; half a mebibyte where it is not known."""
    for index in sorted(place.glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
            if level == "2" and kind != "Instruction":
                return int(size[:-1]) * UNITS[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return USUAL


def lanes_for(width: int, cache: int | None = None) -> int:
    """The largest power of two of lanes of chains of this width that stay in the cache."""
    bytes_a_lane = 8 * ARRAYS_A_LANE * width
    fitting = (second_level_bytes() if cache is None else cache) // bytes_a_lane
    return min(MOST_LANES, 1 << max(0, int(fitting).bit_length() - 1))
