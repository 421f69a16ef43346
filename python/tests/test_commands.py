import os
import signal
import subprocess
import sys
import threading
import time

import lacuna
import pytest


def test_import_is_quick():
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import lacuna"], check=True)
    with_lacuna = time.perf_counter() - start
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import json"], check=True)
    assert with_lacuna - (time.perf_counter() - start) < 1
    loaded = "import lacuna, sys; sys.exit(any(name in sys.modules for name in ('numpy', 'torch', 'IPython')))"
    assert subprocess.run([sys.executable, "-c", loaded]).returncode == 0


def test_a_plan_takes_dictionaries_text_and_files(small, tmp_path):
    plan = lacuna.plan(small)
    assert plan.saved == plan["saved"] > 0
    assert plan.parameters == 4 * plan.json["parameters"]
    assert plan.peak <= sum(plan[name] for name in plan if name != "peak")
    assert str(plan.json["parameters"]) in str(plan)
    assert "<table>" in plan._repr_html_()

    text = "\n".join(f"{section}: {dict(values)}" for section, values in small.items())
    file = tmp_path / "small.yaml"
    file.write_text(text)
    assert dict(lacuna.plan(text)) == dict(lacuna.plan(file)) == dict(lacuna.plan(str(file))) == dict(plan)
    assert dict(lacuna.plan(**small)) == dict(plan)


def test_changes_are_keys_of_the_command_line(small):
    assert lacuna.plan(small, batch_size=16).json["batch_size"] == 16
    assert lacuna.plan(small, **{"train.batch_size": 8}).json["batch_size"] == 8
    assert lacuna.plan(small, memory={"policy": "fixed", "bits": 2}).saved < lacuna.plan(small).saved
    assert lacuna.plan(model="resnet18").json["model"] == "resnet18"
    keep, exact = lacuna.plan(small, policies=["keep", "exact"])
    assert keep.saved > exact.saved
    assert [plan.saved for plan in lacuna.plan(small, policies="keep")] == [keep.saved]


def test_explain_lists_what_is_saved(small):
    explanation = lacuna.explain(small)
    assert sum(slot["bytes"] for slot in explanation["slots"]) == explanation["saved"] == lacuna.plan(small).saved
    assert "<table>" in explanation._repr_html_()


def test_wrong_input_is_an_error_that_names_it(small):
    with pytest.raises(lacuna.Error, match="bach_size"):
        lacuna.plan(small, bach_size=3)
    with pytest.raises(lacuna.Error, match="nowhere.yaml"):
        lacuna.plan("nowhere.yaml")
    with pytest.raises(lacuna.Error, match="depth"):
        lacuna.plan(model={"name": "vit", "depth": -1})
    with pytest.raises(TypeError):
        lacuna.plan(small, epochs=object())


def test_a_run_has_figures_and_calls_back(small, tmp_path):
    steps, epochs = [], []
    run = lacuna.train(small, on_step=steps.append, on_epoch=epochs.append, output={"dir": tmp_path / "run"})
    assert [line["step"] for line in steps] == [1, 2, 3, 4]
    assert len(epochs) == 1 and epochs[0]["val_loss"] == run.metrics["val_loss"]
    assert run.history == [*steps, *epochs]
    assert run.best["value"] == run.metrics["val_accuracy"]
    assert "<table>" in run._repr_html_()
    assert lacuna.evaluate(run)["val_loss"] == pytest.approx(run.metrics["val_loss"], rel=1e-6)
    lacuna.export(run, tmp_path / "out", dtype="bf16")
    assert (tmp_path / "out" / "config.json").exists()
    assert "<iframe" in lacuna.report([run])._repr_html_()
    with pytest.raises(lacuna.Error, match=str(tmp_path / "run")):
        lacuna.train(small, output={"dir": tmp_path / "run"})


def test_what_a_callback_raises_saves_and_ends_the_run(small, tmp_path):
    def stop(line):
        if line["step"] == 2:
            raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        lacuna.train(small, on_step=stop, output={"dir": tmp_path})
    steps = []
    run = lacuna.train(resume=tmp_path, on_step=steps.append)
    assert [line["step"] for line in steps] == [3, 4]
    assert run.metrics["steps"] == 4


def test_an_interrupt_saves(small, tmp_path):
    seen = []

    def interrupt(line):
        seen.append(line["step"])
        if len(seen) == 1:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        lacuna.train(small, on_step=interrupt, epochs=100000, output={"dir": tmp_path})
    assert lacuna.Run(tmp_path).metrics["stopped"]
    assert lacuna.Run(tmp_path).metrics["steps"] >= seen[-1]


def test_a_callback_has_the_signals_of_its_thread(small, tmp_path):
    seen = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        lacuna.train(small, on_epoch=lambda line: seen.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                     output={"dir": tmp_path})  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert seen == [before | {signal.SIGUSR1}]


def test_other_threads_run_meanwhile(small, tmp_path):
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(0)

    thread = threading.Thread(target=tick)
    thread.start()
    lacuna.train(small, epochs=5, output={"dir": tmp_path})
    done.set()
    thread.join()
    assert len(ticks) > 5


def test_a_callback_may_call_a_command(small, tmp_path):
    values = []
    lacuna.train(small, on_epoch=lambda line: values.append(lacuna.plan(small).saved), output={"dir": tmp_path})
    assert values == [lacuna.plan(small).saved]


def test_a_sweep_has_cases(small, tmp_path):
    (tmp_path / "small.yaml").write_text("\n".join(f"{name}: {values}" for name, values in small.items()))
    (tmp_path / "sweep.yaml").write_text(
        "command: plan\nconfig: small.yaml\ngrid: {memory.policy: [keep, exact]}\n"
        f"output: {{dir: {tmp_path / 'out'}}}\n"
    )
    sweep = lacuna.sweep(tmp_path / "sweep.yaml", progress=False)
    assert [case["overrides"]["memory.policy"] for case in sweep["cases"]] == ["keep", "exact"]
    assert "exact" in sweep._repr_html_()


def test_messages_name_arguments():
    from lacuna._messages import in_python

    text = "`lacuna train --resume runs/a data.broken=skip epochs=3` goes on; --max-length is for texts"
    assert in_python(text) == (
        "`lacuna.train(resume='runs/a', **{'data.broken': 'skip'}, epochs=3)` goes on; max_length= is for texts"
    )
    assert in_python("`lacuna predict RUN --top 5 pairs=true`") == "`lacuna.predict('RUN', top=5, pairs=True)`"
    for path in ("/tmp/--epochs/none.yaml", "--epochs/none.yaml", "--epochs.yaml"):
        assert in_python(f"cannot read {path}") == f"cannot read {path}"
    assert in_python("`lacuna eval RUN`, `lacuna models`") == "`lacuna.evaluate('RUN')`, `lacuna models`"
