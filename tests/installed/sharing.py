"""Checks that the Python module shares memory with NumPy both ways, keeps it alive, and reports errors."""
import copy
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
import types
import weakref

import gradus
import numpy as np


def refused(kind, text, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as error:
        assert text in str(error), f"expected {text!r} in {str(error)!r}"
    else:
        raise AssertionError(f"expected {kind.__name__}: {text}")


def shares():
    for dtype in (np.float32, np.float64, np.int64, bool):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        tensor = gradus.Tensor(array)
        assert tensor.shape == (2, 3) and tensor.dtype == np.dtype(dtype).name
        seen = np.asarray(tensor)
        assert seen.dtype == array.dtype and seen.ctypes.data == array.ctypes.data
        seen[1, 2] = 0
        assert not array[1, 2]
        array[0, 0] = 1
        assert seen[0, 0] == 1
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (array[1:, ::2], array.T, array[2], array[:0], array[0, :1].reshape(()), array[:, None]):
        assert np.array_equal(gradus.Tensor(view), view)
    turned = gradus.op("transpose", array).numpy()
    turned[5, 1] = -1
    assert array[1, 5] == -1
    unaligned = np.frombuffer(bytes(1) + array.tobytes(), np.float32, offset=1)
    fields = np.zeros(5, [("byte", "u1"), ("x", "<f4")])["x"]  # strides of 5 bytes
    for view in (array[::-1], array[:, ::-1], array[::2, ::-2], unaligned, fields):
        copied = gradus.copy(view)
        assert np.array_equal(copied, view) and not np.shares_memory(copied.numpy(), view)
        refused((ValueError, gradus.Error), "", gradus.Tensor, view)
    copied = gradus.copy(array)
    array[0, 0] = 99
    assert copied.numpy()[0, 0] == 0
    weight = gradus.Sequential("linear 2 3").parameters()["0.weight"]
    weight.numpy()[:] = 0
    assert np.count_nonzero(weight) == 0


def takes_scalars():
    for made in (gradus.Tensor, gradus.copy):
        tensor = made(np.float32(3))
        others = [np.array(7, np.float32) for _ in range(8)]
        assert tensor.item() == 3 and others

    class Bytes:  # as Pillow's images show themselves
        __array_interface__ = {"version": 3, "typestr": "|b1", "shape": (2,), "data": b"\1\0"}
    for made in (gradus.Tensor, gradus.copy):
        refused(TypeError, "shows no address of its elements", made, Bytes())


def reflects():
    array = np.array([1, 2], np.float32)
    for combine, expected in ((lambda a, b: a + b, 1), (lambda a, b: a - b, -1), (lambda a, b: a * b, [1, 2]),
                              (lambda a, b: a / b, [-1 / 16, -2 / 16])):
        tensor = gradus.Tensor(np.array([4, 4], np.float32)).requires_grad_()
        result = combine(array, tensor)
        assert isinstance(result, gradus.Tensor)
        assert np.array_equal(result, combine(array, np.array([4, 4], np.float32)))
        gradus.op("sum", result).backward()
        assert np.allclose(np.asarray(tensor.grad), expected)
    row = gradus.Tensor(np.eye(2, dtype=np.float32))
    assert np.array_equal(array.reshape(1, 2) @ row, array.reshape(1, 2))


def computes():
    x, y = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 9]], np.float32)
    a, b = gradus.copy(x), gradus.copy(y)
    for found, expected in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y), (a @ b, x @ y), (-a, -x)):
        assert np.allclose(found, expected)


def lives():
    array = np.ones(1000, np.float32)
    gone = weakref.ref(array)
    tensor = gradus.Tensor(array)
    del array
    assert gone() is not None
    total = (tensor * tensor.requires_grad_()).reshape(10, 100)
    loss = gradus.op("sum", total)
    del tensor, total
    assert gone() is not None  # the graph holds it
    loss.backward()
    del loss
    gc.collect()
    assert gone() is None and not gradus._shared
    view = gradus.op("add", np.ones(3, np.float32), np.ones(3, np.float32)).numpy()[1:]
    gc.collect()
    assert np.array_equal(view, [2, 2])  # the array holds the tensor
    again = gradus.Tensor(gradus.Tensor(view).numpy())
    again.numpy()[0] = 7
    assert view[0] == 7
    refused(gradus.Error, "expected strides >= 0", gradus.Tensor, np.ones(3)[::-1])
    assert len(gradus._shared) == 2


def refuses():
    refused(TypeError, "elements of float32, float64, int64, bool, got <i4", gradus.Tensor, np.ones(3, np.int32))
    refused(TypeError, "expected a Tensor or a NumPy array, got list", gradus.Tensor, [1.0])
    refused(ValueError, "read-only", gradus.Tensor, np.broadcast_to(np.ones(2), (3, 2)))
    refused(ValueError, "not whole elements", gradus.Tensor, np.zeros(2, "f8,i4")["f0"])
    refused(ValueError, "at most 8 axes", gradus.Tensor, np.ones([1] * 9))
    refused(gradus.Error, "matmul: ", gradus.op, "matmul", np.ones((2, 3)), np.ones((2, 3)))
    refused(gradus.Error, "nowhere", gradus.load, "/nowhere")
    refused(gradus.Error, "expected layers", gradus.Sequential, "")
    for owner in (gradus.Tensor(np.ones(2)), gradus.Sequential("linear 2 2")):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            refused(TypeError, f"a {type(owner).__name__} cannot be copied or pickled", copied, owner)


def modes_and_files():
    net = gradus.Sequential("linear 2 2, dropout 0.5")
    x = np.ones((50, 2), np.float32)
    with gradus.eval_mode(), gradus.no_grad():
        assert np.array_equal(net(x), net(x))
        refused(gradus.Error, "", gradus.op("sum", net(x)).backward)
    assert not np.array_equal(net(x), net(x))
    gradus.op("sum", net(x)).backward()
    weight = net.parameters()["0.weight"]
    assert weight.grad is not None
    net.zero_grad()
    assert weight.grad is None
    with gradus.no_grad():
        with gradus.no_grad():
            pass
        refused(gradus.Error, "", gradus.op("sum", net(x)).backward)  # still off
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.safetensors")
        refused(ValueError, "character 0", net.save, path + "\0")
        net.save(path)
        other = gradus.Sequential("linear 2 2")
        other.load(path)
    assert np.array_equal(other.parameters()["0.weight"], weight)


def generates(folder):
    model, tokenizer = gradus.load(folder), gradus.Tokenizer(folder)
    prompt = tokenizer.encode("int")
    assert tokenizer.decode(prompt) == "int"
    ids = model.generate(prompt, tokens=9, seed=3, vocab=len(tokenizer))
    assert model.generate(prompt, tokens=9, temperature=0) == model.generate(prompt, tokens=9, top_k=1, seed=5)
    assert len(ids) == 9 and ids == model.generate(prompt, tokens=9, seed=3, vocab=len(tokenizer))
    seen = []
    assert len(model.generate(prompt, lambda i: seen.append(i) or len(seen) == 4)) == 4
    for stop, most in ((np.bool_(True), 1), (np.bool_(False), 9), (1, 9), ("text", 9)):
        assert len(model.generate(prompt, lambda i: stop, tokens=9)) == most
    refused(ZeroDivisionError, "", model.generate, prompt, lambda i: 1 / 0)
    refused(TypeError, "unknown option 'token'", model.generate, prompt, token=3)

    def interrupt(_):
        os.kill(os.getpid(), signal.SIGINT)

    refused(KeyboardInterrupt, "", model.generate, prompt, interrupt)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)  # arrives while the library computes a token
    refused(KeyboardInterrupt, "", model.generate, prompt, tokens=10**9)


def interrupts_threads(folder):
    model, prompt = gradus.load(folder), gradus.Tokenizer(folder).encode("int")
    first_runs, second_runs, first_ended = (threading.Event() for _ in range(3))
    hook, found = sys.unraisablehook, []

    def first(_):
        first_runs.set()
        assert second_runs.wait(60)
        trace = types.TracebackType(None, sys._getframe(1), 0, 1)  # as if the callback had just been entered
        sys.unraisablehook(types.SimpleNamespace(object=None, exc_value=KeyboardInterrupt(), exc_traceback=trace))

    def second(_):
        second_runs.set()
        assert first_ended.wait(60)

    def run_second():
        assert first_runs.wait(60)
        found.extend(model.generate(prompt, second, tokens=1))

    thread = threading.Thread(target=run_second)
    thread.start()
    refused(KeyboardInterrupt, "", model.generate, prompt, first, tokens=1)
    first_ended.set()
    thread.join()
    assert len(found) == 1 and sys.unraisablehook is hook


def keeps_numbers(folder):
    """Numbers that C's types do not hold are refused, not cut."""
    model, tokenizer = gradus.load(folder), gradus.Tokenizer(folder)
    prompt = tokenizer.encode("int")
    beyond = lambda call, *arguments, **options: refused(OverflowError, "number from ", call, *arguments, **options)
    beyond(tokenizer.decode, [2**64])
    beyond(gradus.copy(np.ones(6)).reshape, 2**64 + 3, 2)
    beyond(gradus.set_threads, 2**32 + 1)
    beyond(gradus.seed, 2**64)
    beyond(gradus.seed, -1)
    beyond(model.generate, [2**64 + i for i in prompt], tokens=1)
    beyond(model.generate, prompt, tokens=2**64)
    beyond(model.generate, prompt, tokens=1, seed=2**64)
    gradus.seed(2**64 - 1)
    assert len(model.generate(prompt, tokens=1, seed=2**64 - 1, temperature=1)) == 1


shares()
takes_scalars()
reflects()
computes()
lives()
refuses()
modes_and_files()
generates(sys.argv[1])
interrupts_threads(sys.argv[1])
keeps_numbers(sys.argv[1])
