"""What the published settings of GS-WGAN cost: by the program of its authors, and by the proof here.

    python benchmarks/gs_wgan_account.py

The settings are the defaults of the authors' program (github.com/DingfanChen/GS-WGAN, ``source/config.py``). Its
``evaluation/privacy_analysis.py`` takes each of the B gradients of a step for a release of its own, on a sample at rate
1 / K that is drawn for it alone, and adds up Renyi divergences with autodp, though one draw of a critic decides about
all B of a step. The bound of ``docs/proofs/critic-turns.md`` is for critics that take turns in public order: a unit
pays for the 20 turns of its critic, or for the 40 of two where it is replaced, and nothing is amplified.
"""

from __future__ import annotations

import math

from autodp import rdp_acct, rdp_bank

from synth.privacy.accounting import epsilon_of
from synth.privacy.more.critic_turns import turns_paid

CRITICS, STEPS, ROWS, NOISE, DELTA = 1000, 20_000, 32, 1.07, 1e-5
"""Noise in units of 2 C, the sensitivity of one gradient."""


def published() -> float:
    """Return epsilon of every gradient as a release on a sample of its own."""
    account = rdp_acct.anaRDPacct()
    account.compose_subsampled_mechanism(
        lambda order: rdp_bank.RDP_gaussian({"sigma": NOISE}, order), 1.0 / CRITICS, coeff=STEPS * ROWS
    )
    return float(account.get_eps(DELTA))


def here(touched: int) -> float:
    """Return epsilon where one unit pays for the turns of some parts in full."""
    mu = math.sqrt(ROWS * turns_paid(STEPS, CRITICS, touched)) / NOISE
    return epsilon_of(mu**2, DELTA)


def main() -> None:
    """Print a line for each."""
    lines = {
        "as published: each gradient a sample of its own": published(),
        "turns in public order, add or remove": here(1),
        "turns in public order, replace one": here(2),
    }
    for what, epsilon in lines.items():
        print(f"{what:50} epsilon {epsilon:8.2f} at delta {DELTA:g}")


if __name__ == "__main__":
    main()
