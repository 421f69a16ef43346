"""Ctrl-C ends each command before its work is done: all of it would take minutes."""

import contextlib
import os
import signal
import threading

import lacuna
import pytest


@contextlib.contextmanager
def interrupted(monkeypatch):
    """Ctrl-C comes while the extension works: not in the Python code before it."""
    core_run = lacuna._core.run

    def run(*given):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        return core_run(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(lacuna._core, "run", run)
        yield


class Endless:
    """Images, many times; Ctrl-C comes with one of them."""

    def __len__(self):
        return 10**7

    def __getitem__(self, index):
        if index == 100:
            os.kill(os.getpid(), signal.SIGINT)
        return {"images": lacuna.Tensor([[[index % 256] * 3] * 16] * 16).to("u8"), "labels": index % 10}


def test_plan(small):
    calls = []

    def loss(outputs, targets):
        calls.append(0)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return lacuna.ops.cross_entropy(outputs["logits"], targets["labels"])

    with pytest.raises(KeyboardInterrupt):
        lacuna.plan(small, loss=loss, memory={"policy": "auto", "budget": "1GiB"})
    assert len(calls) == 2


def test_evaluate(small, tmp_path):
    run = lacuna.train(small, output={"dir": tmp_path / "run"}, progress=False)
    files = sorted(os.listdir(run))
    with pytest.raises(KeyboardInterrupt):
        lacuna.evaluate(run, data=Endless(), validation=Endless(), **{"data.classes": 10})
    assert sorted(os.listdir(run)) == files


def test_predict(small, tmp_path, monkeypatch):
    run = lacuna.train(small, output={"dir": tmp_path / "run"}, progress=False)
    picture = tmp_path / "picture.ppm"
    picture.write_bytes(b"P6 16 16 255\n" + bytes(16 * 16 * 3))
    with interrupted(monkeypatch):
        lacuna.predict(run, [picture] * 10**6)


def test_generate(decoder, monkeypatch):
    with interrupted(monkeypatch):
        lacuna.generate(decoder, ["hello"] * 10**6, max_new_tokens=20)


def test_sweep(small, tmp_path, monkeypatch):
    (tmp_path / "small.yaml").write_text("\n".join(f"{name}: {values}" for name, values in small.items()))
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(
        "command: train\nconfig: small.yaml\ngrid: {train.epochs: [1, 100000]}\n"
        f"output: {{dir: {tmp_path / 'out'}}}\n"
    )
    with interrupted(monkeypatch):
        lacuna.sweep(sweep, progress=False)
    assert (tmp_path / "out" / "sweep.html").exists()
    assert not list((tmp_path / "out" / "cases").glob("*.result"))


def test_waiting_for_a_run_of_another_thread(small, tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def hold(line):
        begun.set()
        go_on.wait()

    thread = threading.Thread(target=lacuna.train, args=(small,), kwargs={"on_step": hold, "output": {"dir": tmp_path}})
    thread.start()
    begun.wait()
    with interrupted(monkeypatch):
        lacuna.plan(small)
    go_on.set()
    thread.join()
    assert lacuna.Run(tmp_path).metrics["steps"] == 4
