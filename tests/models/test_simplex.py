import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from synth.models.simplex import project_to_simplex


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 20)), elements=st.floats(-50, 50)))
def test_projection_lands_on_the_nearest_probability_vector(values):
    projected = project_to_simplex(values)
    assert (projected >= 0).all()
    np.testing.assert_allclose(projected.sum(axis=-1), 1.0)
    # The projection p of v satisfies <v - p, q - p> <= 0 for every corner q.
    for row, point in zip(values, projected, strict=True):
        assert ((row - point) @ (np.eye(len(row)) - point).T <= 1e-7 * (1 + np.abs(row).max())).all()


def test_probabilities_are_their_own_projection():
    probabilities = np.array([0.2, 0.0, 0.8])
    np.testing.assert_allclose(project_to_simplex(probabilities), probabilities)
