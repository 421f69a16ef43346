"""The notebooks of examples/, run where small files have the names of a user's."""

import ast
import json
import pathlib
import random

import lacuna
import pytest

examples = pathlib.Path(__file__).parents[2] / "examples"


def write_model(folder, place):
    """A BERT of two small layers under MiniLM's name."""
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a film fine good great dull bad poor one this is".split()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    run = lacuna.train(
        model={"name": "bert", **sizes, "vocab_size": len(words), "max_position_embeddings": 64},
        data={"name": "random_tokens", "train_size": 16, "val_size": 4, "length": 12, "vocabulary": len(words)},
        batch_size=4, epochs=1, output={"dir": place / "drawn"}, progress=False,
    )  # fmt: skip
    lacuna.export(run, folder, format="transformers")
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


def write_table(file):
    drawn = random.Random(0)
    with open(file, "w") as table:
        table.write("text,label\n")
        for _ in range(200):
            label = drawn.choice(["negative", "positive"])
            word = drawn.choice({"negative": ["dull", "bad", "poor"], "positive": ["fine", "good", "great"]}[label])
            table.write(f"this is a {word} film {drawn.choice(['one', 'a', 'this'])},{label}\n")


def write_pictures(folder):
    drawn = random.Random(0)
    for split, count in (("train", 16), ("val", 8)):
        for number in range(10):
            for i in range(count // 8):
                picture = folder / split / f"class{number}" / f"{i}.ppm"
                picture.parent.mkdir(parents=True, exist_ok=True)
                picture.write_bytes(b"P6 8 8 255\n" + bytes(drawn.randrange(25 * number + 1) for _ in range(8 * 8 * 3)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("examples")
    write_model(place / "all-MiniLM-L6-v2", place)
    write_table(place / "reviews.csv")
    write_pictures(place / "PICTURES")
    return place


@pytest.mark.parametrize("notebook", sorted(examples.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, place, monkeypatch):
    monkeypatch.chdir(place)
    names = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        shown = run_cell("".join(cell["source"]), names)
        if hasattr(shown, "_repr_html_"):
            assert "</table>" in shown._repr_html_() or "</iframe>" in shown._repr_html_()


def run_cell(source, names):
    """The value of a cell's last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
