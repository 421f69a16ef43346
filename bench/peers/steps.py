"""What scripts of PyTorch's training steps share: the bytes that autograd keeps, and the line that they print."""
import resource
import statistics

import torch


def kept_bytes(owned, forward):
    """The bytes that autograd holds between the forward and the backward pass of `forward()`, which returns a loss: each
    storage once, without those of the tensors `owned`."""
    own = {tensor.untyped_storage().data_ptr() for tensor in owned}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = forward()
    loss.backward()
    return sum(kept.values())


def print_line(samples, seconds, kept):
    """`X samples/s best, Y median; kept K MiB; peak RSS P MiB`: `samples` a step, `seconds` of each step, `kept` bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{samples / min(seconds):.4f} samples/s best, {samples / statistics.median(seconds):.4f} median; "
          f"kept {kept / 2**20:.1f} MiB; peak RSS {peak:.0f} MiB")
