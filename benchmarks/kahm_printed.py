"""What the KAHM paper prints (Kumar 2024, Tables 5 and 8 to 11): figures to stand beside ours."""

from __future__ import annotations

__all__ = ["CENTRAL", "FEDERATED_1", "FEDERATED_2", "FEDERATED_3", "TABLE_5", "TABLE_11"]

TABLE_5: dict[tuple[float, int], tuple[float, float, float, float]] = {
    (1.0, 20): (0.9491, 0.9453, 0.00000, 0.00017),
    (1.5, 20): (0.9644, 0.9645, 0.00025, 0.00035),
    (2.0, 20): (0.9711, 0.9709, 0.00074, 0.00076),
    (3.0, 20): (0.9779, 0.9776, 0.00299, 0.00589),
    (4.0, 20): (0.9802, 0.9796, 0.00687, 0.01605),
    (5.0, 20): (0.9820, 0.9805, 0.01275, 0.03361),
    (8.0, 20): (0.9833, 0.9845, 0.02968, 0.11685),
    (16.0, 20): (0.9854, 0.9858, 0.05459, 0.30601),
    (32.0, 20): (0.9851, 0.9858, 0.06171, 0.35388),
    (32.0, 5): (0.9680, 0.9676, 0.00503, 0.01225),
    (32.0, 10): (0.9799, 0.9810, 0.01794, 0.08117),
    (32.0, 15): (0.9851, 0.9861, 0.03501, 0.20903),
    (32.0, 25): (0.9845, 0.9854, 0.09111, 0.49186),
}
"""(epsilon, n): accuracy by Definitions 15 and 12, membership score by 15 and 12. (32, 20) is printed twice."""

CENTRAL: dict[float, float] = {
    1.0: 0.9478,
    1.5: 0.9629,
    2.0: 0.9707,
    3.0: 0.9779,
    4.0: 0.9798,
    5.0: 0.9819,
    8.0: 0.9837,
    16.0: 0.9851,
}
"""Epsilon: accuracy of eq. 100 on centralised data, in Tables 8 and 9."""

FEDERATED_1: dict[float, float] = {
    1.0: 0.9460,
    1.5: 0.9633,
    2.0: 0.9710,
    3.0: 0.9783,
    4.0: 0.9790,
    5.0: 0.9813,
    8.0: 0.9829,
    16.0: 0.9847,
}
"""Epsilon: accuracy of eq. 104, ten parties with a class each (Table 8)."""

FEDERATED_2: dict[float, float] = {
    1.0: 0.9384,
    1.5: 0.9603,
    2.0: 0.9670,
    3.0: 0.9733,
    4.0: 0.9758,
    5.0: 0.9778,
    8.0: 0.9803,
    16.0: 0.9813,
}
"""Epsilon: accuracy of eq. 104, twenty parties with half a class each (Table 9)."""

FEDERATED_3: dict[int, float] = {2: 0.9817, 5: 0.9770, 10: 0.9752, 20: 0.9734, 50: 0.9728, 100: 0.9717}
"""Number of parties: mean accuracy over ten random distributions at epsilon 16 (Table 10)."""

TABLE_11: dict[int, float] = {
    10_000: 0.0193,
    100_000: 0.1077,
    300_000: 0.3232,
    1_000_000: 1.9783,
    2_500_000: 10.0412,
    3_600_000: 18.1033,
    4_900_000: 27.2175,
    5_625_000: 37.9418,
    6_400_000: 67.8467,
    7_225_000: 80.1050,
    8_100_000: 101.2839,
    9_025_000: 126.7630,
    10_000_000: 133.0497,
}
"""Entries of the data (rows times columns): seconds, MATLAB R2017b on a 2.2 GHz Core i7 (Table 11)."""
