"""Tables as functions of Python's own: a call by `ctypes` takes longer than a small kernel.

Generated code can stand behind a built-in function as a library's can: Python calls an address with
the objects that were given. So the addresses of a small plan's buffers become one call, which
nothing comes between: whoever keeps Python's lock may share a table with others that do.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..jit.engine import IRSource, engine

Launcher: TypeAlias = Callable[..., int]
"""Runs a table, after it has put the addresses given into its bases; the status of the run. For an
address there may stand the `__array_struct__` of an array, which takes a tenth of the time in which
NumPy tells the address."""

HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether one thread at a time is in Python, and so in a launcher."""
_FASTCALL = 0x80  # METH_FASTCALL: (self, arguments, how many)
_DATA = 40
"""Where the address of the elements is in what `__array_struct__` points to."""
_RUN, _CONTROL, _STATE, _BASES, _MOST = range(5)
_IR = f"""
declare i32 @PyCapsule_IsValid(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)

define ptr @launch(ptr %self, ptr %given, i64 %count) {{
start:
  %address = call i64 @PyLong_AsLongLong(ptr %self)
  %block = inttoptr i64 %address to ptr
  %run_at = getelementptr i64, ptr %block, i64 {_RUN}
  %run = load ptr, ptr %run_at
  %control_at = getelementptr i64, ptr %block, i64 {_CONTROL}
  %control = load ptr, ptr %control_at
  %state_at = getelementptr i64, ptr %block, i64 {_STATE}
  %state = load ptr, ptr %state_at
  %bases_at = getelementptr i64, ptr %block, i64 {_BASES}
  %bases = load ptr, ptr %bases_at
  %most_at = getelementptr i64, ptr %block, i64 {_MOST}
  %most = load i64, ptr %most_at
  %many = icmp sgt i64 %count, %most
  br i1 %many, label %wrong, label %next
next:
  %i = phi i64 [0, %start], [%i1, %store]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %ready, label %take
take:
  %at = getelementptr ptr, ptr %given, i64 %i
  %object = load ptr, ptr %at
  %valid = call i32 @PyCapsule_IsValid(ptr %object, ptr null)
  %is_array = icmp ne i32 %valid, 0
  br i1 %is_array, label %array, label %int
array:
  %struct = call ptr @PyCapsule_GetPointer(ptr %object, ptr null)
  %data_at = getelementptr i8, ptr %struct, i64 {_DATA}
  %data = load i64, ptr %data_at
  br label %store
int:
  %number = call i64 @PyLong_AsLongLong(ptr %object)
  %none = icmp eq i64 %number, -1
  br i1 %none, label %wrong, label %store
store:
  %base = phi i64 [%data, %array], [%number, %int]
  %i1 = add i64 %i, 1
  %into = getelementptr i64, ptr %bases, i64 %i
  store i64 %base, ptr %into
  br label %next
ready:
  %status = call i64 %run(ptr %control, ptr %state)
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
wrong:
  ret ptr null
}}
"""


class _MethodDef(ctypes.Structure):
    """What Python knows of a built-in function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@functools.cache
def _definition() -> _MethodDef:
    (address,) = engine().addresses(IRSource(_IR, ("launch",), reduced=False, polished=False))
    return _MethodDef(b"launch", address, _FASTCALL, None)


@functools.cache
def _new_function() -> Any:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    return make


def launcher(run: int, control: int, state: int, bases: np.ndarray, holds: Any) -> Launcher:
    """What runs a table.

    Args:
        run: the address of the native plan runner.
        control, state: what that is given.
        bases: the addresses of the table's buffers.
        holds: whatever has to live for as long as the function does.
    """
    block = np.array([run, control, state, bases.ctypes.data, len(bases)], np.int64)
    # Threads that ask at once may make one each, and a cache keeps the last: Python does not.
    definition = _definition()
    made: Launcher = _new_function()(
        ctypes.addressof(definition), block.ctypes.data, (block, bases, holds, definition)
    )
    return made
