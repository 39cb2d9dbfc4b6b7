"""dp-hp-adaptive, the default generator: it chooses marginals one after another, where the model is still wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from synth.generators.options import Between, Naming, Options
from synth.generators.protocol import Card, Tuned

__all__ = ["CARD", "CARDS", "CONSTANTS", "AdaptiveOptions"]


PURPOSE = Naming(("balanced", "prediction", "marginals", "regression"), "regression")


@dataclass(frozen=True, slots=True)
class AdaptiveOptions(Options):
    """Options of the adaptive generator."""

    bins: Annotated[int, Between(2, 256)] = 32
    """Maximum number of bins for a number or date when it is counted together with other columns."""

    columns_share: Annotated[float, Between(0.01, 1.0)] = 0.2
    """Minimum share of the budget for counting each column on its own; small tables get a larger share."""

    label_share: Annotated[float, Between(0.0, 0.5)] = 0.2
    """Share of the budget for counting every column by class of the label, if there is one; larger in small tables."""

    cells: Annotated[int, Between(1000, 10**8)] = 200_000
    """Maximum number of cells in the joint model: more cells capture more relations and take longer to fit."""

    model: Literal["auto", "field", "mixture"] = "auto"
    """Joint model. auto: a Markov random field if the table fits into one; a mixture of products if it does not, or if
    nearly all columns depend on each other. field: always a field, which needs less memory and starts faster. mixture:
    always a mixture, which a graphics card fits faster."""

    purpose: Annotated[str, PURPOSE] = "balanced"
    """What the rows are for. prediction: tables with the label count more. marginals: the label is a column like any
    other. regression: ask how each pair of columns is related on average (regression of Y on X, Z: only those columns).
    balanced: none of these."""


_SETS = "synth.generators.adaptive.whole_rows"
_LOOK = "synth.generators.adaptive.pairs_look"
_PAIRS = "synth.generators.adaptive.all_pairs"
_FIT = "synth.generators.adaptive.dp_hp_adaptive"
_MOMENTS = "synth.generators.adaptive.regression"
_BUDGET = "synth.generators.adaptive.budget"
_ROUNDS = "synth.generators.adaptive.tables"
_VALUES = "synth.generators.round_values"
_INSIDE = "synth.generators.adaptive.written_values"
_SURVEY = "synth.generators.adaptive.survey"
_DIFFERENCES = "synth.generators.adaptive.differences"

CONSTANTS = (
    Tuned("_ROWS_PER_CELL", "a cell with fewer rows describes those rows more than what they share", "none", _SETS),
    Tuned("_LEAST_WEIGHED", "sets made wider tables worse, or hardly better", "simple, census, g30, wine_white", _SETS),
    Tuned("_LEAST_EFFECTIVE", "a pool with fewer effective rows was worse in sets of five columns", "g30", _SETS),
    Tuned("CENTRES_SHARE", "one half was no better", "scm_tree", _SETS),
    Tuned("_CENTRE_ROUNDS", "two or three say less about a class", "scm_tree, characters, parity of 4, g10", _SETS),
    Tuned("_ROWS_PER_NOISE", "a cell has to stand clear of its noise", "none", _SETS),
    Tuned("_STEPS_OF_UNIT", "finer steps are smaller than the bins of a column", "none", _SETS),
    Tuned("_LEAST_CLASS", "the products of rarer classes come from few rows", "none", _MOMENTS),
    Tuned("_FARTHEST", "the product of one row must not outweigh the others", "none", _MOMENTS),
    Tuned("_MOST_COORDINATES", "with more, noise hides every product in a table of some 10,000 rows", "none", _MOMENTS),
    Tuned("_ROOM", "few rows exceed the expected length by more than this", "none", _MOMENTS),
    Tuned("_PART_FOR_RULES", "one two-column table of 32 bins in ten takes that much", "visits", _FIT),
    Tuned("_TO_PREDICT", "between a fifth, the default, and half", "insurance, titanic", _FIT),
    Tuned("LOOK", "a small share; with less, dense tables of some 50,000 rows go unnoticed", "none", _LOOK),
    Tuned("_MISSING", "between the dense tables and those that suit a field", "g30, simple, census", _LOOK),
    Tuned("_CLEARER", "at three, the sets of many columns that followed said less about a class", "characters", _LOOK),
    Tuned("_ROOM", "rows slightly longer than expected are not shortened", "none", _LOOK),
    Tuned("_SIGNAL", "three standard deviations of noise", "none", _LOOK),
    Tuned("_GROUPS", "a cell of two columns holds six times the noise of a count", "simulated factors", _PAIRS),
    Tuned("_MOST_GROUPS", "more cost time and show only noise", "g30", _PAIRS),
    Tuned("_FITS", "more cost time", "g10, g30, scm_tree", _PAIRS),
    Tuned("_COMPONENTS", "more cost time, and thirty columns are less accurate", "g10, g30, scm_tree", _PAIRS),
    Tuned("_STEPS", "where the misfit no longer falls, at epsilon 1", "g10, g30, scm_tree", _PAIRS),
    Tuned("_PRICE", "of what noise alone would be fitted with", "g10, g30", _PAIRS),
    Tuned("BINS", "a cell of two columns holds about 0.7 times the noise of a count", "none", _BUDGET),
    Tuned("_ROUNDS_PER_COLUMN", "each column with three others, if the budget allows", "simple, bounded", _BUDGET),
    Tuned("_RELATED", "a tenth of what two even columns could say about each other", "simple, bounded", _BUDGET),
    Tuned("_TABLE_NOISE", "noise of a fiftieth of the rows hides a table", "simple, bounded", _BUDGET),
    Tuned("_LABEL_WITHOUT_ROUNDS", "two fifths if only the columns by class are asked", "cervical", _BUDGET),
    Tuned("_CLEAR_CLASSES", "noise of a sixth of the rows in four bins by class", "isolet", _BUDGET),
    Tuned("_MOST_FOR_LABEL", "three fifths at most", "isolet", _BUDGET),
    Tuned("_SEVERAL", "one uninformative answer says little about other tables", "none", _ROUNDS),
    Tuned("_REST", "asking a table twice in a row adds little", "census, insurance", _ROUNDS),
    Tuned("_TOO_FINE", "finer tables show only chance and noise", "bounded, census, wine_white, trips", _ROUNDS),
    Tuned("_TOO_FINE_OF_FEW", "few rounds are worth most if their tables are clear", "sites, simple, census", _ROUNDS),
    Tuned("_FEWEST_ROUNDS", "with fewer, single columns lose what tables gain", "sites, titanic, wine_red", _BUDGET),
    Tuned("_NOISE", "an error of .05 % of the rows per class: many columns are mostly zero", "none", _VALUES),
    Tuned("MOST_ASIDE", "all other questions get at most 1.5 % more noise", "none", _VALUES),
    Tuned("_FAINT", "three standard deviations of ten classes are a tenth of the rows", "titanic, 700 ages", _VALUES),
    Tuned("_DROWNED", "three standard deviations of noise are a quarter of the rows", "none", _VALUES),
    Tuned("_CLEAR", "three standard deviations of noise", "none", _VALUES),
    Tuned("_TAIL", "between the tails of incomes and exponential ones", "none", _INSIDE),
    Tuned("_CLEAR_TAIL", "a tail that the counts support is left alone", "heaps", _INSIDE),
    Tuned(
        "_NOISE", "an error of .1 % of the rows per band: most lengths of stay have more rows", "visits", _DIFFERENCES
    ),
    Tuned("_APART", "a relation that bins alone capture is not worth a two-column table", "none", _DIFFERENCES),
    Tuned("_SURE", "among a hundred bands of pure noise, one exceeds it once in 300 times", "none", _DIFFERENCES),
    Tuned("_STRAY", "about as many as are entered the wrong way round", "none", _DIFFERENCES),
    Tuned("CLEAR", "two standard deviations of noise: of sets of columns, and of bands", "visits", _SURVEY),
    Tuned("_FEWEST_ROUNDS_PER_COLUMN", "as above, since every column needs some budget", "census", _BUDGET),
)
"""The numbers that were chosen for whole rows, dense tables, rounds, round values, orders and the budget."""


CARD = Card(
    name="dp-hp-adaptive",
    title="DP-HP adaptive",
    summary=("Counts every column, then privately finds the groups of columns that matter and counts those together."),
    best_for="Nearly every table: it adapts to the budget, and falls back to single columns if the budget is small.",
    loses_where=(
        "Relations among seven or more columns, fine detail inside the bins of several numbers at once, and rare "
        "classes of a label with some forty other columns, which independent-by-class separates better."
    ),
    keeps_people=(
        "Kept: how many rows somebody has, what belongs to them, and what follows what. How alike numbers of one "
        "person are is kept in part where the budget is small."
    ),
    reference="Vinaroz et al. 2022 (DP-HP); McKenna et al. 2022 (AIM); McKenna et al. 2019.",
    made_by="synth.generators.adaptive.dp_hp_adaptive:DpHpAdaptive",
    options=AdaptiveOptions,
    measures_one_ways=True,
    asks_first=False,
    on_card="part",
    card_work="mixtures of products, which fit wide tables and tables whose columns nearly all depend on each other",
    constants=CONSTANTS,
    questions={
        "one-way tables": "How often is each value of each column?",
        "round values": "How rounded are the numbers?",
        "differences": "How far apart are columns with a declared order?",
        "differences of dates": "How far apart are dates, and columns with a declared order?",
        "tables by label": "How does each column depend on the label?",
        "moments of all columns": "How is each pair of columns related on average?",
    },
)

CARDS = (CARD,)
