"""The commands as functions. They work in this process; the lock of the interpreter is free meanwhile."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, overload

from ._call import Given, Listener, run, words_of
from ._core import Error, Tensor
from ._messages import in_python
from ._progress import in_notebook
from ._values import Evaluation, Explanation, Plan, Plans, Report, Run, Sweep

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


def _with_page(name: str, words: list[str], given: Given | None = None) -> tuple[Any, str, str]:
    """The result of a command, its text, and the page that it writes into the file after `words`."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "page.html")
        value, text = run(name, [*words, file], given=given)
        with open(file, encoding="utf-8") as page:
            return value, text.replace(f"\n{file}\n", ""), page.read()


@overload
def plan(config: Config = None, /, *, policies: None = None, timeline: bool | None = None,
         validation: Rows | None = None, loss: Loss | None = None, **changes: Any) -> Plan: ...  # fmt: skip
@overload
def plan(config: Config = None, /, *, policies: Sequence[str], timeline: bool | None = None,
         validation: Rows | None = None, loss: Loss | None = None, **changes: Any) -> Plans: ...  # fmt: skip
def plan(config: Config = None, /, *, policies: Sequence[str] | None = None, timeline: bool | None = None,
         validation: Rows | None = None, loss: Loss | None = None, **changes: Any) -> Plan | Plans:  # fmt: skip
    """Predicts the memory of training, in bytes, from one step that computes nothing.

    config: a path, a dictionary or YAML text; changes: keys of a configuration, as on the command line. policies:
    memory policies to compare, as `["keep", "exact", "fixed:4"]`; then the result is a list. timeline: whether the
    result draws memory over the step; notebooks do. data, validation, loss as of `train`.

    Raises Error for keys and values that are wrong, and where no plan fits `memory.budget`.
    """
    given = Given(config, changes, validation, loss)
    compared = [policies] if isinstance(policies, str) else policies
    words = given.words() + _options(policies=",".join(compared) if compared else None)
    page = ""
    if in_notebook() if timeline is None else timeline:
        plans, text, page = _with_page("plan", [*words, "--timeline"], given)
    else:
        plans, text = run("plan", words, given=given)
    if policies is None:
        return Plan(plans, text, page)
    return Plans([Plan(one, text) for one in (plans if isinstance(plans, list) else [plans])], text, page)


def explain(config: Config = None, /, *, validation: Rows | None = None, loss: Loss | None = None,
            **changes: Any) -> Explanation:  # fmt: skip
    """Lists every tensor that a training step saves for backward: why, and how it is held. Arguments and errors as of
    `plan`."""
    given = Given(config, changes, validation, loss)
    return Explanation(*run("explain", given.words(), given=given))


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

    data: a key, or samples of one's own: a sequence of dictionaries of arrays by field, with one for validation beside
    it. u8 [H, W, C] is an image, a whole number a class (`**{"data.classes": 10}` says how many), whole numbers [L] of
    any length tokens. loss: a function of the model's outputs and the batch's other fields, both dictionaries of
    `Tensor`, to a Tensor of one element; it is called for planning too, where tensors hold no values. progress: show
    it, and a line for each evaluation.

    Raises Error for what is wrong with the configuration, the data or the model, before the folder is touched.
    """
    listener = Listener(progress, on_step, on_epoch)
    given = Given(config, changes, validation, loss)
    run("train", given.words() + _options(resume=resume, overwrite=overwrite), listener, given)
    return Run(listener.folder)


def evaluate(model: PathLike | Run | None = None, /, *, config: PathLike | None = None, progress: bool = False,
             validation: Rows | None = None, loss: Loss | None = None, **changes: Any) -> Evaluation:  # fmt: skip
    """Evaluates a run (its best checkpoint), a checkpoint or a folder with a model: loss and metrics by name.

    config: a configuration file in place of the run's, whose model.from names the weights. data, validation and loss
    as of `train`: a run on samples or by a loss of one's own needs them again. progress: show it.

    Raises Error where the folder holds no model, or the data does not fit it.
    """
    words = [] if model is None else [os.fspath(model)]
    given = Given(config, changes, validation, loss)
    return Evaluation(*run("eval", words + given.words(), Listener(progress), given))


class _Lines(Listener):
    """Takes lines of JSON that a command prints, and what it says of inputs that it cannot read."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[dict[str, Any]] = []
        self.said = ""

    def print(self, text: str) -> None:
        self.values += map(json.loads, filter(None, text.split("\n")))

    def warn(self, text: str) -> None:
        self.said += in_python(text)


def predict(model: PathLike | Run, inputs: str | PathLike | Sequence[str | PathLike], /, *, top: int | None = None,
            max_length: int | None = None, pairs: bool = False,
            base: PathLike | None = None) -> list[dict[str, Any]]:  # fmt: skip
    """Predictions for pictures (files, folders, archives) or texts, a dictionary for each: `image` or `text`, `label`,
    `probability` and further keys of the task. `Model` takes arrays.

    top: classes that are listed, 5 unless given; max_length: tokens that are read of a text, the rest is cut off;
    pairs: each input is two texts with a tab between them; base: where the base of an adapter lies now.

    Raises Error that names the inputs that cannot be read.
    """
    lines = _Lines()
    several = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    for one in several:
        if not isinstance(one, (str, os.PathLike)):
            kind = type(one).__name__
            raise Error(f"expected paths of pictures, or texts, got {kind}: lacuna.Model(folder) takes arrays")
    if not several:
        return []
    options = _options(top=top, max_length=max_length, pairs=pairs, base=base)
    try:
        run("predict", [os.fspath(model), "--json", *options, "--", *(os.fspath(one) for one in several)], lines)
    except Error as error:
        raise Error(lines.said.replace("lacuna: ", "") + str(error)) from None
    sys.stderr.write(lines.said)
    return lines.values


def generate(model: PathLike | Run, prompts: str | Sequence[str], /, *, chat: bool = False, system: str | None = None,
             sample: bool = False, greedy: bool = False, max_new_tokens: int | None = None,
             temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
             min_p: float | None = None, repetition_penalty: float | None = None,
             no_repeat_ngram_size: int | None = None, seed: int | None = None, stop: Sequence[str] = (),
             base: PathLike | None = None) -> list[dict[str, Any]]:  # fmt: skip
    """Goes on with texts, or answers them (chat); a dictionary for each prompt: `prompt`, `text`, `ids`, `ended_by`.

    chat: render prompts by the tokenizer's template, with the turn `system` first. sample: draw tokens; greedy: take
    the likeliest. max_new_tokens: 256 unless generation_config.json says otherwise. temperature, top_k, top_p, min_p:
    as in transformers; each draws. seed: of the draws, 1 unless given. stop: tokens that end a text, by their texts.

    Raises Error for models that are no language models, and for prompts that are longer than the model reads.
    """
    options = _options(
        chat=chat, system=system, sample=sample, greedy=greedy, max_new_tokens=max_new_tokens, temperature=temperature,
        top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        no_repeat_ngram_size=no_repeat_ngram_size, seed=seed, base=base,
    )  # fmt: skip
    for token in [stop] if isinstance(stop, str) else stop:
        options += ["--stop", token]
    several = [prompts] if isinstance(prompts, str) else list(prompts)
    if not several:
        return []
    made: list[dict[str, Any]] = run("generate", [os.fspath(model), *options, "--", *several])[0]
    return made


def export(model: PathLike | Run, out: PathLike, /, *, format: str | None = None, dtype: str | None = None,
           base: PathLike | None = None, adapter: bool = False) -> dict[str, Any]:  # fmt: skip
    """Writes a model as a folder of timm or transformers (format), or its adapter alone as one of PEFT. Returns what
    was written.

    out: a folder that does not exist; dtype: `f32`, `bf16` or `f16`; base: where the base of an adapter lies now.
    """
    options = _options(format=format, dtype=dtype, base=base, adapter=adapter)
    written: dict[str, Any] = run("export", [os.fspath(model), os.fspath(out), *options])[0]
    return written


def sweep(file: PathLike, /, *, jobs: int | None = None, progress: bool = True, **changes: Any) -> Sweep:
    """Runs a command over the cases of a sweep file (docs/runs.md), each in a process of its own; the same call
    continues it.

    jobs: cases that run at the same time, 1 unless given; changes: keys for all cases, as `output={"dir": …}`.

    Raises Error for a wrong sweep file; what a case says is in its `error`. KeyboardInterrupt lets cases save.
    """
    listener = Listener(progress)
    value, text = run("sweep", ["-c", os.fspath(file), *words_of(None, changes), *_options(jobs=jobs)], listener)
    return Sweep(value, text, listener.folder)


def report(runs: PathLike | Run | Sequence[PathLike | Run], output: PathLike | None = None) -> Report:
    """Draws runs, finished or not, as one page: a file, which notebooks show. output: where, by default report.html in
    the folder of a single run, or here."""
    _, text = run("report", [*_folders(runs), *_options(output=output)])
    return Report(text.rstrip("\n").split("\n")[-1])


def page_of_runs(runs: PathLike | Run | Sequence[PathLike | Run]) -> str:
    """The same page as text."""
    return _with_page("report", [*_folders(runs), "--output"])[2]


def _folders(runs: PathLike | Run | Sequence[PathLike | Run]) -> list[str]:
    if isinstance(runs, (str, os.PathLike, Run)):
        return [os.fspath(runs)]
    return [os.fspath(one) for one in runs]
