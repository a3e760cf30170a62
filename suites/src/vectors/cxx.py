"""The operations that librados has in C++ alone, called on a vector that its C interface made.

A vector of the C interface is what the C++ classes hold by a pointer, in each release so far. Buffers and strings have the layout of libstdc++ and of
Ceph's interface v15.2.0, which has been the same since; a buffer that is read back wrong ends the program at its start.
"""

import ctypes as c

lib = c.CDLL("librados.so.2")
# Loaded with librados, by a path that is its own.
process = c.CDLL(None)
common = c.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libceph-common" in line))
BUFFER = "ceph6buffer7v15_2_04list"
common_append = common[f"_ZN4{BUFFER}6appendEPKcj"]
common_c_str = common[f"_ZN4{BUFFER}5c_strEv"]
common_c_str.restype = c.c_void_p
EMPTY_PTR = c.addressof(c.c_char.in_dll(common, f"_ZN4{BUFFER}17always_empty_bptrE"))
LIST = "RKN4" + BUFFER + "E"
STRING = "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


class Buffer(c.Structure):
    """ceph::buffer::list"""
    _fields_ = [("root", c.c_void_p), ("tail", c.c_void_p), ("carriage", c.c_void_p), ("length", c.c_uint), ("count", c.c_uint)]

    def __init__(self, data=b""):
        super().__init__()
        self.root = self.tail = c.addressof(self)
        self.carriage = EMPTY_PTR
        if data:
            common_append(c.byref(self), data, c.c_uint(len(data)))

    def bytes(self):
        return c.string_at(common_c_str(c.byref(self)), self.length) if self.length else b""


class String(c.Structure):
    """std::string"""
    _fields_ = [("data", c.c_char_p), ("length", c.c_size_t), ("short", c.c_char * 16)]

    def __init__(self, data):
        super().__init__()
        self.data, self.length = data, len(data)


class Operation(c.Structure):
    _fields_ = [("methods", c.c_void_p), ("vector", c.c_void_p)]


class Map(c.Structure):
    """std::map<uint64_t, uint64_t>"""
    _fields_ = [("less", c.c_uint64), ("color", c.c_uint64), ("parent", c.c_void_p), ("left", c.c_void_p), ("right", c.c_void_p),
                ("count", c.c_size_t)]

    def __init__(self):
        super().__init__()
        self.left = self.right = c.addressof(self) + 8

    def pairs(self):
        def walk(node):
            if node:
                _, _, left, right, key, value = (c.c_uint64 * 6).from_address(node)
                yield from walk(left)
                yield key, value
                yield from walk(right)
        return list(walk(self.parent))


class Snaps(c.Structure):
    """librados::snap_set_t: a vector of clones, each with its number, snapshots, overlaps and size; then the newest snapshot."""
    _fields_ = [("begin", c.c_uint64), ("end", c.c_uint64), ("room", c.c_uint64), ("seq", c.c_uint64)]

    def clones(self):
        for at in range(self.begin, self.end, 64):
            number, first, last, _, over, over_end, _, size = (c.c_uint64 * 8).from_address(at)
            snaps = [c.c_uint64.from_address(a).value for a in range(first, last, 8)]
            overlaps = [tuple((c.c_uint64 * 2).from_address(a)) for a in range(over, over_end, 16)]
            yield number, snaps, overlaps, size


def call(kind, op, name, signature, *args):
    """Calls ObjectReadOperation::name, or that of the class that is meant, on a vector."""
    of = {"read": "19ObjectReadOperation", "write": "20ObjectWriteOperation", "both": "15ObjectOperation"}[kind]
    this = Operation(None, op.value)
    lib[f"_ZN8librados7v14_2_0{of}{len(name)}{name}E{signature}"](c.byref(this), *args)


assert Buffer(b"there and back").bytes() == b"there and back"
