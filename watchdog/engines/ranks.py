"""What NCCL's own service (RAS) tells of a server's ranks, taken apart, and what of it says that one of them hangs.

`verbose status`, as JSON (NCCL 2.28 and later) or as text (from 2.24 on). Counts that stand still prove nothing: a
healthy server that replays CUDA graphs shows equal, unmoving counts. What says something is a difference that is the
same in two looks, a rank that is missing or dead, and a query that hangs (recorded in `tests/fixtures/nccl`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchdog.json_values import loads_untrusted
from watchdog.model import Json

LASTING_S = 10.0
"""A difference between ranks counts when it is the same after so long: health may differ by one for an instant."""
FORGET_S = 600.0
"""What was seen longer ago than this belongs to another trouble."""
_SHOWN = 3
_MOST = 4096


class Answer(StrEnum):
    """How the request `nccl` ended on a host. `OLDER`: the reader installed there does not know it."""

    DONE = "done"
    HANGS = "hangs"
    NOBODY = "nobody"
    NONE = "none"
    OLDER = "older"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank; None where only its process is known. `address` is that of its host, "" if unknown."""

    number: int | None
    address: str = ""
    process: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Ranks of one communicator that have not launched what others have: `operation` number so and so.

    `waiting` are numbers of ranks that have, `waiting_count` is how many these are. `counts` are all counts told.
    """

    communicator: str
    collective: str
    operation: int
    behind: tuple[Rank, ...]
    behind_count: int
    waiting: tuple[int, ...]
    waiting_count: int
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One answer. `nodes` is on how many machines the ranks run; None if unknown.

    `is_readable`: it holds NCCL's table of communicators. `dead` are those that NCCL has given up, `missing` those that
    gave no data and still may.
    """

    answer: Answer
    is_readable: bool = False
    nodes: int | None = None
    differences: tuple[Difference, ...] = ()
    missing: tuple[Rank, ...] = ()
    dead: tuple[Rank, ...] = ()

    @property
    def hangs(self) -> bool:
        """Whether somebody took the connection and never answered."""
        return self.answer is Answer.HANGS and not self.is_readable

    @property
    def is_there(self) -> bool:
        """Whether ranks, or what holds their port, are there to be asked again."""
        return self.hangs or self.is_readable


def read_ranks(lines: Iterable[bytes]) -> RankRecord:
    """The data lines of one answer of the reader. Total on any bytes."""
    answer, told = Answer.FAILED, list[str]()
    for line in lines:
        text = line.decode("ascii", "replace")
        if text.startswith("| "):
            told.append(text[2:])
        elif text.startswith("nccl_rc="):
            word = text.removeprefix("nccl_rc=").partition("-")[0]
            answer = Answer(word) if word in set(Answer) else Answer.FAILED
    whole = "\n".join(told)
    return _from_json(whole, answer) or _from_text(told, answer)


# JSON.

_LACKS_COMMA = re.compile(r'([0-9])([ \t]*\n[ \t]*")')
"""NCCL 2.28 leaves out the comma behind the last number of a missing rank."""


def _from_json(text: str, answer: Answer) -> RankRecord | None:
    begin, end = text.find("{"), text.rfind("}")
    if not 0 <= begin < end:
        return None
    try:
        value = loads_untrusted(_LACKS_COMMA.sub(r"\1,\2", text[begin : end + 1]))
    except ValueError:
        return None
    rows = value.get("communicators") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        return None
    differences: list[Difference] = []
    missing: dict[Rank, bool] = {}
    addresses: set[str] = set()
    for row in (one for one in rows if isinstance(one, dict)):
        ranks, lost = _dicts(row.get("ranks")), _dicts(row.get("missing_ranks"))
        addresses |= {_rank_of(one).address for one in (*ranks, *lost)}
        differences += _json_differences(str(row.get("hash", ""))[:40], ranks)
        missing |= {_rank_of(one): _status(one, "considered_dead") for one in lost if _is_lost(one)}
    return RankRecord(
        answer=answer,
        is_readable=True,
        nodes=len(addresses) or None,
        differences=tuple(differences[:_MOST]),
        missing=tuple(rank for rank, dead in missing.items() if not dead),
        dead=tuple(rank for rank, dead in missing.items() if dead),
    )


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)][:_MOST] if isinstance(value, list) else []


def _rank_of(row: Mapping[str, Json]) -> Rank:
    address = row.get("host")
    return Rank(_count(row.get("rank")), address[:100] if isinstance(address, str) else "", _count(row.get("pid")))


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _status(row: Mapping[str, Json], name: str) -> bool:
    status = row.get("status")
    return isinstance(status, dict) and status.get(name) is True


def _is_lost(row: Mapping[str, Json]) -> bool:
    """A rank that has left its communicator in good order is not there either, and nothing is said against it."""
    return _status(row, "unresponsive") or _status(row, "considered_dead")


def _json_differences(communicator: str, ranks: list[dict[str, Json]]) -> list[Difference]:
    counts: dict[str, list[tuple[Rank, int]]] = {}
    for row in ranks:
        by_name = row.get("collective_counts")
        rank = _rank_of(row)
        for name, value in by_name.items() if isinstance(by_name, dict) and rank.number is not None else ():
            if (count := _count(value)) is not None:
                counts.setdefault(name[:40], []).append((rank, count))
    found = (_difference(communicator, name, [(rank, 1, n) for rank, n in told]) for name, told in counts.items())
    return [one for one in found if one is not None]


def _difference(communicator: str, name: str, told: list[tuple[Rank | None, int, int]]) -> Difference | None:
    """The difference in what is `told`: a rank (None: some, unnamed), how many, and up to which operation."""
    if not told or (least := min(n for *_, n in told)) == (most := max(n for *_, n in told)):
        return None
    waiting = sorted(rank.number or 0 for rank, _, n in told if n == most and rank is not None)
    behind = sorted((rank for rank, _, n in told if n == least and rank is not None), key=lambda one: one.number or 0)
    return Difference(
        communicator=communicator,
        collective=name,
        operation=least + 1,
        behind=tuple(behind),
        behind_count=sum(size for _, size, n in told if n == least),
        waiting=tuple(waiting),
        waiting_count=sum(size for _, size, n in told if n == most),
        counts=tuple(sorted(("" if rank is None else str(rank.number), n) for rank, _, n in told)),
    )


# Text.

_COMMUNICATOR = re.compile(r"#\S{1,40} \(([0-9a-f]{1,40})\)")
_DIFFERENT = re.compile(r"  Communicator ranks have different (\w{1,40}) operation counts")
_LAUNCHED = re.compile(r"  Rank ([0-9]{1,9}) has launched up to operation ([0-9]{1,18})\b(.*)")
_SOME_LAUNCHED = re.compile(r"  ([0-9]{1,9}) ranks? ha(?:s|ve) launched up to operation ([0-9]{1,18})\b")
_NAMED = re.compile(r"  Rank ([0-9]{1,9}) -- (.*)")
_MISSING_NUMBERS = re.compile(r"  The missing ranks?: ([0-9, -]{1,1000})")
_PROCESS = re.compile(r"  Process ([0-9]{1,10}) on node (\S{1,100})")
_BY_PROCESS = re.compile(r"process ([0-9]{1,10}) on node (\S{1,100})")
_FIRST_NUMBER = re.compile(r" +([0-9]{1,9}) ")


def _from_text(lines: list[str], answer: Answer) -> RankRecord:
    reading = _TextReading()
    for line in lines:
        reading.take(line)
    dead = reading.dead
    ranks = dict.fromkeys(reading.missing)
    known = {(rank.process, rank.address) for rank in ranks}
    gone = [rank for rank in ranks if (rank.process, rank.address) in dead]
    gone += [Rank(None, address, process) for process, address in dead if (process, address) not in known]
    return RankRecord(
        answer=answer,
        is_readable=reading.is_readable,
        nodes=reading.nodes[0] if len(reading.nodes) == 1 else None,
        differences=tuple(reading.differences()),
        missing=tuple(rank for rank in ranks if (rank.process, rank.address) not in dead),
        dead=tuple(gone),
    )


@dataclass(slots=True)
class _TextReading:
    """Takes the text line by line: which communicator, collective and section a line is about stands above it."""

    is_readable: bool = False
    nodes: list[int] = field(default_factory=list)
    missing: list[Rank] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    _told: dict[tuple[str, str], list[tuple[Rank | None, int, int]]] = field(default_factory=dict)
    _section: str = ""
    _communicator: str = ""
    _collective: str = ""
    _group: int | None = None

    def take(self, line: str) -> None:
        """Take one line, without its newline."""
        if not line.startswith(" "):
            self._begin(line)
        elif self._section == "(total)":
            self.nodes += [int(match[1]) for match in [_FIRST_NUMBER.match(line)] if match]
        elif self._section == "DEAD":
            self.dead += [(int(match[1]), match[2]) for match in [_PROCESS.match(line)] if match]
        elif self._communicator:
            self._of_communicator(line)

    def _begin(self, line: str) -> None:
        if line.startswith("Communicators..."):
            self.is_readable = True
        if line and not line.startswith("="):
            self._section, self._collective, self._group = line.split(" ", 1)[0], "", None
            match = _COMMUNICATOR.match(line)
            self._communicator = match[1] if match else ""

    def _of_communicator(self, line: str) -> None:
        if match := _DIFFERENT.match(line):
            self._collective, self._group = match[1], None
        elif match := _LAUNCHED.match(line):
            self._launched(_rank(match[1], match[3]), 1, int(match[2]))
        elif match := _SOME_LAUNCHED.match(line):
            self._group = int(match[2])
            self._launched(None, int(match[1]), self._group)
        elif match := _MISSING_NUMBERS.match(line):
            self.missing += [Rank(number) for number in _numbers(match[1], _MOST - len(self.missing))]
        elif match := _NAMED.match(line):
            if self._collective and self._group is not None:
                self._launched(_rank(match[1], match[2]), 0, self._group)
            elif not self._collective:
                self.missing.append(_rank(match[1], match[2]))
        elif line.startswith("  Missing communicator data"):
            self._collective = ""

    def _launched(self, rank: Rank | None, size: int, count: int) -> None:
        if self._collective:
            self._told.setdefault((self._communicator, self._collective), []).append((rank, size, count))

    def differences(self) -> list[Difference]:
        """What differs between the ranks of each communicator."""
        found = (_difference(communicator, name, told) for (communicator, name), told in self._told.items())
        return [one for one in found if one is not None]


def _rank(number: str, rest: str) -> Rank:
    match = _BY_PROCESS.search(rest)
    return Rank(int(number), match[2], int(match[1])) if match else Rank(int(number))


def _numbers(text: str, most: int) -> list[int]:
    """The first `most` numbers in `0-2,5`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = (piece.strip() for piece in part.partition("-"))
        if first.isdigit() and len(first) < 10:
            until = int(last) if last.isdigit() and len(last) < 10 else int(first)
            found += range(int(first), min(until, int(first) + most - len(found) - 1) + 1)
    return found


# What it says of a hang.


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrouble:
    """What NCCL's own record shows of a hang: ranks `behind`, `missing` or `dead`, or a query that `hangs`."""

    behind: Difference | None = None
    missing: tuple[Rank, ...] = ()
    dead: tuple[Rank, ...] = ()
    hangs: bool = False
    nodes: int | None = None

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """The ranks that hold up the others, as far as they are named."""
        return self.dead or self.missing or (() if self.behind is None else self.behind.behind)

    def measurements(self) -> dict[str, float]:
        """As numbers of an observation: `nccl_mismatch`, `nccl_missing`, `nccl_dead`, `nccl_hangs`, and `nccl_rank`."""
        known = {
            "nccl_mismatch": self.behind is not None,
            "nccl_missing": bool(self.missing),
            "nccl_dead": bool(self.dead),
            "nccl_hangs": self.hangs,
        }
        found = {name: 1.0 for name, holds in known.items() if holds}
        named = [rank.number for rank in self.ranks if rank.number is not None]
        return found | ({"nccl_rank": float(named[0])} if named else {})

    def words(self, asked: str, host_of: Callable[[str], str]) -> str:
        """In a sentence, without its full stop; `asked` is the host that was asked, `host_of` knows an address."""

        def place(rank: Rank) -> str:
            return asked if self.nodes == 1 else host_of(rank.address) or rank.address

        if self.dead:
            words = f"NCCL counts {_listed(self.dead, place)} as dead"
        elif self.missing:
            one = _is_one(len(self.missing))
            words = f"{_listed(self.missing, place)} {'does' if one else 'do'} not answer NCCL"
        elif self.behind is not None:
            words = _behind_words(self.behind, place)
        else:
            return f"NCCL on {asked} takes the question how its ranks are, and does not answer"
        return f"{words}; by now NCCL itself does not answer" if self.hangs else words


def _behind_words(found: Difference, place: Callable[[Rank], str]) -> str:
    what = f"{found.collective} {found.operation}"
    if found.behind:
        who = _listed(found.behind, place, found.behind_count)
    else:
        who = f"{found.behind_count} rank{'' if _is_one(found.behind_count) else 's'}"
    has = "has" if _is_one(found.behind_count) else "have"
    if len(found.waiting) == found.waiting_count and found.waiting:
        waiting = _listed([Rank(number) for number in found.waiting], lambda _rank: "")
    else:
        waiting = f"{found.waiting_count} rank{'' if _is_one(found.waiting_count) else 's'}"
    return f"{who} {has} not launched {what}; {waiting} {'waits' if _is_one(found.waiting_count) else 'wait'} in it"


def _is_one(count: int) -> bool:
    return count == 1


def _listed(ranks: Iterable[Rank], place: Callable[[Rank], str], count: int = 0) -> str:
    """`rank 1 (worker)`, `ranks 1 (worker), 3 (worker) and 2 more`, or the process where no rank is named."""
    rows = list(ranks)
    numbered = all(rank.number is not None for rank in rows)
    shown = []
    for rank in rows[:_SHOWN]:
        name = str(rank.number if numbered else rank.process)
        shown.append(f"{name} ({where})" if (where := place(rank)) else name)
    kind = "rank" if numbered else "process"
    several = "" if _is_one(len(rows)) else "s" if numbered else "es"
    more = max(count, len(rows)) - len(shown)
    return f"{kind}{several} {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")


class RankHistory:
    """Joins looks at NCCL's record on one host, by the seconds of a clock that nobody sets."""

    def __init__(self) -> None:
        self._since: dict[Difference, float] = {}
        self._named: RankTrouble | None = None
        self._last_at = float("-inf")

    def look(self, seen: RankRecord, asked_at: float, answered_at: float) -> RankTrouble | None:
        """What is known now, with what the looks before showed; None where nothing speaks of a hang."""
        if asked_at - self._last_at > FORGET_S:
            self._since, self._named = {}, None
        self._last_at = answered_at
        if seen.hangs:
            named = self._named
            if named is None:
                return RankTrouble(hangs=True)
            return RankTrouble(
                behind=named.behind, missing=named.missing, dead=named.dead, hangs=True, nodes=named.nodes
            )
        self._since = {one: self._since.get(one, answered_at) for one in seen.differences}
        lasting = next((one for one, since in self._since.items() if asked_at - since >= LASTING_S), None)
        found = None
        if lasting is not None or seen.missing or seen.dead:
            found = RankTrouble(behind=lasting, missing=seen.missing, dead=seen.dead, nodes=seen.nodes)
        self._named = found
        return found
