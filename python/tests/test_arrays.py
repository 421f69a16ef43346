"""Arrays and lists that become Tensors, and Tensors that become arrays."""

import ctypes

import lacuna
import pytest

numpy = pytest.importorskip("numpy")


def refused(match, array):
    with pytest.raises(lacuna.Error, match=match):
        lacuna.Tensor(array)


def test_lists_hold_numbers_of_libraries():
    assert lacuna.Tensor([numpy.array(1.5), 2]).tolist() == [1.5, 2]
    assert lacuna.Tensor([numpy.array(3)]).dtype == "i64"
    assert lacuna.Tensor([numpy.bool_(True)]).tolist() == [1]
    refused("ndarray", [numpy.array([1.5])])


def test_lists_that_are_no_array_are_refused():
    endless = []
    endless.append(endless)
    refused("6 axes", endless)
    refused("6 axes", [[[[[[[1]]]]]]])
    refused("list", [1, [2]])
    refused("list", [1.0, 2.0, [3.0]])
    refused("1e.?300", [1e300])
    assert lacuna.Tensor([[[[[[1]]]]]]).shape == (1, 1, 1, 1, 1, 1)
    assert lacuna.Tensor([[], []]).shape == (2, 0)
    assert lacuna.Tensor([float("inf")]).tolist() == [float("inf")]


def test_a_tensor_of_a_tensor_is_a_copy():
    first = lacuna.Tensor([1.0, 2.0])
    lacuna.Tensor(first).numpy()[:] = 0
    assert first.tolist() == [1, 2]


def test_a_tensor_has_entries():
    tensor = lacuna.Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(tensor) == 2 and tensor[-1].tolist() == [3, 4]
    assert [entry.tolist() for entry in tensor] == tensor.tolist()
    with pytest.raises(IndexError):
        tensor[2]
    with pytest.raises(TypeError):
        len(lacuna.Tensor(1.0))


def test_numpy_lacks_bf16():
    half = lacuna.Tensor([1.0, 2.0]).to("bf16")
    for taken in (half.numpy, lambda: numpy.asarray(half), lambda: numpy.asarray(half, dtype="f4")):
        with pytest.raises(lacuna.Error, match="bf16"):
            taken()
    assert half.tolist() == [1, 2]
    assert numpy.asarray(half.to("f32"), dtype="f8").dtype == numpy.float64
    assert half.to("f32").__array__("f8").tolist() == [1, 2]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


def test_integers_of_four_bits_are_refused():
    values, shape = ctypes.create_string_buffer(4), (ctypes.c_int64 * 1)(8)
    tensor = DLTensor(ctypes.addressof(values), (1, 0), 1, 0, 4, 1, shape)

    class Packed:
        def __dlpack__(self, **options):
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
            return new(ctypes.addressof(tensor), b"dltensor", None)

        def __dlpack_device__(self):
            return (1, 0)

    refused("4 bits", Packed())
    tensor.bits = 8
    assert lacuna.Tensor(Packed()).shape == (8,)


def test_an_object_with_axes_is_no_number():
    class Series:
        ndim, dtype = 1, "float64"

        def item(self):
            raise ValueError("of several elements")

    refused("array: .*Series", Series())
