"""The commands as functions. They work in this process; the lock of the interpreter is free meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from ._call import Listener, run, words_of
from ._values import Explanation, Plan, Report, Run, Sweep

PathLike = Union[str, "os.PathLike[str]"]
Config = Union[PathLike, Mapping[str, Any], None]
Callback = Callable[[dict[str, Any]], Any]


def _options(**given: Any) -> list[str]:
    """Options of a command: `--key value` of what is given, `--key` of flags."""
    words = []
    for name, value in given.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(os.fspath(value) if isinstance(value, os.PathLike) else str(value))
    return words


def plan(config: Config = None, /, *, policies: Sequence[str] | None = None, **changes: Any) -> Plan | list[Plan]:
    """Predicts the memory of training from one step that computes nothing.

    config: a path, a dictionary or YAML text; changes: keys of a configuration, as on the command line. policies:
    memory policies to compare, as `["keep", "exact", "fixed:4"]`; then the result is a list.
    """
    words = words_of(config, changes) + _options(policies=",".join(policies) if policies else None)
    json, text = run("plan", words)
    return [Plan(one, text) for one in json] if isinstance(json, list) else Plan(json, text)


def explain(config: Config = None, /, **changes: Any) -> Explanation:
    """Lists every tensor that a training step saves for backward: why, and how it is held. Arguments as of `plan`."""
    return Explanation(*run("explain", words_of(config, changes)))


def train(
    config: Config = None,
    /,
    *,
    on_step: Callback | None = None,
    on_epoch: Callback | None = None,
    resume: PathLike | Run | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **changes: Any,
) -> Run:
    """Trains or fine-tunes, and returns the run.

    on_step and on_epoch get a dictionary after each step (`step`, `loss`, `lr`, `memory`, `peak` in bytes, `seconds`) and
    each evaluation (`epoch`, `train_loss`, `val_loss`, metrics). What they raise ends the run after the step, as
    KeyboardInterrupt does: a checkpoint is saved first, and `resume=folder` goes on from there. overwrite: replace the
    run that the folder (`output={"dir": …}`) holds.
    """
    listener = Listener(progress, on_step, on_epoch)
    run("train", words_of(config, changes) + _options(resume=resume, overwrite=overwrite), listener)
    return Run(listener.folder)


def evaluate(model: PathLike | Run | None = None, /, *, config: PathLike | None = None, progress: bool = False,
             **changes: Any) -> dict[str, Any]:  # fmt: skip
    """Evaluates a run (its best checkpoint), a checkpoint or a folder with a model: loss and metrics by name.

    config: a configuration file in place of the run's, whose model.from names the weights.
    """
    words = [] if model is None else [os.fspath(model)]
    return run("eval", words + words_of(config, changes), Listener(progress))[0]


def export(model: PathLike | Run, out: PathLike, /, *, format: str | None = None, dtype: str | None = None,
           base: PathLike | None = None, adapter: bool = False) -> dict[str, Any]:  # fmt: skip
    """Writes a model as a folder of timm or transformers (format), or its adapter alone as one of PEFT.

    out must not exist; dtype: `f32`, `bf16` or `f16`; base: where the base of an adapter lies now.
    """
    options = _options(format=format, dtype=dtype, base=base, adapter=adapter)
    return run("export", [os.fspath(model), os.fspath(out), *options])[0]


def sweep(file: PathLike, /, *, jobs: int | None = None, progress: bool = True, **changes: Any) -> Sweep:
    """Runs a command over the cases of a sweep file, each in a process of its own; the same call continues it."""
    words = ["-c", os.fspath(file), *words_of(None, changes), *_options(jobs=jobs)]
    return Sweep(*run("sweep", words, Listener(progress)))


def report(runs: PathLike | Run | Sequence[PathLike | Run], output: PathLike | None = None) -> Report:
    """Draws runs as one page: a file (by default report.html), which notebooks show."""
    several = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    _, text = run("report", [*map(os.fspath, several), *_options(output=output)])
    return Report(text.splitlines()[-1])
