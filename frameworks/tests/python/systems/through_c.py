"""On two ranks: an allreduce through libxoe.so.0 of an unpacked wheel, for a Python that is too old for the package. Argument:
the folder of the package."""

import ctypes
import sys

xoe = ctypes.CDLL(sys.argv[1] + "/lib/libxoe.so.0")
xoe.xoe_last_error.restype = ctypes.c_char_p
Pointer = ctypes.c_void_p


class Tensor(ctypes.Structure):
    _fields_ = [
        ("source", Pointer),
        ("target", Pointer),
        ("shape", Pointer),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class Request(ctypes.Structure):
    """The first fields of xoe_request; xoe_request_init() fills the others."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("reduce", ctypes.c_int32),
        ("tensors", Pointer),
        ("tensor_count", ctypes.c_size_t),
        ("others", ctypes.c_char * 160),
    ]


def check(status):
    if status != 0:
        raise SystemExit(xoe.xoe_last_error().decode())


engine = Pointer()
check(xoe.xoe_init(None, ctypes.byref(engine)))
topology = (ctypes.c_int32 * 6)()
check(xoe.xoe_topology_of(engine, topology))
values = (ctypes.c_float * 1000)(*[float(topology[0] + 1)] * 1000)
shape = (ctypes.c_int64 * 1)(1000)
address = ctypes.addressof(values)
tensor = Tensor(address, address, ctypes.addressof(shape), 1, 7)  # XOE_FLOAT32
request = Request()
xoe.xoe_request_init(ctypes.byref(request), ctypes.c_size_t(ctypes.sizeof(request)))
request.name = b"sum"
request.tensors = ctypes.addressof(tensor)
request.tensor_count = 1
check(xoe.xoe_run(engine, ctypes.byref(request)))
assert set(values) == {3.0}, set(values)
xoe.xoe_shutdown(engine)
print("rank %d of %d: the sum is %g" % (topology[0], topology[1], values[0]), flush=True)  # noqa: UP031 (of any Python)
