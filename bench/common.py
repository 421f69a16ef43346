"""What the scripts beside it share: the models they measure, and programs run one after the other."""
import argparse
import json
import pathlib
import re
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Model(typing.NamedTuple):
    configuration: str  # in configs/
    batch: int
    peer: str  # its name in timm, or that of a model of CIFAR's size, which timm has none of
    regions: str  # its blocks, as memory.recompute names them
    preset: str = ""  # in place of the configuration's model
    overrides: tuple = ()  # further ones


MODELS = {
    "deit_tiny": Model("deit_tiny.yaml", 16, "deit_tiny_patch16_224", "blocks.*"),
    "deit_small": Model("deit_small.yaml", 8, "deit_small_patch16_224", "blocks.*"),
    "vit_cifar": Model("cifar10_vit.yaml", 128, "vit_cifar", "blocks.*"),
    "resnet18_cifar": Model("cifar10_resnet18.yaml", 128, "resnet18_cifar", "layer?.*"),
    "resnet50": Model("resnet50.yaml", 16, "resnet50", "layer?.*"),
    "vit_base": Model("deit_tiny.yaml", 8, "vit_base_patch16_224", "blocks.*", "vit_base_patch16_224"),
    "swin_tiny": Model("deit_tiny.yaml", 8, "swin_tiny_patch4_window7_224", "layers.*.blocks.*",
                       "swin_tiny_patch4_window7_224"),
    "convnext_tiny": Model("deit_tiny.yaml", 8, "convnext_tiny", "stages.*.blocks.*", "convnext_tiny"),
    "vgg11_bn": Model("deit_tiny.yaml", 8, "vgg11_bn", "features.*", "vgg11_bn"),
    "mobilenetv3_large": Model("deit_tiny.yaml", 16, "mobilenet_v3_large", "blocks.*", "mobilenetv3_large_100"),
    "efficientnetv2_s": Model("deit_tiny.yaml", 8, "efficientnet_v2_s", "blocks.*", "efficientnetv2_s",
                              ("model.image_size=224",)),
    "fcn_resnet50": Model("segmentation/voc_fcn_resnet50.yaml", 2, "fcn_resnet50", "backbone.layer?.*", "",
                          ("data={name: shape_masks, image_size: 256, classes: 21}",)),
    "retinanet_resnet50_fpn": Model("detection/retinanet.yaml", 1, "retinanet_resnet50_fpn", "backbone.body.layer?.*", "",
                                    ("data={name: shape_boxes}", "model.image_size=320", "model.num_classes=90")),
    "bert_base": Model("bert_base.yaml", 8, "bert_base", "bert.encoder.layer.*"),
}


def parser(doc):
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def attempt(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def output_of(done):
    """What a program printed; ends this one where that one failed."""
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(done.args)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def run(*command):
    return output_of(attempt(*command))


def printed_by(pattern, *command):
    """The numbers that stand in `pattern`'s groups in what the program prints."""
    out = run(*command)
    found = re.search(pattern, out)
    if not found:
        raise SystemExit(f"{' '.join(map(str, command))}\nprinted nothing that matches `{pattern}`:\n{out[-2000:]}")
    return tuple(map(float, found.groups()))


def configured(configuration, batch, threads):
    """The arguments that name a configuration in f32; a script's own overrides come after them."""
    return ["-c", ROOT / "configs" / configuration, *overrides(batch, threads)]


def overrides(batch, threads):
    return [f"train.batch_size={batch}", "train.precision=f32", f"train.threads={threads}"]


def json_of(*command):
    return json.loads(run(*command, "--json", "-"))


def write_json(path, content):
    pathlib.Path(path).write_text(json.dumps(content, indent=2) + "\n")
