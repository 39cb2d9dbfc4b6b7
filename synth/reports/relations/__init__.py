"""What was not kept: pairs of columns that were never measured, and pairs for which noise hides what was measured.

Where people are kept whole, the pairs are those of the declared columns within a row, and, counted by themselves, those
of a column of a row and one of the next row. What else the table of people holds (how many rows, usual values, gaps)
ties these together and is no pair that a reader could look at.

An analyst sees relations in the rows whether or not anything was learned about them. For every pair this report says
which it is, from the answers, their questions and the noise stated in receipts, whichever rows were drawn. Tables of
counts can be read pair by pair. Sums of features of several columns cannot: it is known which columns they combine, and
nothing more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from synth.names import visible
from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack, columns_of
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.receipt import SUMS, Receipt
from synth.reports.evidence import Evidence, SafeEvidence
from synth.reports.figures import Cell, HeatMap, Table
from synth.reports.panels import Badge, Cards, Folded, Heading, Listing, Option, Panel, Pick, Words
from synth.reports.relations.excess import LEVEL, Excess, excess_of
from synth.reports.report import PaidAnswers, Report, Screen, Section, Shown, Tab
from synth.reports.wording import listed
from synth.schema import People, RunConfig, modelled_columns, people_asked

__all__ = ["REPORT", "CountedPair", "Relations", "State", "published_relations", "relations_of"]

_MOST_TABLES = 3
"""Tables of one pair that are read: those with the least noise, whatever they say."""

_ROWS = ("gaussian_rows", "discrete_laplace", "randomised_response")
"""Mechanisms that release rows one by one, with noise on every cell."""


class State(IntEnum):
    """What is known about a pair; a larger number means less."""

    ALONE = 0
    TOGETHER = 1
    FEATURES = 2
    DROWNED = 3
    UNMEASURED = 4


@dataclass(frozen=True, slots=True)
class CountedPair:
    """A pair with a table of counts.

    Attributes
    ----------
    question : str
        The question whose answer decided.
    noise_std : float
        Standard deviation of the noise on a count of that table, in rows.
    excess : Excess
        What the table says beyond its margins; its p-value allows for every table of the pair that was read.
    alone : bool
        Whether that table is of these two columns alone.
    """

    question: str
    noise_std: float
    excess: Excess
    alone: bool

    @property
    def state(self) -> State:
        """What is known about the pair."""
        if not self.excess.clear:
            return State.DROWNED
        return State.ALONE if self.alone else State.TOGETHER


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """What is known about all pairs.

    Attributes
    ----------
    names : tuple of str
        The columns.
    counted : mapping of two positions in ascending order to CountedPair
    featured : bool array of shape (columns, columns)
        Which columns were combined in sums that cannot be read pair by pair.
    seen : tuple of two positions
        Pairs in which a first look at halves of columns clearly saw a relation, and that were not counted.
    """

    names: tuple[str, ...]
    counted: dict[tuple[int, int], CountedPair]
    featured: NDArray[np.bool_]
    seen: tuple[tuple[int, int], ...] = ()
    states: NDArray[np.int8] = field(init=False)

    def __post_init__(self) -> None:
        states = np.where(self.featured, np.int8(State.FEATURES), np.int8(State.UNMEASURED))
        for (left, right), pair in self.counted.items():
            # Features may show what a table does not, such as numbers beside missing cells.
            if pair.state != State.DROWNED or not self.featured[left, right]:
                states[left, right] = states[right, left] = pair.state
        object.__setattr__(self, "states", states)

    def only(self, names: Sequence[str]) -> Relations:
        """Return what is known about the pairs of some columns, in the order of ``names``."""
        kept = [self.names.index(name) for name in names]
        place = {old: new for new, old in enumerate(kept)}
        counted = {
            (place[left], place[right]): one
            for (left, right), one in self.counted.items()
            if {left, right} <= set(kept)
        }
        seen = tuple((place[left], place[right]) for left, right in self.seen if {left, right} <= set(kept))
        return Relations(tuple(names), counted, self.featured[np.ix_(kept, kept)], seen)

    @property
    def pairs(self) -> int:
        """Pairs in all."""
        return math.comb(len(self.names), 2)

    def how_many(self, *states: State) -> int:
        """Return how many pairs are in one of the given states."""
        # Column by column: the positions of all pairs would take sixteen times the memory of their states.
        return sum(int(np.isin(row[place:], states).sum()) for place, row in enumerate(self.states, start=1))


def relations_of(
    releases: Iterable[NoisyAnswer], receipts: Iterable[Receipt], names: Sequence[str], *, rows: float
) -> Relations:
    """Read every pair.

    Parameters
    ----------
    releases : iterable of NoisyAnswer
        The paid answers of the run; those about held-out rows are skipped.
    receipts : iterable of Receipt
        All of the run.
    names : sequence of str
        The modelled columns.
    rows : float
        Rows of the private table, measured or public.
    """
    read = _Reading(tuple(names), rows)
    if any(receipt.mechanism in _ROWS and receipt.part == "train" for receipt in receipts):
        read.featured[:] = True
    for release in releases:
        if release.receipt.mechanism in SUMS and release.receipt.part == "train":
            read.answer(release)
    counted = {pair: found for pair, tables in read.tables.items() if (found := _counted(tables)) is not None}
    seen = tuple(sorted(pair for pair in read.seen if pair not in counted))
    return Relations(read.names, counted, read.featured, seen)


@dataclass(frozen=True, slots=True, eq=False)
class _PairTable:
    counts: NDArray[np.float64]
    noise_std: float
    question: str
    alone: bool

    @property
    def noise(self) -> float:
        """Noise of its total, in rows."""
        return self.noise_std * math.sqrt(self.counts.size)


def _counted(tables: Sequence[_PairTable]) -> CountedPair | None:
    used = sorted(tables, key=lambda one: one.noise)[:_MOST_TABLES]
    found = [(excess, one) for one in used if (excess := excess_of(one.counts, one.noise_std)) is not None]
    if not found:
        return None
    # Among clear tables, one of these two columns alone is preferred.
    alone = [pair for pair in found if pair[1].alone and len(found) * pair[0].p_value < LEVEL]
    excess, table = min(alone or found, key=lambda pair: pair[0].p_value)
    excess = Excess(min(len(found) * excess.p_value, 1.0), excess.seen, excess.by_chance, excess.shape)
    return CountedPair(table.question, table.noise_std, excess, table.alone)


_Piece = tuple[list[FeatureMap], NDArray[np.float64], float]
"""Maps that are multiplied, the values of their product, and the noise on them."""


def _pieces_of(factors: list[FeatureMap], values: NDArray[np.float64], noise: float) -> Iterator[_Piece]:
    """Cut an answer into products of maps that are neither stacks nor products, each with its values and its noise.

    :func:`synth.reports.measured.measured_tables` looks into stacks of products alone; this looks into products of
    stacks too. Of several factors the first is slowest in ``values``.
    """
    cube = values.reshape([factor.dimension for factor in factors])
    for axis, factor in enumerate(factors):
        before, after = factors[:axis], factors[axis + 1 :]
        if isinstance(factor, Constant):
            yield from _pieces_of([*before, *after], cube.reshape(-1), noise)
            return
        if isinstance(factor, Product):
            yield from _pieces_of([*before, *factor.factors, *after], cube.reshape(-1), noise)
            return
        if isinstance(factor, Stack):
            start = 0
            for part, weight in zip(factor.parts, factor.weights, strict=True):
                piece = np.take(cube, np.arange(start, start + part.dimension), axis=axis)
                start += part.dimension
                yield from _pieces_of([*before, part, *after], piece.reshape(-1) / weight, noise / weight)
            return
    yield factors, values, noise


class _Reading:
    """What has been read so far."""

    def __init__(self, names: tuple[str, ...], rows: float) -> None:
        self.names, self.rows = names, rows
        self.place = {name: place for place, name in enumerate(names)}
        self.tables: dict[tuple[int, int], list[_PairTable]] = {}
        self.featured = np.zeros((len(names), len(names)), dtype=bool)
        self.seen: set[tuple[int, int]] = set()

    def answer(self, release: NoisyAnswer) -> None:
        """Read one answer."""
        flat = np.asarray(release.value, dtype=np.float64).reshape(-1)
        for leaves, values, noise in _pieces_of([release.feature_map], flat, release.noise_std):
            columns = columns_of(leaves)
            hots = [leaf for leaf in leaves if isinstance(leaf, OneHot)]
            if len(columns) < 2:
                continue
            if len(hots) == len(leaves):
                shape = [size for hot in hots for size in hot.shape]
                if len(shape) == len(columns):
                    self._table(columns, values.reshape(shape), noise, release.receipt.query)
            elif len(leaves) == 1 and isinstance(leaves[0], RowMoments) and _is_first_look(leaves[0]):
                self._look(leaves[0], values.reshape(-1), noise)
            else:
                places = [self.place[name] for name in columns]
                self.featured[np.ix_(places, places)] = True

    def _table(self, columns: Sequence[str], counts: NDArray[np.float64], noise: float, question: str) -> None:
        axes = range(len(columns))
        for kept in itertools.combinations(axes, 2):
            others = tuple(axis for axis in axes if axis not in kept)
            left, right = (self.place[columns[axis]] for axis in kept)
            table = counts.sum(axis=others)
            of_pair = noise * math.sqrt(math.prod(counts.shape[axis] for axis in others))
            found = _PairTable(table if left < right else table.T, of_pair, question, not others)
            self.tables.setdefault((min(left, right), max(left, right)), []).append(found)

    def _look(self, asked: RowMoments, values: NDArray[np.float64], noise: float) -> None:
        """Find pairs of halves that clearly go together, with a 5 % chance of any false one among all of them."""
        places = [self.place[table.column] for table in asked.tables]
        products = values / asked.factors * asked.clip**2
        first, second = np.triu_indices(len(places))
        alone = np.clip(products[first == second], 0.0, self.rows)
        off = first != second
        first, second = first[off], second[off]
        of_noise = noise * asked.clip**2 / asked.factors[off]
        spread = np.sqrt(of_noise**2 + alone[first] * alone[second] / self.rows)
        least = NormalDist().inv_cdf(1 - LEVEL / (2 * max(len(first), 1)))
        for place in np.flatnonzero(np.abs(products[off]) > least * spread):
            ends = sorted((places[first[place]], places[second[place]]))
            self.seen.add((ends[0], ends[1]))


def _is_first_look(asked: RowMoments) -> bool:
    """Whether it holds the products of one number of each column and nothing else."""
    constant, linear, _ = asked.weights
    plain = constant == linear == 0 and asked.projection is None and asked.waves is None
    return plain and all(table.table.shape[1] == 1 for table in asked.tables)


# In words -------------------------------------------------------------------------------------------------------------


_MOST_ON_MAP = 24
_MOST_PAIRS = 200
_MOST_NAMES = 8
_WORDS = ("measured alone", "among others", "in features", "drowned")
"""States of a pair, from the most to the least known; all others were not measured."""

_NOT_MEASURED = "not measured"
_CLEAR = (State.ALONE, State.TOGETHER)
_SAID = ("in 100 {}, beyond unrelated columns", "in 100 {}, by noise and chance")


def published_relations(known: Relations, config: RunConfig) -> tuple[SafeEvidence, ...]:
    """Report what is known about every pair.

    Parameters
    ----------
    known : Relations
        What was read from the answers.
    config : RunConfig
        The label and the groups that it declares come first.

    Returns
    -------
    tuple of SafeEvidence
        ``relations.measured`` with a map and the pairs that were counted, ``relations.of``, ``relations.clear`` and
        ``relations.unknown`` with what is unknown about every column; ``relations.features`` alone where no pair can be
        read from the answers. Nothing for a single column. Where people are kept whole, these are about pairs within a
        row, and ``relations.next_unknown`` and ``relations.next_of`` about those of a row and the next.
    """
    people = people_asked(config.schema)
    if people is None:
        return _within(known, config)
    names = [column.name for column in modelled_columns(people.schema.declared)]
    return (*_within(known.only(names), config), *_row_and_next(known, people))


def _within(known: Relations, config: RunConfig) -> tuple[SafeEvidence, ...]:
    """Report what is known about pairs of columns of one row."""
    if not known.pairs:
        return ()
    featured = known.how_many(State.FEATURES)
    if featured == known.pairs:
        return (_unreadable(),)
    clear = known.how_many(*_CLEAR)
    measured = clear + known.how_many(State.DROWNED)
    unknown = known.pairs - clear - featured
    order, counted = _order(known, config), config.schema.unit.counted
    title = _title(known.pairs, measured, clear, featured)
    map_ = (_map(known, order, title, _judged(unknown, known.pairs)),) if len(known.names) > 2 else ()

    def number(name: str, words: str, value: int, sentence: str, *figures: HeatMap | Table) -> SafeEvidence:
        identity = f"relations.{name}"
        return SafeEvidence(id=identity, title=words, value=value, unit="pairs", sentence=sentence, figures=figures)

    return (
        number(
            "measured", "Measured", measured, _how_it_is_told(known, featured), *map_, *_measured_pairs(known, counted)
        ),
        number("of", "Pairs of columns", known.pairs, "In all."),
        number("clear", "Clear of noise", clear, "They say more than their columns alone and the noise explain."),
        number("unknown", "Treat as unknown", unknown, _warning(known, order, unknown), _by_column(known, order)),
    )


def _row_and_next(known: Relations, people: People) -> tuple[SafeEvidence, ...]:
    """Report how many pairs of a column of a row and one of the next row are unknown, and which, column by column."""
    place = {name: known.names.index(name) for name in known.names}
    after = {name: place[new] for name, new in people.following.items()}
    if not after or known.how_many(State.FEATURES) == known.pairs:
        return ()
    sorts = {"clear of noise": _CLEAR, "hidden by noise": (State.DROWNED,), _NOT_MEASURED: (State.UNMEASURED,)}
    if (known.states == State.FEATURES).any():
        sorts = {"in features": (State.FEATURES,), **sorts}
    rows, unknown = [], 0
    for name in after:
        states = {other: known.states[place[name], next_place] for other, next_place in after.items()}
        unknown += sum(state in (State.DROWNED, State.UNMEASURED) for state in states.values())
        held = [[other for other, state in states.items() if state in those] for those in sorts.values()]
        rows.append((name, *(listed(mine, _MOST_NAMES) or "\N{EN DASH}" for mine in held)))
    table = Table("What is known about each column and those of the next row", ("column", *sorts), tuple(rows))
    return (
        SafeEvidence(
            id="relations.next_unknown",
            title="A row and the next: treat as unknown",
            value=unknown,
            unit="pairs",
            sentence="Do not look for what one column says about the next row's in these pairs: the rows show at most "
            "what follows from other columns."
            if unknown
            else "No pair is unknown.",
            figures=(table,),
        ),
        SafeEvidence(
            id="relations.next_of",
            title="Pairs of a column and one of the next row",
            value=len(after) ** 2,
            unit="pairs",
            sentence="In all.",
        ),
    )


def _title(pairs: int, measured: int, clear: int, featured: int) -> str:
    title = f"None of {pairs:,} pairs was counted"
    if measured:
        said = f"{clear:,} of them" if clear else "none"
        title = f"{measured:,} of {pairs:,} pairs were measured, {said} clear of noise"
    return f"{title}; {featured:,} were measured only within features" if featured else title


def _unreadable() -> SafeEvidence:
    return SafeEvidence(
        id="relations.features",
        title="Pairs of columns",
        value="cannot be told apart",
        sentence="Noise was added to whole rows, or to sums of features of many columns, so what the answers say about "
        "one pair cannot be told apart from noise. Confirm every relation on the real table.",
    )


def _judged(unknown: int, of: int) -> str:
    if not unknown:
        return "Good: every pair is clear of noise and chance."
    which = "all of them" if unknown == of else f"the other {unknown:,}" if unknown > 1 else "the other one"
    return f"Treat {which} as unknown."


def _how_it_is_told(known: Relations, featured: int) -> str:
    words = (
        "A pair is clear of noise if its table of noisy counts differs from that of unrelated columns by more than "
        f"noise and sampling explain (chi-square test; {100 * LEVEL:.0f} in 100 pairs of unrelated columns are taken "
        "for related)."
    )
    if featured:
        words += " In features of several columns, noise cannot be told apart pair by pair."
    if known.seen:
        named = listed([_pair_of(known, *pair) for pair in known.seen], _MOST_NAMES)
        words += f" A first look saw relations that were then not counted, so the rows may lack them: {named}."
    return words


def _warning(known: Relations, order: Sequence[int], unknown: int) -> str:
    if not unknown:
        return "No pair is unknown."
    examples = "; ".join(_examples(known, order))
    return (
        f"{examples}. Do not cross-tabulate or correlate two such columns, or regress one on the other: the rows show "
        "at most what follows from other columns, and standard errors do not reveal that."
    )


def _examples(known: Relations, order: Sequence[int]) -> Iterator[str]:
    """Yield a pair of each kind, from the most important columns."""
    ordered = np.array(order)
    for state, words in ((State.UNMEASURED, _NOT_MEASURED), (State.DROWNED, "measured, but noise hides it")):
        later = ((left, ordered[place:]) for place, left in enumerate(order, start=1))
        found = ((left, rest[known.states[left, rest] == state]) for left, rest in later)
        first = next(((left, int(those[0])) for left, those in found if len(those)), None)
        if first is not None:
            yield f"{_pair_of(known, *first)}: {words}; treat as unknown"


def _pair_of(known: Relations, left: int, right: int) -> str:
    return f"{known.names[left]} and {known.names[right]}"


def _order(known: Relations, config: RunConfig) -> list[int]:
    """Return the columns' positions: the label first, then declared groups, then the rest as declared."""
    names = dict.fromkeys([name for name in (config.label, *config.groups) if name in known.names])
    first = [known.names.index(name) for name in names]
    return [*first, *(place for place in range(len(known.names)) if known.names[place] not in names)]


def _map(known: Relations, order: Sequence[int], title: str, judged: str) -> HeatMap:
    """Draw the pairs of the label and of the columns with the most measured pairs."""
    counted = (known.states < State.UNMEASURED).sum(axis=1)
    first = sorted(range(len(order)), key=lambda rank: (rank > 0, -counted[order[rank]]))[:_MOST_ON_MAP]
    shown = [order[rank] for rank in sorted(first)] if len(order) > _MOST_ON_MAP else list(order)
    states = [state for state in State if state < State.UNMEASURED]
    if not (known.states == State.FEATURES).any():
        states.remove(State.FEATURES)
    place = {int(state): rank for rank, state in enumerate(states)}
    values = tuple(
        tuple(None if left == right else place.get(int(known.states[left, right])) for right in shown) for left in shown
    )
    names = tuple(known.names[one] for one in shown)
    return HeatMap(title, _NOT_MEASURED, names, values, judged, tuple(_WORDS[state] for state in states))


def _measured_pairs(known: Relations, counted: str) -> tuple[Table, ...]:
    """List the pairs that were counted, those least clear of noise first."""
    told = [(pair, one) for pair, one in known.counted.items() if known.states[pair] == one.state]
    found = sorted(told, key=lambda one: (-one[1].excess.p_value, one[0]))
    shown = found[:_MOST_PAIRS]
    which = "" if len(shown) == len(found) else f"; the {len(shown):,} least clear of noise"
    header = (
        "pair",
        "what is known",
        "question",
        "bins",
        "noise of a count",
        *(words.format(counted) for words in _SAID),
    )
    rows = tuple(_line(known, pair, one) for pair, one in shown)
    return (Table(f"Pairs that were measured{which}", header, rows),) if rows else ()


def _line(known: Relations, pair: tuple[int, int], one: CountedPair) -> tuple[Cell, ...]:
    bins = " x ".join(map(str, one.excess.shape))
    said = (float(f"{100 * share:.2g}") for share in (one.excess.seen, one.excess.by_chance))
    noise = float(f"{one.noise_std:.2g}")
    return (" + ".join(known.names[place] for place in pair), _WORDS[one.state], one.question, bins, noise, *said)


def _by_column(known: Relations, order: Sequence[int]) -> Table:
    """Group the pairs by column: its relations to the others that are known, and those that are not."""
    sorts = [_CLEAR, (State.FEATURES,), (State.DROWNED,), (State.UNMEASURED,)]
    headings = ["clear of noise", "in features", "hidden by noise", _NOT_MEASURED]
    if not (known.states == State.FEATURES).any():
        del sorts[1], headings[1]
    rows, ordered, names = [], np.array(order), np.array(known.names, dtype=object)
    for column in order:
        rest = ordered[ordered != column]
        of_rest = known.states[column, rest]
        of = [rest[np.isin(of_rest, states)] for states in sorts]
        cells = [listed(names[mine].tolist(), _MOST_NAMES) or "\N{EN DASH}" for mine in of]
        rows.append((known.names[column], *cells))
    return Table("What is known about each column and the others", ("column", *headings), tuple(rows))


# The report ---------------------------------------------------------------------------------------------------------


_TAB = Tab(25, "● What was not kept")
_SECTION = "relations"


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    config = answers.config
    if config.is_model:
        return ()
    rows = 1.0 if answers.rows is None else max(answers.rows.value, 1.0)
    known = relations_of(answers.releases, answers.receipts, config.schema.names, rows=rows)
    return published_relations(known, config)


def _panels(shown: Shown) -> list[Panel]:
    found = {entry.id.partition(".")[2]: entry for entry in shown.public_of(_SECTION)}
    if "unknown" not in found:
        words = next((entry.sentence for entry in found.values()), "This release says nothing about pairs of columns.")
        return [*([Badge("safe")] if found else []), Words(words)]
    measured, unknown = found["measured"], found["unknown"]
    tables = [figure for figure in unknown.figures if isinstance(figure, Table)]
    whole = shown.config.schema.people == "whole"
    within = " within a row" if whole else ""
    return [
        Heading(f"{unknown.value:,} of {found['of'].value:,} pairs{within} to treat as unknown"),
        Words(unknown.sentence, "paragraph"),
        *map(_one_column, tables),
        Cards([measured], key="relations"),
        *(Folded("Every column", [Listing(table, "relations-by-column")]) for table in tables),
        *(_of_next_row(found["next_unknown"], found["next_of"]) if "next_unknown" in found else []),
    ]


def _of_next_row(unknown: Evidence, of: Evidence) -> list[Panel]:
    """Show which pairs of a column and one of the next row are unknown."""
    tables = [figure for figure in unknown.figures if isinstance(figure, Table)]
    return [
        Heading(f"{unknown.value:,} of {of.value:,} pairs of a column and one of the next row to treat as unknown"),
        Words(unknown.sentence, "paragraph"),
        *(Listing(table, "relations-next-row") for table in tables),
    ]


def _one_column(table: Table) -> Pick:
    """Offer what is known about one column and the others."""
    options = []
    for name, *cells in table.rows:
        said = [f"{what.capitalize()}: {who}" for what, who in zip(table.header[1:], cells, strict=True)]
        options.append(Option(str(name), visible(str(name)), [Words(one, "paragraph") for one in said]))
    return Pick("Look at one column", "relations-of-column", options)


REPORT = Report(
    id="relations",
    title="What was not kept",
    sections={_SECTION: Section("What was not kept")},
    public=_public,
    screens=(Screen(_TAB, _panels),),
    from_answers=True,
)
