"""One seed for all generated tests of a run, so that a failure can be run again."""

from __future__ import annotations

import os
import random

SEED = int(os.environ.get("TAILRACE_SEED") or random.SystemRandom().randrange(1 << 32))
