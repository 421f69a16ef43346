"""The commands as functions. They work in this process; the lock of the interpreter is free meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from ._call import Given, Listener, run, words_of
from ._core import Tensor
from ._values import Explanation, Plan, Report, Run, Sweep

PathLike = Union[str, "os.PathLike[str]"]
Config = Union[PathLike, Mapping[str, Any], None]
Callback = Callable[[dict[str, Any]], Any]
Rows = Sequence[Mapping[str, Any]]
Loss = Callable[[dict[str, Tensor], dict[str, Tensor]], Tensor]


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


def plan(config: Config = None, /, *, policies: Sequence[str] | None = None, validation: Rows | None = None,
         loss: Loss | None = None, **changes: Any) -> Plan | list[Plan]:  # fmt: skip
    """Predicts the memory of training from one step that computes nothing.

    config: a path, a dictionary or YAML text; changes: keys of a configuration, as on the command line. policies:
    memory policies to compare, as `["keep", "exact", "fixed:4"]`; then the result is a list. data, validation, loss as
    of `train`.
    """
    given = Given(changes, validation, loss)
    words = words_of(config, given.changes) + _options(policies=",".join(policies) if policies else None)
    plans, text = run("plan", words, given=given)
    return [Plan(one, text) for one in plans] if isinstance(plans, list) else Plan(plans, text)


def explain(config: Config = None, /, *, validation: Rows | None = None, loss: Loss | None = None,
            **changes: Any) -> Explanation:  # fmt: skip
    """Lists every tensor that a training step saves for backward: why, and how it is held. Arguments as of `plan`."""
    given = Given(changes, validation, loss)
    return Explanation(*run("explain", words_of(config, given.changes), given=given))


def train(
    config: Config = None,
    /,
    *,
    on_step: Callback | None = None,
    on_epoch: Callback | None = None,
    resume: PathLike | Run | None = None,
    overwrite: bool = False,
    progress: bool = True,
    validation: Rows | None = None,
    loss: Loss | None = None,
    **changes: Any,
) -> Run:
    """Trains or fine-tunes, and returns the run.

    on_step and on_epoch get a dictionary after each step (`step`, `loss`, `lr`, `memory`, `peak` in bytes, `seconds`)
    and each evaluation (`epoch`, `train_loss`, `val_loss`, metrics). What they raise ends the run after the step, as
    KeyboardInterrupt does: a checkpoint is saved first, and `resume=folder` goes on from there. overwrite: replace the
    run that the folder (`output={"dir": …}`) holds.

    data: a key, or samples of one's own: a sequence of dictionaries of arrays by field, with a sequence for validation
    beside it. u8 [H, W, C] is an image, a whole number a class (`**{"data.classes": 10}` says how many), whole numbers
    [L] of any length tokens. loss: a function of the model's outputs and the batch's other fields, both dictionaries of
    `Tensor`, to a Tensor of one element; it is called for planning too, where tensors hold no values.
    """
    listener = Listener(progress, on_step, on_epoch)
    given = Given(changes, validation, loss)
    run("train", words_of(config, given.changes) + _options(resume=resume, overwrite=overwrite), listener, given)
    return Run(listener.folder)


def evaluate(model: PathLike | Run | None = None, /, *, config: PathLike | None = None, progress: bool = False,
             validation: Rows | None = None, loss: Loss | None = None, **changes: Any) -> dict[str, Any]:  # fmt: skip
    """Evaluates a run (its best checkpoint), a checkpoint or a folder with a model: loss and metrics by name.

    config: a configuration file in place of the run's, whose model.from names the weights. data,
    validation and loss as of `train`: a run on samples or by a loss of one's own needs them again.
    """
    words = [] if model is None else [os.fspath(model)]
    given = Given(changes, validation, loss)
    return run("eval", words + words_of(config, given.changes), Listener(progress), given)[0]


class _Lines(Listener):
    """Takes lines of JSON that a command prints."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[dict[str, Any]] = []

    def print(self, text: str) -> None:
        self.values += map(json.loads, text.splitlines())


def predict(model: PathLike | Run, inputs: str | PathLike | Sequence[str | PathLike], /, *, top: int | None = None,
            max_length: int | None = None, pairs: bool = False,
            base: PathLike | None = None) -> list[dict[str, Any]]:  # fmt: skip
    """Predictions for pictures (files, folders, archives) or texts, a dictionary for each.

    top: classes that are listed; max_length: tokens that are read of a text; pairs: each input is two texts with a
    tab between them.
    """
    lines = _Lines()
    several = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    options = _options(top=top, max_length=max_length, pairs=pairs, base=base)
    run("predict", [os.fspath(model), "--json", *options, "--", *map(os.fspath, several)], lines)
    return lines.values


def generate(model: PathLike | Run, prompts: str | Sequence[str], /, *, chat: bool = False, system: str | None = None,
             sample: bool = False, greedy: bool = False, max_new_tokens: int | None = None,
             temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
             min_p: float | None = None, repetition_penalty: float | None = None, seed: int | None = None,
             stop: Sequence[str] = (), base: PathLike | None = None) -> list[dict[str, Any]]:  # fmt: skip
    """Goes on with texts, or answers them (chat); a dictionary for each prompt. Options as of `lacuna generate`."""
    options = _options(
        chat=chat, system=system, sample=sample, greedy=greedy, max_new_tokens=max_new_tokens, temperature=temperature,
        top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, seed=seed, base=base,
    )  # fmt: skip
    for token in stop:
        options += ["--stop", token]
    several = [prompts] if isinstance(prompts, str) else list(prompts)
    return run("generate", [os.fspath(model), *options, "--", *several])[0]


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
