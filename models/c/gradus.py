"""gradus in Python: tensors that share memory with NumPy arrays, and models to load, run and train.

    import numpy, gradus
    model = gradus.Sequential("linear 2 16, tanh, linear 16 1")
    optimizer = gradus.Optimizer(model, "adamw lr=0.01")
    loss = gradus.mse_loss(model(x), y)      # x, y: NumPy arrays of float32
    loss.backward()
    optimizer.step()
    print(loss.item(), numpy.asarray(model(x)))

The module needs only libgradus.so. It imports NumPy in Tensor.numpy() alone. The library is the
file that the environment variable GRADUS_LIBRARY names; if it is not set, the library installed
with this module; if there is none, the library that the system's loader finds. Errors of the
library are raised as gradus.Error.
"""
import contextlib
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p

_SONAME = "libgradus.so.@abi@"
_DTYPES = ("<f4", "<f8", "<i8", "|b1")  # in the order of gradus_dtype
_NAMES = ("float32", "float64", "int64", "bool")


class Error(Exception):
    """An error of the library, with its message."""


class _Array(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("rank", c_int32), ("shape", c_int64 * 8),
                ("strides", c_int64 * 8)]


class _GenerateOptions(ctypes.Structure):
    _fields_ = [("tokens", c_int64), ("temperature", c_double), ("top_k", c_int64), ("top_p", c_double),
                ("seed", c_uint64), ("vocab", c_int64), ("stop_token", c_int64)]


def _installed():
    """Returns the path of the installed library for this processor's x86-64 level, as the system's
    loader would choose it, or None if there is none."""
    lib = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    flags = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as f:
        flags = set(next((line for line in f if line.startswith("flags")), "").split())
    levels = []
    if {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"} <= flags:
        levels = ["glibc-hwcaps/x86-64-v3"]
        if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
            levels.insert(0, "glibc-hwcaps/x86-64-v4")
    paths = [os.path.join(lib, level, _SONAME) for level in levels + [""]]
    return next(filter(os.path.exists, paths), None)


_release_type = ctypes.CFUNCTYPE(None, c_void_p)
_token_type = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
_lib = ctypes.CDLL(os.environ.get("GRADUS_LIBRARY") or _installed() or _SONAME)

_out = POINTER(c_void_p)
_SIGNATURES = {
    "set_threads": [c_int], "seed": [c_uint64], "grad_mode": [c_int], "eval_mode": [c_int],
    "tensor_copy": [POINTER(_Array), _out],
    "tensor_share": [POINTER(_Array), _release_type, c_void_p, _out],
    "tensor_free": [c_void_p], "tensor_array": [c_void_p, POINTER(_Array)],
    "tensor_item": [c_void_p, POINTER(c_double)],
    "tensor_reshape": [c_void_p, POINTER(c_int64), c_int, _out],
    "op": [c_char_p, _out, c_int, _out],
    "tensor_requires_grad": [c_void_p, c_int], "tensor_grad": [c_void_p, _out], "backward": [c_void_p],
    "sequential": [c_char_p, _out], "load": [c_char_p, _out], "module_free": [c_void_p],
    "module_run": [c_void_p, c_void_p, _out],
    "module_parameter_count": [c_void_p, POINTER(c_int64)],
    "module_parameter": [c_void_p, c_int64, POINTER(c_char_p), _out],
    "module_requires_grad": [c_void_p, c_int], "module_zero_grad": [c_void_p],
    "module_save": [c_void_p, c_char_p], "module_load": [c_void_p, c_char_p],
    "optimizer_new": [c_void_p, c_char_p, _out], "optimizer_free": [c_void_p],
    "optimizer_step": [c_void_p, c_double], "optimizer_zero_grad": [c_void_p],
    "optimizer_set_lr": [c_void_p, c_double],
    "tokenizer_load": [c_char_p, _out], "tokenizer_free": [c_void_p],
    "tokenizer_size": [c_void_p, POINTER(c_int64)],
    "tokenizer_encode": [c_void_p, c_char_p, POINTER(c_int64), c_int64, POINTER(c_int64)],
    "tokenizer_decode": [c_void_p, POINTER(c_int64), c_int64, c_char_p, c_int64, POINTER(c_int64)],
    "generate_defaults": [POINTER(_GenerateOptions)],
    "generate": [c_void_p, POINTER(c_int64), c_int64, POINTER(_GenerateOptions), _token_type, c_void_p],
}
for _name, _arguments in _SIGNATURES.items():
    getattr(_lib, "gradus_" + _name).argtypes = _arguments
    getattr(_lib, "gradus_" + _name).restype = None if _name.endswith("_free") else c_int
_lib.gradus_version.restype = _lib.gradus_last_error.restype = c_char_p

__version__ = _lib.gradus_version().decode()


def _call(name, *arguments):
    if getattr(_lib, "gradus_" + name)(*arguments) != 0:
        raise Error(_lib.gradus_last_error().decode(errors="replace"))


def _made(name, *arguments):
    """Calls a function whose last argument receives a handle. Returns the handle, or None if it is
    null."""
    out = c_void_p()
    _call(name, *arguments, byref(out))
    return out.value


def _text(given):
    """Returns the bytes of a string or path as an argument for C, where the character 0 would end it."""
    if b"\0" in (data := os.fsencode(given)):
        raise ValueError(f"expected a text without the character 0, which ends a C string, got {given!r}")
    return data


def _whole(value, kind=c_int64):
    """Returns the integer `value`. Raises OverflowError if the C type `kind` does not hold it, where
    ctypes would pass its low bits."""
    if kind(value).value != value:
        bits = 8 * ctypes.sizeof(kind)
        least = min(kind(1 << (bits - 1)).value, 0)
        raise OverflowError(f"gradus: expected a number from {least} to {least + (1 << bits) - 1}, got {value}")
    return value


def _wholes(values):
    """Returns the integers as a C array of int64. Raises OverflowError if one does not fit."""
    return (c_int64 * len(values))(*map(_whole, values))


class _Handle:
    """Owns a handle of the library, and frees it when this object is deleted. Two objects must not own one
    handle, so that this one cannot be copied or pickled."""
    _free = None

    def __init__(self, handle):
        self._handle = handle

    def __reduce_ex__(self, _):
        raise TypeError(f"gradus: a {type(self).__name__} cannot be copied or pickled; gradus.copy() copies a "
                        "tensor's elements, and save() and load() a module's weights")

    def __del__(self):
        if getattr(self, "_handle", None) and not sys.is_finalizing():
            self._free(self._handle)


# The arrays whose memory tensors share, with their interfaces, by a number. A NumPy scalar's memory
# lives only as long as its interface.
_shared = {}
_next_key = iter(range(1, sys.maxsize)).__next__
_release = _release_type(lambda key: _shared.pop(key, None))


def _described(array):
    """Returns the _Array of an object with NumPy's __array_interface__, and this interface."""
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise TypeError(f"gradus: expected a Tensor or a NumPy array, got {type(array).__name__}")
    if interface["typestr"] not in _DTYPES:
        raise TypeError(f"gradus: expected elements of {', '.join(_NAMES)}, got {interface['typestr']}; "
                        "convert them with astype")
    if not isinstance(interface.get("data"), tuple):
        raise TypeError(f"gradus: a {type(array).__name__} shows no address of its elements; "
                        "convert it with numpy.array")
    shape, strides, size = interface["shape"], interface.get("strides"), int(interface["typestr"][2:])
    if len(shape) > 8:
        raise ValueError(f"gradus: expected at most 8 axes, got {len(shape)}")
    if strides is None:
        strides = [0] * len(shape)
        step = size
        for i in reversed(range(len(shape))):
            strides[i] = step
            step *= max(shape[i], 1)
    if any(s % size for s in strides):
        raise ValueError(f"gradus: strides of {strides} bytes are not whole elements; copy the array")
    return _Array(interface["data"][0], _DTYPES.index(interface["typestr"]), len(shape),
                  (c_int64 * 8)(*shape), (c_int64 * 8)(*(s // size for s in strides))), interface


class Tensor(_Handle):
    """A tensor. Tensor(array) shares the memory of a NumPy array, and numpy.asarray(tensor) shares
    the memory of a tensor: a write to one changes both, and each keeps the memory alive. Do not
    write between an op and its backward(), which would compute with the changed values. The
    operators + - * / @ accept tensors and NumPy arrays, but not Python numbers."""
    _free = _lib.gradus_tensor_free

    def __init__(self, array):
        described, interface = _described(array)
        if interface["data"][1]:
            raise ValueError("gradus: the array is read-only; copy it, or use gradus.copy")
        key = _next_key()
        _shared[key] = array, interface
        try:
            super().__init__(_made("tensor_share", described, _release, key))
        except Error:
            del _shared[key]
            raise

    @classmethod
    def _of(cls, handle):
        tensor = cls.__new__(cls)
        _Handle.__init__(tensor, handle)
        return tensor

    def _array(self):
        array = _Array()
        _call("tensor_array", self._handle, array)
        return array

    @property
    def __array_interface__(self):
        a = self._array()
        size = int(_DTYPES[a.dtype][2:])
        return {"version": 3, "typestr": _DTYPES[a.dtype], "data": (a.data or 0, False),
                "shape": tuple(a.shape[:a.rank]), "strides": tuple(s * size for s in a.strides[:a.rank])}

    @property
    def shape(self):
        """The sizes of the axes."""
        a = self._array()
        return tuple(a.shape[:a.rank])

    @property
    def dtype(self):
        """The elements' type: "float32", "float64", "int64" or "bool". Any other type, such as that
        of a loaded int8 weight, raises Error."""
        return _NAMES[self._array().dtype]

    def numpy(self):
        """Returns a NumPy array that shares the tensor's memory."""
        import numpy
        return numpy.asarray(self)

    def item(self):
        """Returns the value of a tensor of one element, as a float."""
        value = c_double()
        _call("tensor_item", self._handle, value)
        return value.value

    def reshape(self, *shape):
        """Returns a tensor with the same elements in another shape. The two may share memory. One
        size may be -1: it is computed from the others."""
        return Tensor._of(_made("tensor_reshape", self._handle, _wholes(shape), len(shape)))

    def requires_grad_(self, on=True):
        """Sets whether backward() computes the gradient of this tensor. Returns this tensor."""
        _call("tensor_requires_grad", self._handle, on)
        return self

    @property
    def grad(self):
        """The gradient that backward() has accumulated, or None."""
        handle = _made("tensor_grad", self._handle)
        return Tensor._of(handle) if handle else None

    def backward(self):
        """Accumulates the gradients of this tensor, a loss of one element, and frees its graph."""
        _call("backward", self._handle)

    def __repr__(self):
        return f"gradus.Tensor(shape={self.shape}, dtype={self.dtype})"

    __array_ufunc__ = None  # array * tensor is __rmul__, not NumPy's product, which would have no gradient
    def __radd__(self, other): return op("add", other, self)
    def __rsub__(self, other): return op("sub", other, self)
    def __rmul__(self, other): return op("mul", other, self)
    def __rtruediv__(self, other): return op("div", other, self)
    def __rmatmul__(self, other): return op("matmul", other, self)
    def __add__(self, other): return op("add", self, other)
    def __sub__(self, other): return op("sub", self, other)
    def __mul__(self, other): return op("mul", self, other)
    def __truediv__(self, other): return op("div", self, other)
    def __matmul__(self, other): return op("matmul", self, other)
    def __neg__(self): return op("neg", self)


def _tensor(x):
    return x if isinstance(x, Tensor) else Tensor(x)


def copy(array):
    """Returns a tensor with a copy of the array's elements."""
    flags = getattr(array, "flags", None)
    if not (getattr(flags, "forc", True) and getattr(flags, "aligned", True)):
        array = array.copy()  # NumPy copies any strides, also negative ones
    described, interface = _described(array)  # the interface keeps the memory alive during the call
    return Tensor._of(_made("tensor_copy", described))


def op(name, *inputs):
    """Returns the result of an op, for example op("softmax", x). The ops are listed at gradus_op in
    gradus/models/c/gradus.h."""
    tensors = [_tensor(x) for x in inputs]
    handles = (c_void_p * len(tensors))(*(t._handle for t in tensors))
    return Tensor._of(_made("op", _text(name), handles, len(tensors)))


def cross_entropy(logits, targets):
    """Returns the mean cross entropy of logits (..., C) with targets, int64 (...) or probabilities
    (..., C)."""
    return op("cross_entropy", logits, targets)


def mse_loss(x, target):
    """Returns the mean squared difference of two tensors of one shape."""
    return op("mse_loss", x, target)


_running = {}  # for the callback of each generate() that runs, the exceptions that it raised


def _keep_interrupt(info):
    """Keeps a KeyboardInterrupt that came as a callback of generate() was entered, before its try,
    with the exceptions of this callback. Leaves all other exceptions to the hook that was there."""
    frame = info.exc_traceback.tb_frame if info.exc_traceback else None  # from Python 3.13 on object is None
    for take, raised in list(_running.items()):
        if info.object is take or (frame and frame.f_locals.get("raised") is raised):
            raised.append(info.exc_value)
            return
    _hook_before(info)


# Never restored: generate() may run in several threads, and end in any order.
_hook_before, sys.unraisablehook = sys.unraisablehook, _keep_interrupt


class Module(_Handle):
    """A model that load() or Sequential() made. model(x) returns its output for x. Dropout is
    active unless eval_mode() is on."""
    _free = _lib.gradus_module_free

    def __call__(self, x):
        x = _tensor(x)  # alive during the call
        return Tensor._of(_made("module_run", self._handle, x._handle))

    def parameters(self):
        """Returns a dict of the parameters by name. They share memory with the model's
        parameters."""
        count, name, found = c_int64(), c_char_p(), {}
        _call("module_parameter_count", self._handle, count)
        for i in range(count.value):
            handle = _made("module_parameter", self._handle, i, name)
            found[name.value.decode()] = Tensor._of(handle)
        return found

    def requires_grad_(self, on=True):
        """Sets whether the parameters are trained. If `on` is False, also clears their
        gradients."""
        _call("module_requires_grad", self._handle, on)

    def zero_grad(self):
        """Clears the gradients."""
        _call("module_zero_grad", self._handle)

    def save(self, path):
        """Writes the weights to a safetensors file."""
        _call("module_save", self._handle, _text(path))

    def load(self, path):
        """Reads the weights from a safetensors file. Its names, shapes and element types must match
        those of the model."""
        _call("module_load", self._handle, _text(path))

    def generate(self, prompt, on_token=None, **options):
        """Continues the prompt, a list of token ids, and returns the new ids. Calls on_token(id)
        with each new id; if on_token returns True, the text ends. If on_token raises an
        exception, also a KeyboardInterrupt, the text ends and generate() raises this exception. The
        options tokens, temperature, top_k, top_p, seed, vocab and stop_token are those of
        gradus_generate_options in gradus/models/c/gradus.h."""
        settings, ids, raised = _GenerateOptions(), [], []
        kinds = dict(_GenerateOptions._fields_)
        _call("generate_defaults", settings)
        for name, value in options.items():
            if name not in kinds:
                raise TypeError(f"generate: unknown option {name!r}")
            setattr(settings, name, value if kinds[name] is c_double else _whole(value, kinds[name]))

        def take(_, token):
            try:
                if raised:
                    return 1
                ids.append(token)
                stop = on_token is not None and on_token(token)
                return type(stop).__name__ in ("bool", "bool_") and bool(stop)  # also NumPy's
            except BaseException as error:
                raised.append(error)
                return 1

        prompt = _wholes(list(prompt))
        _running[take] = raised
        try:
            _call("generate", self._handle, prompt, len(prompt), settings, _token_type(take), None)
        finally:
            del _running[take]
        if raised:
            raise raised[0]
        return ids


class Sequential(Module):
    """Layers applied one after the other, as described for gradus_sequential in
    gradus/models/c/gradus.h: Sequential("linear 784 256, relu, dropout 0.1, linear 256 10")."""

    def __init__(self, layers):
        super().__init__(_made("sequential", _text(layers)))


def load(folder):
    """Returns the model in a folder that gradus or Hugging Face's transformers library wrote: a
    GPT, a model of Llama's family or a ViT."""
    return Module(_made("load", _text(folder)))


class Optimizer(_Handle):
    """Updates a model's parameters: Optimizer(model, "adamw lr=3e-4 weight_decay=0.1"). The rules
    and their options are listed at gradus_optimizer_new in gradus/models/c/gradus.h."""
    _free = _lib.gradus_optimizer_free

    def __init__(self, module, rule):
        super().__init__(_made("optimizer_new", module._handle, _text(rule)))

    def step(self, max_norm=0):
        """Updates the parameters by their gradients. If max_norm is above 0, the update uses the
        gradients scaled down to a global norm of at most max_norm; the stored gradients do not
        change."""
        _call("optimizer_step", self._handle, max_norm)

    def zero_grad(self):
        """Clears the gradients."""
        _call("optimizer_zero_grad", self._handle)

    def set_lr(self, lr):
        """Sets the learning rate, from the next step on. For muon, `lr` is AdamW's learning rate,
        and Muon's changes in proportion."""
        _call("optimizer_set_lr", self._handle, lr)


class Tokenizer(_Handle):
    """Converts text to token ids and back. Tokenizer(path) loads a tokenizer's file or the
    tokenizer in a model's folder."""
    _free = _lib.gradus_tokenizer_free

    def __init__(self, path):
        super().__init__(_made("tokenizer_load", _text(path)))

    def __len__(self):
        count = c_int64()
        _call("tokenizer_size", self._handle, count)
        return count.value

    def encode(self, text):
        """Returns the token ids of the text, after those of the special tokens that the tokenizer
        puts before every text, if any."""
        if "\0" in text:
            raise ValueError("encode: the text has a character 0, which ends a C string")
        text, count = text.encode(), c_int64()
        _call("tokenizer_encode", self._handle, text, None, 0, count)
        ids = (c_int64 * count.value)()
        _call("tokenizer_encode", self._handle, text, ids, count.value, count)
        return list(ids)

    def decode(self, ids):
        """Returns the text of token ids. Bytes that are not UTF-8 become U+FFFD."""
        given, size = _wholes(ids), c_int64()
        _call("tokenizer_decode", self._handle, given, len(ids), None, 0, size)
        text = ctypes.create_string_buffer(size.value + 1)
        _call("tokenizer_decode", self._handle, given, len(ids), text, size.value, size)
        return text.raw[:size.value].decode(errors="replace")


def set_threads(n):
    """Sets the number of threads that ops use, 1 to 1024."""
    _call("set_threads", _whole(n, c_int))


def seed(number):
    """Seeds this thread's random number generator, which draws initial weights and dropout, with 0
    to 2^64 - 1."""
    _call("seed", _whole(number, c_uint64))


@contextlib.contextmanager
def no_grad():
    """In the block of `with no_grad():`, ops on this thread record no gradients."""
    before = _lib.gradus_grad_mode(0)
    try:
        yield
    finally:
        _lib.gradus_grad_mode(before)


@contextlib.contextmanager
def eval_mode():
    """In the block of `with eval_mode():`, layers on this thread behave as in evaluation: dropout
    is off."""
    before = _lib.gradus_eval_mode(1)
    try:
        yield
    finally:
        _lib.gradus_eval_mode(before)
