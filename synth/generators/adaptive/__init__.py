"""dp-hp-adaptive, the default generator: marginals chosen one after another by what the model still gets wrong."""

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
    """Most bins of a number or date where it is counted together with other columns."""

    columns_share: Annotated[float, Between(0.01, 1.0)] = 0.2
    """Least part of the budget for the columns by themselves; small tables get more."""

    label_share: Annotated[float, Between(0.0, 0.5)] = 0.2
    """Part of the budget for counting every column by class of the label, if there is one; small tables give more."""

    cells: Annotated[int, Between(1000, 10**8)] = 200_000
    """Most cells of the joint model: more follow more relations between columns and take longer to fit."""

    model: Literal["auto", "field", "mixture"] = "auto"
    """Joint model. auto: a Markov random field where it can hold the table, else a mixture of products, and a mixture
    where nearly all columns depend on each other. field: always a field, which needs less memory and starts faster.
    mixture: always a mixture, which a graphics card fits faster."""

    purpose: Annotated[str, PURPOSE] = "balanced"
    """What the rows are for: prediction gives tables with the label more, marginals takes it for a column like any
    other, regression asks how every two columns go together on average (regression of Y on X, Z: those), balanced does
    neither."""


_SETS = "synth.generators.adaptive.whole_rows"
_LOOK = "synth.generators.adaptive.pairs_look"
_PAIRS = "synth.generators.adaptive.all_pairs"
_FIT = "synth.generators.adaptive.dp_hp_adaptive"
_MOMENTS = "synth.generators.adaptive.regression"
_BUDGET = "synth.generators.adaptive.budget"
_ROUNDS = "synth.generators.adaptive.tables"
_VALUES = "synth.generators.round_values"
_INSIDE = "synth.generators.adaptive.written_values"
_ORDERS = "synth.generators.adaptive.orders"
_DIFFERENCES = "synth.generators.adaptive.differences"

CONSTANTS = (
    Tuned(
        "_LABEL_WEIGHT", "as a column of high importance: somebody means to predict it", "scm_tree, characters", _SETS
    ),
    Tuned("_ROWS_PER_CELL", "a cell of fewer rows tells of its rows more than of what they share", "none", _SETS),
    Tuned("_CLEAR", "two standard deviations of what noise and chance make", "none", _SETS),
    Tuned("_LEAST_WEIGHED", "wider tables lost by sets, or hardly won", "simple, census, g30, wine_white", _SETS),
    Tuned("_LEAST_EFFECTIVE", "a pool that fewer rows carry was worse in sets of five columns", "g30", _SETS),
    Tuned("CENTRES_SHARE", "a half was not better", "scm_tree", _SETS),
    Tuned("_CENTRE_ROUNDS", "two and three tell less of a class", "scm_tree, characters, parity of 4, g10", _SETS),
    Tuned("_ROWS_PER_NOISE", "a cell has to be clear of its noise", "none", _SETS),
    Tuned("_STEPS_OF_UNIT", "finer steps are below the bins of a column", "none", _SETS),
    Tuned("_LEAST_CLASS", "rarer classes have products of few rows", "none", _MOMENTS),
    Tuned("_FARTHEST", "one row's product shall not outweigh the others", "none", _MOMENTS),
    Tuned("_MOST_COORDINATES", "of more, noise hides every product of a table of some 10,000 rows", "none", _MOMENTS),
    Tuned("_ROOM", "few rows are longer than this part above what is expected", "none", _MOMENTS),
    Tuned("_PART_FOR_RULES", "one table of two columns of 32 bins in ten takes that much", "visits", _FIT),
    Tuned("_TO_PREDICT", "between a fifth, the default, and half", "insurance, titanic", _FIT),
    Tuned("LOOK", "a small part of the budget; less cannot tell dense tables of some 50,000 rows", "none", _LOOK),
    Tuned("_MISSING", "between the dense tables and those that a field holds better", "g30, simple, census", _LOOK),
    Tuned("_CLEARER", "at three, sets of many columns that followed told less of a class", "characters", _LOOK),
    Tuned("_ROOM", "rows a little longer than expected are not shortened", "none", _LOOK),
    Tuned("_SIGNAL", "three standard deviations of noise", "none", _LOOK),
    Tuned("_GROUPS", "a cell holds about 0.7 times the noise of a count, as in rounds", "none", _PAIRS),
    Tuned("_MOST_GROUPS", "more cost time and show noise alone", "g30", _PAIRS),
    Tuned("_FITS", "more cost time", "g10, g30, scm_tree", _PAIRS),
    Tuned("_COMPONENTS", "more cost time, and thirty columns come out worse", "g10, g30, scm_tree", _PAIRS),
    Tuned("_STEPS", "where the misfit no longer falls, at epsilon 1", "g10, g30, scm_tree", _PAIRS),
    Tuned("_PRICE", "of what noise alone would be fitted with", "g10, g30", _PAIRS),
    Tuned("_ROUNDS_PER_COLUMN", "each column with three others, where the budget allows", "simple, bounded", _BUDGET),
    Tuned("_LARGEST_SHARE", "half the budget for columns at most", "none", _BUDGET),
    Tuned("_RELATED", "a tenth of what two even columns could tell of each other", "simple, bounded", _BUDGET),
    Tuned("_TABLE_NOISE", "noise of a fiftieth of the rows hides a table", "simple, bounded", _BUDGET),
    Tuned("_LABEL_WITHOUT_ROUNDS", "two fifths where nothing but columns by class is asked", "cervical", _BUDGET),
    Tuned("_CLEAR_CLASSES", "noise of a sixth of what four bins by class hold", "isolet", _BUDGET),
    Tuned("_MOST_FOR_LABEL", "three fifths at most", "isolet", _BUDGET),
    Tuned("_SEVERAL", "one dull answer tells little of other tables", "none", _ROUNDS),
    Tuned("_FOR_GROUPS", "as a label that is to be predicted", "none", _ROUNDS),
    Tuned("_REST", "a table asked twice in a row tells little more", "census, insurance", _ROUNDS),
    Tuned("_TOO_FINE", "finer tables tell of chance and noise alone", "bounded, census, wine_white, trips", _ROUNDS),
    Tuned("_TOO_FINE_OF_FEW", "few rounds are worth most where tables are clear", "sites, simple, census", _ROUNDS),
    Tuned("_FEWEST_ROUNDS", "fewer lose by columns what they win by tables", "sites, titanic, wine_red", _BUDGET),
    Tuned("_NOISE", "a class is off by .05 % of the rows: many columns are mostly zero", "none", _VALUES),
    Tuned("_MOST", "all other questions get 1.5 % more noise at most", "none", _VALUES),
    Tuned("_FAINT", "three standard deviations of ten classes are a tenth of the rows", "titanic", _VALUES),
    Tuned("_DROWNED", "three standard deviations of noise are a quarter of the rows", "none", _VALUES),
    Tuned("_CLEAR", "three standard deviations of noise", "none", _VALUES),
    Tuned("_TAIL", "between the tails of incomes and exponential ones", "none", _INSIDE),
    Tuned("_CLEAR_TAIL", "a tail that counts speak for is left alone", "heaps", _INSIDE),
    Tuned(
        "_NOISE",
        "a band is off by a tenth of a per cent of the rows: stays of most lengths are more",
        "visits",
        _DIFFERENCES,
    ),
    Tuned("_MOST_SHARE", "all other questions get 1.5 % more noise at most", "none", _DIFFERENCES),
    Tuned("_APART", "what bins alone follow as well is not worth a table of two columns", "none", _DIFFERENCES),
    Tuned("_CLEAR", "two standard deviations of the noise of all bands together", "none", _DIFFERENCES),
    Tuned("_SURE", "of a hundred bands of noise alone one is above it once in 300 times", "none", _DIFFERENCES),
    Tuned("_STRAY", "as many as are written down the wrong way round", "none", _DIFFERENCES),
    Tuned("_CLEAR", "two standard deviations of noise", "visits", _ORDERS),
    Tuned("_SLICES", "finer where bands begin; evenly cut parts only fill in", "trips", _ORDERS),
    Tuned("_FEWEST_ROUNDS_PER_COLUMN", "as above, where every column needs some budget", "census", _BUDGET),
)
"""Of tables of whole rows, dense tables, rounds, round values, orders, and of how the budget is divided."""


CARD = Card(
    name="dp-hp-adaptive",
    title="DP-HP adaptive",
    summary=("Counts every column, then privately finds the groups of columns that matter and counts those together."),
    best_for="Nearly every table: it adapts to the budget, and falls back to single columns where the budget is small.",
    loses_where=(
        "Relations among seven and more columns, fine detail inside the bins of several numbers at once, and rare "
        "classes of a label beside some forty columns, where independent-by-class told them apart better."
    ),
    reference="Vinaroz et al. 2022 (DP-HP); McKenna et al. 2022 (AIM); McKenna et al. 2019.",
    made_by="synth.generators.adaptive.dp_hp_adaptive:DpHpAdaptive",
    options=AdaptiveOptions,
    measures_one_ways=True,
    on_card="part",
    card_work="mixtures of products, which tables get that are wide or where nearly all columns go together; a Markov "
    "random field is many thousand small operations, which a processor does quicker",
    constants=CONSTANTS,
    questions={
        "one-way tables": "How often is each value of each column?",
        "round values": "How round are the numbers?",
        "differences": "How far apart are columns that are in order?",
        "differences of dates": "How far apart are dates, and columns that are in order?",
        "tables by label": "How does each column depend on the label?",
        "moments of all columns": "How do every two columns go together on average?",
    },
)

CARDS = (CARD,)
