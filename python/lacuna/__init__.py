"""Lacuna trains neural networks in a fraction of the usual memory.

>>> import lacuna
>>> lacuna.plan(model="resnet50", batch_size=32).saved   # bytes
>>> run = lacuna.train("configs/quickstart.yaml", epochs=1)
>>> run.best

Keyword arguments are keys of a configuration, as on the command line: `epochs=3`, `model="resnet50"`,
`memory={"policy": "auto", "budget": "6GiB"}`, `**{"train.batch_size": 16}`. What is wrong with the input raises
`lacuna.Error`.
"""

import os as _os

# Threads that wait spin for a short while only; libgomp reads it when it is loaded.
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from . import ops  # noqa: E402
from ._core import Error, Tensor, __version__  # noqa: E402
from ._commands import evaluate, explain, export, generate, plan, predict, report, sweep, train  # noqa: E402
from ._model import Model  # noqa: E402
from ._torch import from_torch, to_torch  # noqa: E402
from ._values import Evaluation, Explanation, Plan, Plans, Report, Run, Sweep  # noqa: E402

__all__ = [
    "Error", "Evaluation", "Explanation", "Model", "Plan", "Plans", "Report", "Run", "Sweep", "Tensor", "__version__",
    "evaluate", "explain", "export", "from_torch", "generate", "ops", "plan", "predict", "report", "sweep", "to_torch",
    "train",
]  # fmt: skip
