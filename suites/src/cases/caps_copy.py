"""Copies an object as a user: the operation of librados' C++ interface, which Python does not have.

An `ObjectWriteOperation` is a table of methods and the operation that the C interface makes; an `IoCtx` is the context of the C interface.
"""
import ctypes as c

lib = c.CDLL("librados.so.2")
lib.rados_create_write_op.restype = c.c_void_p
copy_from = lib._ZN8librados7v14_2_020ObjectWriteOperation9copy_fromERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS0_5IoCtxEmj


class Text(c.Structure):
    """A `std::string` whose bytes lie elsewhere."""
    _fields_ = [("bytes", c.c_char_p), ("length", c.c_size_t), ("room", c.c_size_t * 2)]


class Operation(c.Structure):
    _fields_ = [("methods", c.c_void_p), ("operation", c.c_void_p)]


class IoCtx(c.Structure):
    _fields_ = [("context", c.c_void_p)]


class Copier:
    def __init__(self, conf, name, settings):
        self.rados, self.contexts = c.c_void_p(), {}
        self.must(lib.rados_create2(c.byref(self.rados), b"ceph", name.encode(), c.c_uint64(0)))
        self.must(lib.rados_conf_read_file(self.rados, conf.encode()))
        for key, value in settings.items():
            self.must(lib.rados_conf_set(self.rados, key.encode(), value.encode()))
        self.must(lib.rados_connect(self.rados))

    @staticmethod
    def must(code):
        if code < 0:
            raise OSError(-code, "librados")

    def context(self, pool, namespace):
        """Of a namespace, and for good: an operation looks into it when it is sent."""
        if (pool, namespace) not in self.contexts:
            io = c.c_void_p()
            self.must(lib.rados_ioctx_create(self.rados, pool.encode(), c.byref(io)))
            lib.rados_ioctx_set_namespace(io, namespace.encode())
            self.contexts[pool, namespace] = io
        return self.contexts[pool, namespace]

    def copy(self, source, target):
        """The errno of a copy from one (pool, namespace, object) to another, 0 for success."""
        from_io, to_io = self.context(*source[:2]), self.context(*target[:2])
        op = c.c_void_p(lib.rados_create_write_op())
        name = source[2].encode()
        copy_from(c.byref(Operation(None, op)), c.byref(Text(name, len(name))), c.byref(IoCtx(from_io)), c.c_uint64(0), c.c_uint32(0))
        code = lib.rados_write_op_operate(op, to_io, target[2].encode(), None, 0)
        lib.rados_release_write_op(op)
        return -code

    def close(self):
        for io in self.contexts.values():
            lib.rados_ioctx_destroy(io)
        lib.rados_shutdown(self.rados)
