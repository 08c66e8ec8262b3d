"""What to write for attributes of NumPy's arrays that tensors do not have, and PyTorch's neither.

>>> import ingle.tensor as it
>>> it.ones(2).copy()
Traceback (most recent call last):
    ...
AttributeError: Tensor has no attribute 'copy'; write x (tensors never change), or \
it.asarray(x, copy=True)
"""

from __future__ import annotations

from .other_names import table

ATTRIBUTES = table("""
argpartition: it.argsort(x), or it.topk(x, k)
base: x.numpy().base; tensors share no memory that a program sees
byteswap: x.numpy().byteswap()
choose: it.where(i == 0, a, b), or it.take_along_axis(x, i, axis=...)
compress: x[mask], or it.take(x, i, axis=...)
conjugate: x.conj()
copy: x (tensors never change), or it.asarray(x, copy=True)
ctypes: x.numpy().ctypes
dump dumps: x.numpy().dumps(), or ingle.nn.save(path, {"x": x})
flags setflags: x.numpy().flags; tensors never change
flat: x.reshape(-1)
getfield setfield: x.view(dtype)
partition: it.sort(x), or it.topk(x, k)
ptp: it.max(x) - it.min(x)
strides: x.numpy().strides
tobytes tostring: x.numpy().tobytes()
tofile: x.numpy().tofile(path), or np.save(path, x)
""")
