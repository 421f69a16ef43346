"""Types for editors: of the package, and of what users write."""

import pathlib
import subprocess
import sys

import lacuna
import pytest

pytest.importorskip("mypy")

script = """
import lacuna

plan = lacuna.plan(model="resnet18", batch_size=2)
saved: int = plan.saved + plan["peak"]
first: lacuna.Plan = lacuna.plan("c.yaml", policies=["keep", "exact"])[0]


def loss(outputs: dict[str, lacuna.Tensor], targets: dict[str, lacuna.Tensor]) -> lacuna.Tensor:
    return lacuna.ops.cross_entropy(outputs["logits"], targets["labels"]) * 0.5


rows = [{"images": lacuna.Tensor([[0.5]]), "labels": 3}]
run = lacuna.train(model="resnet18", data=rows, validation=rows, loss=loss, on_epoch=lambda line: print(line["epoch"]))
shape: tuple[int, ...] = lacuna.Model(run).parameters["fc.weight"].shape
text: str = lacuna.evaluate(run)["model"]
"""


def test_the_package_and_scripts_have_complete_types(tmp_path):
    def errors(*arguments):
        package = pathlib.Path(lacuna.__file__).parents[1]
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *arguments]
        return subprocess.run(command, cwd=package, capture_output=True, text=True).stdout.count("error:")

    assert errors("-p", "lacuna") == 0
    (tmp_path / "script.py").write_text(script)
    assert errors(str(tmp_path / "script.py")) == 0
    (tmp_path / "script.py").write_text(script + "\nlacuna.plan(policies=3)\nsaved.wrong\nrun.folders\n")
    assert errors(str(tmp_path / "script.py")) == 3
