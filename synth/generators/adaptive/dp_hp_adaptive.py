"""DP-HP made adaptive: count every column on its own, then the marginals of several columns that matter most.

How the budget is divided (``budget``) follows from declared facts, the number of rows, and a first look at the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.adaptive import CARD, PURPOSE, AdaptiveOptions
from synth.generators.adaptive.all_pairs import AllPairs, independent
from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.budget import AdaptiveBudget, allocate_budget, coarseness_for, share_for_columns
from synth.generators.adaptive.coarsening import Coarseness, bins_that_fit, coarsen, declared_bins
from synth.generators.adaptive.differences import Differences
from synth.generators.adaptive.orders import OrderedPair, pairs_from_state, place_in_order, state_of_pairs
from synth.generators.adaptive.pairs_look import LOOK, PairsLook
from synth.generators.adaptive.regression import measured_moments
from synth.generators.adaptive.sums import ClippedSum, measure_sums, share_for_sums, summed_numbers, with_mean
from synth.generators.adaptive.survey import Survey, declared_zeros, measure_label_marginals
from synth.generators.adaptive.tables import SelectionRounds
from synth.generators.adaptive.tree import MANY_COLUMNS, ChowLiuTree, bins_of_tree, rounds_of_tree
from synth.generators.adaptive.whole_rows import STANDS_OUT, WHOLE_ROUNDS, WholeRows, sets_are_few
from synth.generators.adaptive.written_values import as_written
from synth.generators.one_way_marginals import OneWayMarginals, measure_one_way_marginals
from synth.generators.protocol import Card, Generator, GeneratorTask, State, states_of_columns
from synth.generators.round_values import RoundCounts, long_numbers, measure_round_values, plan_round_values
from synth.generators.sampling import check_rows, random_source
from synth.models.balanced_rows import balanced_rows
from synth.models.joint_model import FEW_COLUMNS, Fitter, MixtureFitter, fitter_of, kind_for, restored_model
from synth.models.marginals import JointModel, NoisyMarginal, misfit
from synth.models.moments import CountedMoments
from synth.models.pool import TiltedPool, tilted_to_moments
from synth.privacy.answers import AnswerSource, NoisyAnswer, of_kind
from synth.privacy.questions import Answer
from synth.privacy.selection import Selection
from synth.progress import Progress
from synth.schema.people import people_asked
from synth.schema.rule_lines import read_rules
from synth.system.costs import Work
from synth.system.machine import resolved_device

__all__ = ["DpHpAdaptive"]

_WORTH_ASKING = 0.03
"""Share of the budget below which columns are not counted again."""

_COMPARED_COLUMNS = 20
"""Most columns for which the models of earlier rounds are compared with all answers."""

_TO_PREDICT = 0.35
"""Minimum share of the budget for counting columns by class of the label, if the rows are for predicting it."""

_PART_FOR_RULES = 0.05
"""Share of the model's cells for tables of declared rules: at one half, there was no room for other tables."""

_MOMENTS_SHARE = 0.4
"""Share of the budget for how each pair of columns is related on average, if the rows are for regressions."""

_MOST_STEPS_OF_MOMENTS = 200
"""Maximum number of steps of a fit to moments; it ends earlier when a step gains nothing."""

_DUST = 1e-3
"""Share of the budget that rounding may leave unspent."""

_SOON_COLUMNS, _SOON_CHOICES, _SOON_CELLS, _SOON_NUMBERS = 16, 64, 200_000, 100_000
"""Most columns, private choices, cells of the model and noisy numbers of a bundle that every check fits again: 2 to 8
seconds on one core."""

_BEFORE_WHOLE_ROWS = 0.3
"""Share of the rounds' budget that is spent before a first set of many columns is asked."""

_PAIRS_BEFORE_WHOLE_ROWS = 0.5
"""Share of what is left for all pairs of a dense table that is spent before a first set of many columns is asked."""

_CLEAR_WHOLE_ROWS = 500.0
"""Fewest rows for sets of many columns, in units of the noise of a count that gets the whole budget. At this size,
noise in one of their rounds is about three quarters of what a cell of 64 holds."""

_FEWEST_FOR_WHOLE_ROWS = 4
"""Fewest columns for sets of many columns: of three columns, one table says everything."""


class DpHpAdaptive(Generator):
    """Ask one sum kernel on all columns and product kernels on privately chosen subsets; fit one model to all answers.

    Each column is counted on its own at several resolutions and put into bins of roughly equal noisy mass. Then, round
    by round, the table of two or three columns that the current model describes worst is chosen privately and counted,
    and the model is fitted to all answers. Rows are drawn from the model; values inside a bin follow the column.

    Notes
    -----
    Vinaroz et al. (2022, section 5) release the embedding of one fixed product kernel. Here the features are one-hot,
    the kernels are chosen as in AIM (McKenna 2022), the noise is accounted for exactly, and the model is fitted to the
    answers as in ``synth.models.mrf_estimation``.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: AdaptiveOptions) -> None:
        PURPOSE.columns(options.purpose, task.schema.names)  # refuses names that are not columns
        self._task, self._options = task, options
        self._bins: tuple[ColumnBins, ...] = ()
        self._model: JointModel | None = None
        self._pairs: tuple[OrderedPair, ...] = ()
        self._fitted_on = "cpu"

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Measure the columns, choose and measure marginals of several columns, and fit the model to all answers."""
        fit = _Fit(self._task, self._options, session, source=f"generator {self.card.name}", progress=progress)
        progress.phase("Counting columns")
        fit.measure_round_values()
        fit.measure_differences()
        fit.measure_columns()
        fit.choose_bins()
        fit.look_at_pairs()
        if fit.is_dense:
            fit.measure_all_pairs()
        else:
            fit.start_model()
            fit.choose_marginals()
        fit.measure_columns_with_what_is_left()
        fit.measure_moments()
        progress.phase("Fitting")
        self._model = fit.finished_model()
        self._bins = fit.bins_as_written(self._model)
        self._pairs = fit.differences.pairs(self._bins, self._model)
        self._fitted_on = fit.device
        return self

    def fits_soon(self, answers: Sequence[Answer]) -> bool:
        """Whether few columns, few choices and a small field make a fit of seconds."""
        columns, options = self._task.schema.modelled, self._options
        most_bins = bins_that_fit(declared_bins(columns, options.bins), options.bins)
        field = options.model == "field" or (
            options.model == "auto" and kind_for(declared_bins(columns, most_bins), options.cells) == "field"
        )
        chosen = len(of_kind(answers, Selection))
        numbers = sum(answer.value.size for answer in of_kind(answers, NoisyAnswer))
        small = len(columns) <= _SOON_COLUMNS and chosen <= _SOON_CHOICES and options.cells <= _SOON_CELLS
        return field and small and numbers <= _SOON_NUMBERS and not options.purpose.startswith("regression")

    def work(self, rows: int) -> Work:
        """Return what fitting a mixture of products computes: of all rounds, or of all pairs if most columns depend.

        A field is fitted on the processor if the device is left open, so it counts for nothing.
        """
        columns, options = self._task.schema.modelled, self._options
        sizes = declared_bins(columns, bins_that_fit(declared_bins(columns, options.bins), options.bins))
        kind = kind_for(sizes, options.cells) if options.model == "auto" else options.model
        if kind == "mixture":
            return MixtureFitter.work(sizes)
        if options.model == "field" or len(sizes) < 2:
            return super().work(rows)
        return AllPairs.work(sizes)

    @property
    def device(self) -> str:
        """The device that fitted the joint model, "cpu" or "cuda"; rows are drawn on the processor."""
        return self._fitted_on

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw bins from the model by controlled rounding, then codes inside the bins."""
        check_rows(n_rows)
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        random = random_source(seed)
        if isinstance(self._model, TiltedPool):
            rows = self._model.sample(n_rows, random)  # balanced, together with the sets that it was tilted to
        else:
            rows = balanced_rows(self._model, n_rows, random)
        for d, bins in enumerate(self._bins):
            if bins.drawn_as is not None:
                rows[:, d] = bins.drawn_as[rows[:, d]]
        # Of these columns alone: a copy of a wide table would take as much memory as the table.
        drawn = {d: rows[:, d].copy() for pair in self._pairs for d in (pair.order.earlier, pair.order.later)}
        for d, bins in enumerate(self._bins):
            rows[:, d] = bins.codes(rows[:, d], random)
        place_in_order(self._pairs, drawn, rows, random)
        return rows

    def state(self) -> State:
        """Return the columns' bins and the model."""
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        columns = {
            f"column.{d}.{name}": array for d, bins in enumerate(self._bins) for name, array in bins.state().items()
        }
        model = {f"model.{name}": np.ascontiguousarray(array) for name, array in self._model.state().items()}
        return {**columns, **model, **state_of_pairs(self._pairs)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: AdaptiveOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        columns = task.schema.modelled
        parts = states_of_columns(state, len(columns))
        bins = list(map(ColumnBins.from_state, columns, parts))
        generator._bins = tuple(bins)
        generator._pairs = pairs_from_state(state, columns, bins)
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._model = restored_model(tuple(one.size for one in bins), model, seed=task.seed)
        return generator


class _Fit:
    """The state of one fit: what was declared, how the budget is divided, and the answers so far.

    Attributes
    ----------
    bins : tuple of ColumnBins
        How the model sees every column.
    is_dense : bool
        Whether all pairs of columns are counted at once; False until the look at them.
    differences : Differences
        How far apart the values lie in columns with a declared order, and in dates.
    """

    def __init__(
        self, task: GeneratorTask, options: AdaptiveOptions, session: AnswerSource, *, source: str, progress: Progress
    ) -> None:
        self._device = resolved_device(task.device)  # refuses a missing device before anything is spent
        # A field takes many small operations, which are faster on the processor: a card does them only on request.
        self._device_of_fields = self._device if task.device == "cuda" else "cpu"
        self._task, self._options, self._progress = task, options, progress
        # The rest of the whole session is spent last.
        regression = options.purpose.startswith("regression")
        self._session = session.sub_session(1.0 - _MOMENTS_SHARE) if regression else session
        self._last = session if regression else None
        self._columns = task.schema.modelled
        named = None if options.purpose == "marginals" else task.label
        label = None if named is None else task.schema.names.index(named)
        self._survey = Survey(self._session, self._columns, label, source)
        self._classes = 1 if label is None else self._columns[label].size
        self._many = len(self._columns) > MANY_COLUMNS
        self._most_bins = bins_that_fit(declared_bins(self._columns, options.bins), options.bins)
        self._most_rounds: float | None = None
        if self._many:
            tree = bins_of_tree(len(self._columns), self._classes, options.cells)
            self._most_rounds = rounds_of_tree(len(self._columns)) if tree else 0.0
            self._most_bins = min(self._most_bins, tree or self._most_bins)
        self.bins: tuple[ColumnBins, ...] = ()
        self.is_dense = False
        self._measured: list[NoisyMarginal] = []
        self._models: list[JointModel] = []
        self._base: Fitter | AllPairs
        self._whole: WholeRows | None = None
        self._round: dict[str, RoundCounts] = {}
        self._rules = read_rules(task.constraints, task.schema).rules
        self._room = round(_PART_FOR_RULES * options.cells)
        self.differences = Differences(self._survey, self._rules, cells=self._room)
        self._left = self._session.remaining_share
        self._sums: dict[str, ClippedSum] = {}
        self._moments: CountedMoments | None = None

    @property
    def device(self) -> str:
        """The device that fits the joint model."""
        return self._device if self.is_dense or self._kind() == "mixture" else self._device_of_fields

    def measure_round_values(self) -> None:
        """Count how rounded the numbers are that have too many values to be counted one by one."""
        long = long_numbers(self._columns)
        plan = plan_round_values(self._session, long)
        if plan.share:
            # Subtract the share as requested, not as rounded when charged: a replay knows only the former.
            self._left -= plan.share
            self._round = measure_round_values(self._session, long, plan=plan, source=self._survey.source)

    def measure_differences(self) -> None:
        """Count rows by the difference of columns with a declared order, and of dates."""
        if self.differences.share:
            self._left -= self.differences.share
            self.differences.ask()

    def measure_columns(self) -> None:
        """Count columns with a small share, divide the rest by what was found, count them again, and add numbers up."""
        share = share_for_sums(self._session, summed_numbers(self._columns))
        # Set aside now: where numbers are clipped follows from the columns' counts.
        sums = self._session.sub_session(share) if share else None
        self._left -= share
        self._count_columns()
        if sums is not None:
            self._sums = measure_sums(sums, self._one_ways, self._survey.source)

    def _count_columns(self) -> None:
        whole, least = self._left, self._options.columns_share
        self._budget = self._divided(whole, least)
        self._one_ways = self._counted(self._budget.columns, None)
        if not self._budget.n_rounds or self._many:
            return
        wanted = share_for_columns(self._one_ways, self._budget.columns / whole)
        if wanted < least + _WORTH_ASKING:
            return
        spent, self._budget = self._budget.columns, self._divided(whole, wanted)
        last = not self._budget.n_rounds and not self._budget.by_label
        share = self._session.remaining_share if last else self._budget.columns - spent
        self._one_ways = self._counted(share, self._one_ways)

    def choose_bins(self) -> None:
        """Put every column into bins that show more than noise, and decide what is worth asking next."""
        coarseness = coarseness_for(
            self._budget,
            self._one_ways,
            classes=self._classes,
            most_bins=self._most_bins,
            many=self._many,
        )
        self._label_bins = coarseness.bins
        self.bins = coarsen(self._one_ways, coarseness)
        varied = [d for d, one in enumerate(self.bins) if one.size > 1]
        self._by_label = self._survey.label in varied and len(varied) > 1 and self._budget.by_label > 0
        self._choosing = len(varied) > 1 and self._budget.n_rounds > 0
        if not self._by_label and not self._choosing and self._session.remaining_share > _DUST:
            # No column varies, although some might have: nothing else is worth asking.
            self._one_ways = self._counted(self._session.remaining_share, self._one_ways)
            self.bins = coarsen(self._one_ways, Coarseness(bins=self._most_bins))
        self._measured = [one.measured(d) for d, one in enumerate(self.bins)]

    def look_at_pairs(self) -> None:
        """Look whether nearly all columns depend on each other, and so need a model of all pairs.

        A label of two classes is treated as any other column here, and a dense table is not asked about it twice. With
        more classes, halves of the label say nothing, so columns are counted by class first.
        """
        left = self._session.remaining_share - LOOK
        asked = self._options.model == "auto" and self._kind() == "field"
        # Whether there is a next row relates all of its columns. Rules tell a field; a look would call it dense.
        asked = asked and people_asked(self._task.schema) is None
        if not asked or not self._choosing or self._many or left <= LOOK:
            return
        label = self._survey.label
        by_class = self._by_label and label is not None and self.bins[label].size > 2
        look = PairsLook(
            self._survey,
            self.bins,
            total=self._one_ways.rows,
            unit_noise=self._one_ways.unit_noise,
            share=left - (self._budget.by_label if by_class else 0.0),
            by_class=by_class,
        )
        if not look.can_tell:
            return
        if by_class:
            self.start_model()
        self._progress.phase("Looking at pairs of columns")
        self.is_dense = look.is_dense(
            self._fitter.model if by_class else independent(self.bins),
            cells=self._options.cells,
            tables=self._budget.n_rounds,
            by_label=self._by_label and not by_class,
        )

    def start_model(self) -> None:
        """Count every column by class of the label, if that is worth asking, and fit a first model; only once."""
        if self._models:
            return
        if self._by_label:
            # Shares are rounded down; the last question takes the remainder.
            share = self._budget.by_label if self._choosing else self._session.remaining_share
            self._measured += self._label_marginals(share, "tables by label")
        sizes = tuple(one.size for one in self.bins)
        self._fitter = fitter_of(
            self._kind(),
            sizes,
            self._one_ways.rows,
            self._device if self._kind() == "mixture" else self._device_of_fields,
            seed=self._task.seed,
            triple_cells=self._options.cells // (64 if len(sizes) > FEW_COLUMNS else 16),
            known=declared_zeros(self._survey, self.bins, self._rules, total=self._one_ways.rows, cells=self._room),
        )
        self._base = self._fitter
        if self._fitter.takes_coarse:
            self._measured += self.differences.tables(self.bins, self._one_ways.rows)
        self._fitter.refit(self._measured, last=False)
        self._models.append(self._fitter.model)

    def measure_all_pairs(self) -> None:
        """Count all pairs of columns in one question, then sets of many columns or the pairs once more."""
        self._progress.phase("Counting all pairs of columns")
        # The mixture takes tables of bins only: differences of columns are drawn within them.
        self._measured = [one for one in self._measured if one.cells is None]
        share = self._session.remaining_share
        pairs = AllPairs(
            self._survey,
            self.bins,
            total=self._one_ways.rows,
            unit_noise=self._one_ways.unit_noise,
            share=share,
            seed=self._task.seed,
            device=self._device,
        )
        self._base = pairs
        if not self._can_ask_whole_rows:
            pairs.measure(share, "all pairs of columns")
            return
        pairs.measure(_PAIRS_BEFORE_WHOLE_ROWS * share, "all pairs of columns")
        self._refit_to_all()

        def again() -> None:
            pairs.measure(self._session.remaining_share, "all pairs of columns again")

        if self._whole_rows_stand_out():
            self._measure_whole_rows(again)
        else:
            again()

    def choose_marginals(self) -> None:
        """Choose marginals of several columns, one after another or as a tree, and measure them."""
        if not self._choosing:
            return
        share = self._budget.rounds if self._by_label else self._budget.rounds + self._budget.by_label
        if self._session.remaining_share < share - _DUST:
            # A look at all pairs has taken its share of it.
            share = self._session.remaining_share
        if self._many:
            self._progress.phase("Finding a tree of columns")
            self._measure_tree(share)
        else:
            self._progress.phase("Choosing tables")
            self._measure_in_rounds(share)

    def measure_columns_with_what_is_left(self) -> None:
        """Count the columns once more if tables would gain less; the model's bins stay."""
        if not self._choosing or self._session.remaining_share <= _DUST:
            return
        self._count_columns_again(self._session)

    def _count_columns_again(self, session: AnswerSource) -> None:
        """Spend what a session has left on single columns."""
        self._one_ways = self._counted(session.remaining_share, self._one_ways, session)
        self.bins = tuple(
            ColumnBins.of(way, one.bin_of_place) for way, one in zip(self._one_ways.columns, self.bins, strict=True)
        )
        self._measured[: len(self.bins)] = [one.measured(d) for d, one in enumerate(self.bins)]

    def measure_moments(self) -> None:
        """Ask how each pair of columns is related on average, if the rows are for regressions."""
        if self._last is None:
            return
        self._progress.phase("Asking for moments")
        noise = self._one_ways.unit_noise / math.sqrt(self._budget.columns)
        share = self._last.remaining_share
        named = PURPOSE.columns(self._options.purpose, self._task.schema.names)
        self._moments = measured_moments(self._last, self._survey, self.bins, named=named, share=share, noise=noise)
        if self._moments is None:
            self._count_columns_again(self._last)

    def finished_model(self) -> JointModel:
        """Fit the model to all answers."""
        model = self._fitted_model()
        if self._moments is None:
            return model
        return tilted_to_moments(
            model,
            self._measured[: len(self.bins)],
            self._moments,
            self._one_ways.rows,
            seed=self._task.seed,
            steps=_MOST_STEPS_OF_MOMENTS,
            checked=self._progress.check_cancelled,
        )

    def _fitted_model(self) -> JointModel:
        if self.differences.counted and self._kind() == "field" and not self.is_dense:
            self._refit_to_all()
            self._measured += self.differences.tables(self.bins, self._one_ways.rows, self._base.model)
        # If whole rows stood out, take the pool that agrees with them too, tempered so that enough rows carry it.
        tilted = None if self._whole is None else self._whole.finished(self._measured[: len(self.bins)])
        if tilted is None:
            self._refit_to_all()
        # Compare every model with all answers: with those of its own round alone, a later model, which has more to fit,
        # would look worse than the one before. An earlier model has to say something about sets of columns that it has
        # no table of, which is only possible with few columns.
        earlier = self._models if len(self._columns) <= _COMPARED_COLUMNS else []
        last = [self._base.model] if tilted is None else [self._base.model, tilted]
        for model in (*earlier, *last):
            self._progress.loss(misfit(model, self._measured, self._one_ways.rows))
        return last[-1]

    def bins_as_written(self, model: JointModel) -> tuple[ColumnBins, ...]:
        """Return the bins with values inside them as people write them and as sums say, where the answers allow it."""
        rows, found = self._one_ways.rows, []
        for d, (way, one) in enumerate(zip(self._one_ways.columns, self.bins, strict=True)):
            bins = as_written(one, way, self._round.get(way.column.name), rows)
            summed = self._sums.get(way.column.name)
            if summed is not None:
                masses = model.marginal((d,))
                bins = with_mean(bins, way, summed, masses / masses.sum(), rows)
            found.append(bins)
        return tuple(found)

    def _divided(self, whole: float, for_columns: float) -> AdaptiveBudget:
        return allocate_budget(
            self._session,
            whole,
            declared_bins(self._columns, self._most_bins),
            for_columns=for_columns,
            label_share=max(self._options.label_share, _TO_PREDICT if self._options.purpose == "prediction" else 0.0),
            label_size=self._classes,
            most_rounds=self._most_rounds,
        )

    def _counted(
        self, share: float, earlier: OneWayMarginals | None, session: AnswerSource | None = None
    ) -> OneWayMarginals:
        return measure_one_way_marginals(
            session or self._session,
            self._columns,
            label=self._task.label,
            share=share,
            source=self._survey.source,
            earlier=earlier,
        )

    def _label_marginals(self, share: float, query: str) -> list[NoisyMarginal]:
        lengths = declared_bins(self._columns, self._label_bins)
        return measure_label_marginals(
            self._survey, self.bins, lengths=lengths, share=share, total=self._one_ways.rows, query=query
        )

    def _measure_tree(self, share: float) -> None:
        """Find a tree of columns and count its edges; if there is none, count by label once more."""
        tree = ChowLiuTree(
            self._survey, self.bins, by_class=self._by_label, fitter=self._fitter, total=self._one_ways.rows
        )
        edges = tree.ask(share)
        self._measured += edges
        if self._by_label and not edges:
            self._measured += self._label_marginals(self._session.remaining_share, "tables by label again")

    def _measure_in_rounds(self, share: float) -> None:
        """Choose, count and fit, round by round."""
        rounds = SelectionRounds(
            self._survey,
            self.bins,
            fitter=self._fitter,
            share=share,
            rounds=self._budget.n_rounds,
            cells=self._options.cells,
            few=self._budget.few,
            for_label=self._options.purpose == "prediction",
            groups=tuple(self._task.schema.names.index(name) for name in self._task.groups),
            unit_noise=self._one_ways.unit_noise,
            total=self._one_ways.rows,
            columns_spent=self._budget.columns,
            seed=self._task.seed,
        )
        if not self._can_ask_whole_rows:
            rounds.run(self._measured, self._report_round)
            return
        ended = rounds.run(self._measured, self._report_round, until=_BEFORE_WHOLE_ROWS)

        def continue_rounds() -> None:
            if not ended:
                rounds.left = self._session.remaining_share
                rounds.run(self._measured, self._report_round)

        if self._whole_rows_stand_out():
            self._refit_to_all()
            self._measure_whole_rows(continue_rounds)
        else:
            continue_rounds()

    @property
    def _can_ask_whole_rows(self) -> bool:
        """Whether the table is large enough, and narrow enough, for sets of many columns."""
        clear = self._one_ways.rows >= _CLEAR_WHOLE_ROWS * self._one_ways.unit_noise
        few = len(self._columns) >= _FEWEST_FOR_WHOLE_ROWS and sets_are_few(self.bins, self._survey.label)
        return few and clear

    def _whole_rows_stand_out(self) -> bool:
        """Ask about one set of many columns, and return whether the current model has a large error there."""
        if self._session.remaining_share <= _DUST:
            return False  # the rounds so far have shown so little that their shares grew to all of it
        whole = WholeRows(
            self._survey,
            self.bins,
            self._base.model,
            self._measured,
            total=self._one_ways.rows,
            unit_noise=self._one_ways.unit_noise,
            seed=self._task.seed,
            checked=self._progress.check_cancelled,
        )
        part = self._session.remaining_share / (2 * WHOLE_ROUNDS)
        found = whole.can_ask and whole.ask(part)[0] >= STANDS_OUT
        self._whole = whole if found else None
        return found

    def _measure_whole_rows(self, otherwise: Callable[[], None]) -> None:
        """Choose and count sets of many columns with all that is left, as long as enough rows of the pool follow them.

        If too few do, ``otherwise`` spends the rest, and a new pool is drawn from what was learned.
        """
        if self._whole is None:
            return
        self._progress.phase("Counting whole rows")
        self._whole.rebase(self._base.model, self._measured)
        self._whole.run(self._session.remaining_share, self._report)
        if not self._whole.carries and self._session.remaining_share > _DUST:
            otherwise()
            self._refit_to_all()
            self._whole.rebase(self._base.model, self._measured)

    def _refit_to_all(self) -> None:
        """Fit the joint model to all its answers, with the full number of steps."""
        self._base.refit(self._measured, last=True, report=lambda _step, _loss: self._progress.check_cancelled())

    def _report_round(self, spent: float) -> None:
        self._models.append(self._fitter.model)
        self._report(spent)

    def _report(self, spent: float) -> None:
        self._progress.step(round(100 * spent), 100)

    def _kind(self) -> str:
        if self._options.model != "auto":
            return self._options.model
        return kind_for(declared_bins(self._columns, self._most_bins), self._options.cells)
