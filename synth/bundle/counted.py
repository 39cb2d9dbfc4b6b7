"""The noisy counts of a bundle, read from its answers alone: no private row is needed, and nothing is charged."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from synth.bundle.archive import open_archive
from synth.bundle.certificate import certificate_of, config_of
from synth.bundle.finding import Finding
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.verify import key_of
from synth.reports.counted import Counts, counts_of

__all__ = ["counts_of_bundle"]

_OF_FINDING = ("found.json", "found.npz")


def counts_of_bundle(bundle: str | Path | BinaryIO, public_key: str | Path | bytes | None = None) -> Counts:
    """Return every noisy count of a bundle, with its error: those of the run, then those of the finding before it.

    Parameters
    ----------
    bundle : path or binary file
        A zip or a folder. Its files must be those in its certificate; :func:`synth.bundle.verify.verify` checks more.
    public_key : path or bytes, optional
        PEM of the signer that is expected.

    Raises
    ------
    VerificationError
        If the bundle cannot be read, or another key signed it.
    InputError
        If the public key cannot be read.
    """
    with open_archive(Path(bundle) if isinstance(bundle, str) else bundle) as archive:
        certificate = certificate_of(archive, key_of(public_key))
        schema = config_of(archive).asked.schema
        known = measurements_from_bytes(archive.read("measurements.npz"))
        counts = counts_of(known.answers, schema, known.rows)
        if certificate.found is None:
            return counts
        finding = Finding.of_files({name: archive.read(name) for name in _OF_FINDING})
    before = counts_of(finding.answers, finding.schema, None, part="found")
    others = dict.fromkeys((*counts.others, *before.others))
    return Counts((*counts.tables, *before.tables), tuple(others))
