import contextlib
import json
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from synth.errors import InputError
from synth.models.kahm_classifier import KahmModel
from synth.models.kahm_parties import load_model, model_from_bytes, model_to_bytes, save_model


def rows(n_rows, *, seed=0, dtype=torch.float64):
    return torch.rand(n_rows, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def made(*, dtype=torch.float64):
    table = torch.cat([rows(45, dtype=dtype), torch.full((3, 6), 0.5, dtype=dtype), rows(1, seed=1, dtype=dtype)])
    labels = ["many"] * 45 + ["same"] * 3 + ["Zoë"]
    return KahmModel.fit(table, labels, n=4, block=20, partition="random")


def rewritten(data, change, tensors=None):
    """The same file with another card, or other tensors."""
    (length,) = struct.unpack("<Q", data[:8])
    card = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["hermitage-kahm"])
    change(card)
    return save(tensors if tensors is not None else load(data), {"hermitage-kahm": json.dumps(card)})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_model_comes_back_exactly(tmp_path, dtype):
    model = made(dtype=dtype)
    save_model(model, tmp_path / "party.safetensors")
    back = load_model(tmp_path / "party.safetensors")
    points = 3 * rows(40, seed=2, dtype=dtype) - 1
    assert back.classes == model.classes
    assert (back.n, back.block) == (model.n, model.block)
    for ours, theirs in zip(back.hulls, model.hulls, strict=True):
        assert [part.report for part in ours.parts] == [part.report for part in theirs.parts]
    assert torch.equal(back.distances(points), model.distances(points))
    assert model_to_bytes(back) == model_to_bytes(model)


def test_whole_numbers_stay_whole_numbers():
    model = KahmModel.fit(rows(8), [7, 7, 7, 7, 10, 10, 10, 10], n=2)
    assert model_from_bytes(model_to_bytes(model)).classes == (7, 10)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card.pop("classes"),
        lambda card: card["classes"].append("more"),
        lambda card: card["classes"].__setitem__(0, 1.5),
        lambda card: card["classes"].__setitem__(0, None),
        lambda card: card.update(n=0),
        lambda card: card.update(depth=True),
        lambda card: card.update(block="many"),
        lambda card: card["parts"][0].append(card["parts"][0][0]),
        lambda card: card["parts"][0].pop(),
        lambda card: card["parts"][0][0].append(card["parts"][0][0][0]),
        lambda card: card["parts"][0][0][0].update(ridge=0.0),
        lambda card: card["parts"][0][0][0].update(ridge=float("nan")),
        lambda card: card["parts"][0][0][0].update(ridge=10**400),
        lambda card: card["parts"][0][0][0].update(n_rows=14),
        lambda card: card["parts"][0][0][0].update(n_rows=-15),
        lambda card: card["parts"][0][0][0].update(n_effective=3),
        lambda card: card["parts"][0][0][0].update(double_precision=False),
        lambda card: card["parts"][0][0][0].pop("excess"),
        lambda card: card["parts"][0][0][0].update(more=1),
        lambda card: card.update(parts={}),
        lambda card: card.update(parts=[5]),
    ],
)
def test_a_card_that_does_not_fit_is_refused(change):
    with pytest.raises(InputError, match="does not match its card"):
        model_from_bytes(rewritten(model_to_bytes(made()), change))


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("0.0.rows"),
        lambda tensors: tensors.update({"0.0.rows": tensors["0.0.rows"][:-1].contiguous()}),
        lambda tensors: tensors.update({"0.0.rows": tensors["0.0.rows"].float()}),
        lambda tensors: tensors.update({"0.0.0.values": torch.full_like(tensors["0.0.0.values"], torch.nan)}),
        lambda tensors: tensors.update({"0.0.centre": tensors["0.0.centre"][None]}),
        lambda tensors: tensors.update({"more": torch.zeros(1)}),
    ],
)
def test_tensors_that_do_not_fit_are_refused(change):
    data = model_to_bytes(made())
    tensors = load(data)
    change(tensors)
    with pytest.raises(InputError, match="does not match its card"):
        model_from_bytes(rewritten(data, lambda card: None, tensors))


def test_classes_out_of_order_are_refused():
    def swap(card):
        card["classes"] = card["classes"][::-1]

    with pytest.raises(InputError, match="ascending"):
        model_from_bytes(rewritten(model_to_bytes(made()), swap))


def test_machines_of_several_layers_are_refused():
    with pytest.raises(InputError, match="several layers"):
        model_from_bytes(rewritten(model_to_bytes(made()), lambda card: card.update(depth=2)))


def test_a_later_version_is_refused():
    with pytest.raises(InputError, match="version 2; this program reads version 1"):
        model_from_bytes(rewritten(model_to_bytes(made()), lambda card: card.update(version=2)))


@pytest.mark.parametrize(
    "data", [b"", b"1234", b"\xff" * 64, struct.pack("<Q", 5) + b"{}   ", save({"a": torch.zeros(1)})]
)
def test_other_files_are_refused(data):
    with pytest.raises(InputError, match="not a model file"):
        model_from_bytes(data)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_damaged_files_never_end_in_a_traceback(data):
    whole = bytearray(model_to_bytes(KahmModel.fit(rows(6), [0] * 6, n=2)))
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole)))]
    for _ in range(data.draw(st.integers(0, 4))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    # Anything but our own error fails the test.
    with contextlib.suppress(InputError):
        model_from_bytes(bytes(whole)).distances(rows(2))
