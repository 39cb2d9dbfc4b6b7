"""``python -m synth``: the command line."""

import sys

from synth.cli import main

sys.exit(main())
