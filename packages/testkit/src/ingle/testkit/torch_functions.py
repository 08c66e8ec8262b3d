"""PyTorch's functions under the signatures of Ingle's, where more than a name differs.

Each has the name of its operation. It raises `ValueError` for calls that PyTorch does not take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


class TorchFunctions:
    """The functions as methods, made when PyTorch is wanted: it is optional."""

    def __init__(self) -> None:
        import torch
        from torch.nn import attention, functional

        self.torch: Any = torch
        self.attention: Any = attention
        self.functional: Any = functional
        self.broadcast_to = torch.broadcast_to
        self.clip = torch.clamp
        self.conj = torch.conj
        self.det = torch.linalg.det
        self.eigh = torch.linalg.eigh
        self.eigvalsh = torch.linalg.eigvalsh
        self.inv = torch.linalg.inv
        self.permute_dims = torch.permute
        self.pinv = torch.linalg.pinv
        self.real = torch.real
        self.reshape = torch.reshape
        self.slogdet = torch.linalg.slogdet
        self.svdvals = torch.linalg.svdvals
        self.affine_grid = functional.affine_grid
        self.group_norm = functional.group_norm
        self.interpolate = functional.interpolate
        self.local_response_norm = functional.local_response_norm
        self.kl_div_log_target = functional.kl_div

    def cholesky(self, x: Any, upper: bool = False) -> Any:
        # Of the Hermitian part, as Ingle's: PyTorch's gradient need not be Hermitian.
        return self.torch.linalg.cholesky((x + x.mH) / 2, upper=upper)

    def imag(self, x: Any) -> Any:
        return x.imag if x.is_complex() else self.torch.zeros_like(x)

    def logcumsumexp(self, x: Any, axis: int = -1) -> Any:
        return self.torch.logcumsumexp(x, axis)

    def fftn(self, x: Any, axes: Any = None, **options: Any) -> Any:
        return self.torch.fft.fftn(x, dim=axes, **options)

    def ifftn(self, x: Any, axes: Any = None, **options: Any) -> Any:
        return self.torch.fft.ifftn(x, dim=axes, **options)

    def rfft(self, x: Any, axis: int = -1, **options: Any) -> Any:
        return self.torch.fft.rfft(x, dim=axis, **options)

    def irfft(self, x: Any, axis: int = -1, **options: Any) -> Any:
        return self.torch.fft.irfft(x, dim=axis, **options)

    def astype(self, x: Any, dtype: Any) -> Any:
        return x.to(getattr(self.torch, str(dtype)))

    def concat(self, arrays: Sequence[Any], axis: int | None = 0) -> Any:
        return self.torch.cat(
            [a.flatten() for a in arrays] if axis is None else list(arrays), axis or 0
        )

    def slice(self, x: Any, starts: Any, sizes: Any, steps: Any = None) -> Any:
        return x[self._window(x, starts, sizes, steps)]

    def slice_update(self, x: Any, y: Any, starts: Any, steps: Any = None) -> Any:
        if not x.ndim:
            return y * self.torch.ones_like(x)
        out = x.clone()
        out[self._window(x, starts, y.shape, steps)] = y
        return out

    def _window(self, x: Any, starts: Any, sizes: Any, steps: Any) -> Any:
        """The places of a slice, by index lists, since PyTorch has no negative steps."""
        steps = steps or [1] * x.ndim
        places = [
            [(int(a) + (n if int(a) < 0 else 0)) + i * s for i in range(size)]
            for a, size, s, n in zip(starts, sizes, steps, x.shape, strict=True)
        ]
        axes = [self.torch.tensor(p, dtype=self.torch.int64) for p in places]
        return self.torch.meshgrid(*axes, indexing="ij") if axes else ()

    def take(self, x: Any, indices: Any, axis: int | None = None) -> Any:
        axis = axis or 0
        flat = x.index_select(
            axis, indices.reshape(-1) % x.shape[axis] if indices.numel() else indices
        )
        return flat.reshape(x.shape[:axis] + indices.shape + x.shape[axis:][1:])

    def take_along_axis(self, x: Any, indices: Any, axis: int = -1) -> Any:
        return self.torch.take_along_dim(x, indices % max(x.shape[axis], 1), axis)

    def scatter_add(self, x: Any, indices: Any, updates: Any, axis: int = 0) -> Any:
        rows, places = self._rows(x, indices, updates, axis)
        return x.index_add(axis, places, rows)

    def scatter_set(self, x: Any, indices: Any, updates: Any, axis: int = 0) -> Any:
        rows, places = self._rows(x, indices, updates, axis)
        self._refuse_repeats(places)
        return x.index_copy(axis, places, rows)

    def scatter_prod(
        self,
        x: Any,
        indices: Any,
        updates: Any,
        reduce: str,
        axis: int = 0,
        include_self: bool = True,
    ) -> Any:
        rows, places = self._rows(x, indices, updates, axis)
        return x.index_reduce(axis, places, rows, reduce, include_self=include_self)

    def scatter_extremum(
        self,
        x: Any,
        indices: Any,
        updates: Any,
        reduce: str,
        axis: int = 0,
        include_self: bool = True,
    ) -> Any:
        rows, places = self._rows(x, indices, updates, axis)
        return x.index_reduce(axis, places, rows, reduce, include_self=include_self)

    def _rows(self, x: Any, indices: Any, updates: Any, axis: int) -> tuple[Any, Any]:
        places = indices.reshape(-1) % max(x.shape[axis], 1)
        return updates.reshape((*x.shape[:axis], places.numel(), *x.shape[axis + 1 :])), places

    def pad(self, x: Any, widths: Any, mode: str = "constant", value: Any = 0) -> Any:
        if mode != "constant":
            raise ValueError("PyTorch pads the last axes alone in other modes")
        both: Any = (widths, widths) if isinstance(widths, int) else widths
        pairs = [both] * x.ndim if isinstance(both[0], int) else both
        flat = [n for pair in reversed(pairs) for n in pair]
        return self.functional.pad(x, flat, value=value)

    def sort(self, x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
        return self.torch.sort(x, dim=axis, descending=descending, stable=stable).values

    def kthvalue(self, x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
        # Of equal elements PyTorch's own takes any.
        ordered, places = self.torch.sort(x, dim=axis, stable=True)
        at = self.torch.tensor([k - 1])
        found = tuple(t.index_select(axis, at) for t in (ordered, places))
        return found if keepdims else tuple(t.squeeze(axis) for t in found)

    def topk(self, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
        return tuple(self.torch.topk(x, k, dim=axis, largest=largest))

    def adaptive_avg_pool(self, x: Any, output_size: Any) -> Any:
        return self._of_rank("adaptive_avg_pool{}d", x)(x, output_size)

    def adaptive_max_pool(self, x: Any, output_size: Any) -> Any:
        return self._of_rank("adaptive_max_pool{}d", x)(x, output_size, return_indices=True)

    def _of_rank(self, name: str, x: Any) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.torch.nn.functional, name.format(x.ndim - 2))
        return function

    def batch_norm(self,
        x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False,
        eps: float = 1e-5,
    ) -> Any:  # fmt: skip
        if training:
            return self.functional.batch_norm(x, None, None, weight, bias, True, 0.0, eps)
        # PyTorch has no gradients by the running statistics.
        shape = (-1, *[1] * (x.ndim - 2))
        out = (x - mean.reshape(shape)) * self.torch.rsqrt(var.reshape(shape) + eps)
        out = out if weight is None else out * weight.reshape(shape)
        return out if bias is None else out + bias.reshape(shape)

    def scaled_dot_product_attention(self, *args: Any, **options: Any) -> Any:
        # The kernel that has second derivatives.
        with self.attention.sdpa_kernel(self.attention.SDPBackend.MATH):
            return self.functional.scaled_dot_product_attention(*args, **options)

    def cumulative_sum(self, x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
        out = self.torch.cumsum(x, axis or 0)
        return self._led_by(0, out, axis or 0) if include_initial else out

    def cumulative_prod(
        self, x: Any, axis: int | None = None, include_initial: bool = False
    ) -> Any:
        out = self.torch.cumprod(x, axis or 0)
        return self._led_by(1, out, axis or 0) if include_initial else out

    def _led_by(self, value: int, x: Any, axis: int) -> Any:
        shape = [1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)]
        return self.torch.cat([self.torch.full(shape, value, dtype=x.dtype), x], axis)

    def prod(
        self, x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
    ) -> Any:
        axes: Sequence[int] = range(x.ndim)
        if axis is not None:
            axes = (axis,) if isinstance(axis, int) else axis
        for i in sorted((a % x.ndim for a in axes), reverse=True):
            x = self.torch.prod(x, i, keepdims)
        return x

    def rms_norm(self, x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
        shape = (shape,) if isinstance(shape, int) else shape
        return self.functional.rms_norm(x, shape, weight, eps)

    def grid_sample(self, x: Any, grid: Any, **options: Any) -> Any:
        options.setdefault("align_corners", False)
        return self.functional.grid_sample(x, grid, **options)

    def unfold(self, x: Any, kernel_size: Any, **options: Any) -> Any:
        self._images(x)
        return self.functional.unfold(x, kernel_size, **options)

    def fold(self, x: Any, output_size: Any, kernel_size: Any, **options: Any) -> Any:
        if len(output_size) != 2:
            raise ValueError("PyTorch folds two axes alone")
        return self.functional.fold(x, output_size, kernel_size, **options)

    def _images(self, x: Any) -> None:
        if x.ndim != 4:
            raise ValueError("PyTorch unfolds two axes alone")

    def max_unpool(self, x: Any, indices: Any, output_size: Any) -> Any:
        flat = self.torch.zeros((*x.shape[:2], math.prod(output_size)), dtype=x.dtype)
        for places in indices.flatten(0, 1).flatten(1):
            self._refuse_repeats(places)
        out = flat.scatter(2, indices.flatten(2), x.flatten(2))
        return out.reshape(*x.shape[:2], *output_size)

    def _refuse_repeats(self, places: Any) -> None:
        if places.unique().numel() < places.numel():
            raise ValueError("PyTorch does not say which of several values for one place wins")

    def vector_norm(self, x: Any, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:  # noqa: A002
        return self.torch.linalg.vector_norm(x, ord, axis, keepdims)

    def cummax_indices(self, x: Any, axis: int = -1) -> Any:
        return tuple(self.torch.cummax(x, axis))

    def cummin_indices(self, x: Any, axis: int = -1) -> Any:
        return tuple(self.torch.cummin(x, axis))

    def solve(self, a: Any, b: Any) -> Any:
        return self.torch.linalg.solve(a, b)

    def svd(self, x: Any, full_matrices: bool = True) -> Any:
        return tuple(self.torch.linalg.svd(x, full_matrices))

    def qr(self, x: Any, mode: str = "reduced") -> Any:
        return tuple(self.torch.linalg.qr(x, mode))

    def adjugate(self, x: Any) -> Any:
        return self.torch.linalg.det(x)[..., None, None] * self.torch.linalg.inv(x)

    def conv_input_gradient(self, g: Any, weight: Any, size: Any, **options: Any) -> Any:
        size = (size,) if isinstance(size, int) else tuple(size)
        groups = options.get("groups", 1)
        shape = (g.shape[0], weight.shape[1] * groups, *size)
        function = getattr(self.torch.nn.grad, f"conv{len(size)}d_input")
        return function(shape, weight, g, **options)

    def conv_weight_gradient(self, x: Any, g: Any, kernel: Any, **options: Any) -> Any:
        kernel = (kernel,) if isinstance(kernel, int) else tuple(kernel)
        groups = options.get("groups", 1)
        shape = (g.shape[1], x.shape[1] // groups, *kernel)
        function = getattr(self.torch.nn.grad, f"conv{len(kernel)}d_weight")
        return function(x, shape, g, **options)
