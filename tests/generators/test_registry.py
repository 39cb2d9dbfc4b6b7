from dataclasses import replace

import numpy as np
import pytest
from simulated import schema, schema_for, task

from synth import generators
from synth.errors import ConfigError, SchemaError
from synth.generators import GENERATORS, GeneratorTask, Needs, make, options_of, restore
from synth.generators.options import build_options
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, config_to_yaml, parse_config
from synth.schema.documents import read_mapping


def test_unknown_generators_are_named():
    with pytest.raises(ConfigError, match=r"no generator called 'pate-gan'.*dp-hp"):
        make("pate-gan", task(schema()), {})


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_unknown_options_are_named(name):
    with pytest.raises(ConfigError, match=f"'{name}': unknown key 'sigma'"):
        make(name, task(schema_for(name)), {"sigma": 1})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("independent", {"bins": 0}, "'bins' must lie between 1 and 4096, got 0"),
        ("independent", {"bins": 2.5}, "'independent': bins must be a whole number"),
        ("independent", {"bins": True}, "'independent': bins must be a whole number"),
        ("independent", {"bins": "32"}, "'independent': bins must be a whole number"),
        ("independent", {"bins": 10**400}, "'bins' must lie between 1 and 4096, got 1000"),
        ("dp-merf", {"length_scale": "wide"}, "'dp-merf': length_scale must be a number"),
        ("dp-merf", {"length_scale": True}, "'dp-merf': length_scale must be a number"),
        ("dp-merf", {"length_scale": 10**400}, "'dp-merf': length_scale must be a number"),
        ("dp-merf", {"length_scale": float("nan")}, "'length_scale' must lie between"),
        ("dp-merf", {"features": -3}, "'features' must lie between"),
        ("dp-hp", {"split": 1.0}, "'split' must lie between 0.01 and 0.99, got 1"),
        ("dp-hp", {"gamma": -1.0}, "'gamma'"),
        ("dp-hp", {"epochs": -1}, "'epochs'"),
        ("dp-hp-adaptive", {"model": "copula"}, "'dp-hp-adaptive': model must be auto, field or mixture, got copula"),
        ("dp-hp", {"order_product": 50, "prod_dimension": 6}, "product features"),
        ("dp-hp", {"prod_dimension": 5, "epochs": 10_000}, "10,000 epochs of .* Lower 'epochs'"),
    ],
)
def test_useless_options_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        make(name, task(schema()), options)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_every_option_of_the_form_has_help_and_a_default_that_works(name):
    fields = options_of(name)
    assert fields
    for field in fields:
        assert len(field.help) > 20, field.name
        assert isinstance(field.default, field.kind)
        assert not field.choices or field.default in field.choices
    make(name, task(schema_for(name)), {field.name: field.default for field in fields})


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_every_choice_is_the_same_after_a_configuration(name):
    """A configuration reads a text that looks like a number as one."""
    for field in options_of(name):
        for choice in set(field.choices) - {"paper"}:  # kahm as published is always refused
            config = RunConfig(
                **{"schema": schema(), "account": "a", "epsilon": 1.0, "delta": 1e-6, "people_at_most": 9},
                **{"generator": name, "options": {field.name: choice}, "rows": 1},
            )
            read = parse_config(read_mapping(config_to_yaml(config))).options
            assert build_options(GENERATORS[name].options, read, of=name) == replace(
                GENERATORS[name].options(), **{field.name: choice}
            )


@pytest.mark.parametrize("name", ["dp-merf", "dp-hp"])
def test_a_label_of_too_many_classes_is_refused(name):
    declared = Schema((CategoryColumn("code", tuple(f"v{i}" for i in range(1001))), CategoryColumn("x", ("a", "b"))))
    with pytest.raises(ConfigError, match="'code' has 1,001 classes"):
        make(name, task(declared, "code"), {})


def test_more_counts_by_class_than_a_check_can_hold_are_refused():
    def declared(*sizes):
        texts = [f"v{code}" for code in range(max(sizes))]
        return Schema(tuple(CategoryColumn(f"c{place}", tuple(texts[:size])) for place, size in enumerate(sizes)))

    assert make("independent-by-class", task(declared(2046, 2, 2048), "c2"), {})
    words = r"counts the 2,049 values of the other columns in each of the 2,048 classes of 'c2': 4,196,352 counts"
    with pytest.raises(ConfigError, match=words) as refusal:
        make("independent-by-class", task(declared(2047, 2, 2048), "c2"), {})
    assert "\n" not in str(refusal.value)
    assert make("independent", task(declared(2047, 2, 2048), "c2"), {})


def test_the_settings_of_the_papers_are_taken():
    numbers = Schema((*(NumberColumn(f"x{k}", 0, 99, 1) for k in range(6)), CategoryColumn("y", ("a", "b"))))
    settings = {"order_product": 13, "prod_dimension": 5, "length_scale": 0.005, "orders": "by column", "epochs": 20}
    assert make("dp-hp", task(numbers, "y"), settings)
    assert make("dp-hp", task(numbers, "y"), {"order_product": 5, "prod_dimension": 6, "order": 100, "gamma": 0.1})


@pytest.mark.parametrize(("classes", "together", "epochs"), [(2, 5, 24), (60, 4, 30), (900, 2, 30)])
def test_fewer_columns_are_taken_together_where_a_label_has_many_classes(classes, together, epochs):
    columns = [NumberColumn(f"x{k}", 0, 99, 1) for k in range(60)]
    label = CategoryColumn("y", tuple(f"v{k}" for k in range(classes)))
    made = make("dp-hp", task(Schema((*columns, label)), "y"), {})
    assert (made._prod_dimension, made._epochs) == (together, epochs)


ALONE = Schema((CategoryColumn("outcome", ("a", "b")),))
ONE_CLASS = Schema((CategoryColumn("outcome", ("a",), missing=True), CategoryColumn("x", ("a", "b"))))


@pytest.mark.parametrize(
    ("declared", "label"),
    [(schema(), None), (ALONE, "outcome"), (ONE_CLASS, "outcome")],
    ids=["no label", "nothing but the label", "one class"],
)
def test_what_a_generator_needs_is_data_and_it_starts_nowhere_without(declared, label):
    assert generators.describe("independent-by-class").needs == Needs(label=True, columns=2)
    words = "needs a label of at least two values and at least 2 columns to learn"
    with pytest.raises(ConfigError, match=words) as refusal:
        make("independent-by-class", task(declared, label), {})
    assert "\n" not in str(refusal.value)
    assert make("independent-by-class", task(schema()), {})


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_a_card_that_speaks_of_classes_says_that_a_label_is_needed_or_may_be_absent(name):
    card = generators.describe(name)
    if "class of the label" in card.summary:
        assert card.needs.label or "if there is one" in card.summary
    assert ("label" in card.needs.words) == card.needs.label
    # Whoever is refused is told the keys of what is needed, and of nothing else.
    assert ("'label:'" in card.needs.keys) == card.needs.label
    assert ("'row_count:', 'unit:'" in card.needs.keys) == card.needs.sampling
    assert bool(card.needs.keys) == bool(card.needs.words)


def test_a_bundle_from_before_a_label_was_needed_is_restored():
    state = {f"table.{d}": np.full((1, size), 1 / size) for d, size in enumerate((32, 2))}
    declared = Schema((CategoryColumn("a", tuple(map(str, range(32)))), CategoryColumn("b", ("x", "y"))))
    rows = restore("independent-by-class", task(declared, None), {}, state).sample(64, seed=0)
    assert np.bincount(rows[:, 0]).tolist() == [2] * 32


def test_whole_numbers_are_numbers():
    assert make("dp-hp", task(schema()), {"gamma": 2})


def test_options_are_named_as_in_the_paper():
    names = {field.name for field in options_of("dp-hp")}
    assert {"order", "order_product", "prod_dimension", "gamma", "epochs", "split", "length_scale"} <= names


def test_cards_come_in_the_order_of_the_registry():
    assert [card.name for card in generators.cards()] == list(GENERATORS)


def test_the_default_comes_first_and_the_controls_beside_it():
    default = RunConfig.__dataclass_fields__["generator"].default
    assert [card.name for card in generators.cards()][:3] == [default, "independent", "independent-by-class"]


def test_a_task_checks_what_it_is_told():
    with pytest.raises(SchemaError, match="no column called 'nothing'"):
        GeneratorTask(schema=schema(), label="nothing")
    with pytest.raises(ConfigError, match="device"):
        GeneratorTask(schema=schema(), device="tpu")
    with pytest.raises(ConfigError, match="seed"):
        GeneratorTask(schema=schema(), seed=-1)
