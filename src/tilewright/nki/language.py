"""`nl`: the language of traced kernels."""

from __future__ import annotations

from tilewright.nki._dtypes import *  # noqa: F403
from tilewright.nki._math import *  # noqa: F403
from tilewright.nki._memory import *  # noqa: F403
from tilewright.nki._ranges import *  # noqa: F403
