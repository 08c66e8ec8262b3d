"""What PyTorch's public names are called here: data that errors, documentation and tests share.

`RENAMED` says what to write instead, `REFUSED` why there is nothing to write. Names that both
libraries have are in neither: `answer` looks for them in the modules, so that a function that is
added counts at once. `x.name_()`, in place, is `x = x.name()` of the answer for `name`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from fnmatch import fnmatchcase
from typing import NoReturn

from .other_names import table

RENAMED = """
absolute: it.abs(x)
expit: it.sigmoid(x)
gammaln: it.lgamma(x)
psi: it.digamma(x)
gammainc: it.igamma(a, x)
gammaincc: it.igammac(a, x)
ndtr: it.erfc(-x / 2**0.5) / 2
ndtri: 2**0.5 * it.erfinv(2 * p - 1)
entr: it.where(x < 0, -it.inf, -it.xlogy(x, x))
xlog1py: it.where((x == 0) & ~it.isnan(y), 0, x * it.log1p(y))
i0e: it.i0(x) * it.exp(-it.abs(x)), for numbers of which exp is finite
i1e: it.i1(x) * it.exp(-it.abs(x)), for numbers of which exp is finite
baddbmm addmm addmv: beta * c + alpha * (a @ b)
addbmm: beta * c + alpha * it.sum(a @ b, axis=0)
addr: beta * c + alpha * it.outer(a, b)
addcdiv: x + value * a / b
addcmul: x + value * a * b
adjoint H mH: it.conj(x).mT
amax: it.max(x, axis=...)
amin: it.min(x, axis=...)
aminmax: it.min(x), it.max(x)
arccos: it.acos(x)
arccosh: it.acosh(x)
arcsin: it.asin(x)
arcsinh: it.asinh(x)
arctan: it.atan(x)
arctan2: it.atan2(x, y)
arctanh: it.atanh(x)
argwhere nonzero_static: it.stack(it.nonzero(x), axis=-1)
as_strided_copy: it.as_strided(x, size, strides)
as_strided_scatter slice_scatter select_scatter diagonal_scatter: x.at[...].set(y)
index_copy index_fill put: x.at[i].set(y)
index_put: x.at[i].set(y), x.at[i].add(y)
index_add: x.at[i].add(y), it.scatter_add(x, i, y, axis=...)
index_reduce: it.scatter_reduce(x, i, y, "prod", axis=...)
scatter: it.put_along_axis(x, i, y, axis=...)
index_select: it.take(x, i, axis=...)
gather take_along_dim: it.take_along_axis(x, i, axis=...)
select select_copy narrow narrow_copy: x[:, 2], x[:, start:start + length]
atleast_1d atleast_2d atleast_3d: x[None] for each axis that is missing
bitwise_not: ~x
bmm mm mv: a @ b
dot: it.sum(a * b), of matrices a @ b
vdot: it.vecdot(a, b)
inner: it.tensordot(a, b, axes=([-1], [-1]))
ger: it.outer(a, b)
chain_matmul: a @ b @ c
detach_: x.detach()
broadcast_tensors: it.broadcast_arrays(a, b)
bucketize: it.searchsorted(boundaries, x)
cat concatenate: it.concat([a, b], axis=...)
clamp: it.clip(x, low, high)
clip: it.clip(x, low, high)
clamp_max: it.clip(x, max=high)
clamp_min: it.clip(x, low)
complex: a + 1j * b
polar: r * it.exp(1j * angle)
conj_physical: it.conj(x)
resolve_conj resolve_neg: x
constant_pad_nd: it.pad(x, widths)
cross: it.linalg.cross(a, b, axis=...)
det: it.linalg.det(x)
logdet: it.log(sign) + log, of sign, log = it.linalg.slogdet(x)
slogdet: it.linalg.slogdet(x)
inverse: it.linalg.inv(x)
pinverse: it.linalg.pinv(x)
cholesky: it.linalg.cholesky(x)
cholesky_solve: it.linalg.cholesky_solve(factor, b)
qr: it.linalg.qr(x)
svd: it.linalg.svd(x)
symeig: it.linalg.eigh(x)
lu: it.linalg.lu_factor(x)
lu_solve: it.linalg.lu_solve(packed, pivots, b)
triangular_solve: it.linalg.solve_triangular(a, b)
solve: it.linalg.solve(a, b)
matrix_power: it.linalg.matrix_power(x, n)
norm frobenius_norm nuclear_norm native_norm: it.linalg.vector_norm(x), it.linalg.matrix_norm(x)
dist: it.linalg.vector_norm(a - b)
trace: it.linalg.trace(x)
cumprod: it.cumulative_prod(x, axis=...)
cumsum: it.cumulative_sum(x, axis=...)
diagflat: it.diag(x.ravel())
div true_divide: a / b
floor_divide: a // b
sub: a - b
add_ sub_ subtract_ mul_ multiply_ div_ divide_: x += y, x -= y, x *= y, x /= y
rsub: b - a
mul: a * b
neg: -x
eq: a == b
ne: a != b
ge: a >= b
gt: a > b
le: a <= b
lt: a < b
fill full_like: it.full_like(x, v)
fix: it.trunc(x)
fliplr: it.flip(x, axis=1)
flipud: it.flip(x, axis=0)
float_power: x.astype(it.promote_types(x.dtype, it.float64)) ** y
frac: x - it.trunc(x)
ldexp: x * 2.0**n
logaddexp2: it.logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)
histc: it.histogram(x, bins)[0]
histogramdd: it.histogram(x, bins)
isneginf: x == -it.inf
isposinf: x == it.inf
isreal: it.imag(x) == 0
is_complex: x.dtype.is_complex
is_floating_point: x.dtype.is_floating
is_signed: it.isdtype(x.dtype, "signed integer")
is_same_size: x.shape == y.shape
is_nonzero: bool(x)
is_tensor: isinstance(x, it.Tensor)
is_cuda is_cpu is_mps is_xpu is_xla is_ipu is_maia is_mtia is_vulkan is_meta: x.device
get_device: x.device
cuda mtia ipu xpu: x.to_device("cuda")
matrix_rank: it.linalg.matrix_rank(x)
movedim: it.moveaxis(x, source, destination)
msort: it.sort(x, axis=0)
multinomial: it.random.multinomial, it.random.categorical
native_batch_norm: it.batch_norm_training(x)
batch_norm_*: it.batch_norm_training(x)
native_layer_norm: it.layer_norm(x, shape)
native_group_norm: it.group_norm(x, groups)
native_dropout feature_dropout dropout1d dropout2d dropout3d: it.dropout(x, p)
native_channel_shuffle: it.channel_shuffle(x, groups)
new_empty empty_strided empty_permuted new_empty_strided: it.empty(shape, dtype=x.dtype)
new_full: it.full(shape, v, dtype=x.dtype)
new_ones: it.ones(shape, dtype=x.dtype)
new_zeros: it.zeros(shape, dtype=x.dtype)
new_tensor new as_tensor scalar_tensor from_numpy frombuffer tensor: it.asarray(data)
to_dlpack: x.__dlpack__()
norm_except_dim: it.linalg.vector_norm(x, axis=...)
permute permute_copy: it.permute_dims(x, axes)
rand: it.random.uniform(shape)
randn: it.random.normal(shape)
normal: it.random.normal(shape, mean, std)
randint: it.random.randint
randperm: it.random.permutation(n)
poisson: it.random.poisson(rate)
binomial: it.random.bernoulli(p, (n,)).sum()
bernoulli: it.random.bernoulli(p)
cauchy_: it.random.cauchy(x.shape)
exponential_: it.random.exponential(x.shape)
geometric_: it.floor(it.random.exponential(x.shape) / -math.log1p(-p)) + 1
log_normal_: it.random.log_normal(x.shape)
normal_: it.random.normal(x.shape)
uniform_: it.random.uniform(x.shape)
random_: it.random.randint(low, high, x.shape)
bernoulli_: it.random.bernoulli(p, x.shape)
range: start + step * it.arange(math.floor((end - start) / step) + 1)
repeat_interleave: it.repeat(x, n, axis=...)
rrelu: it.leaky_relu(x, slope)
scatter_add: it.put_along_axis(x, i, y, axis=..., reduce="sum")
Tensor.scatter_reduce: it.put_along_axis(x, i, y, axis=..., reduce="amax")
segment_reduce: it.scatter_reduce(x, i, y, reduce)
sgn: it.sign(x)
split_with_sizes split_with_sizes_copy split_copy: it.split(x, sizes)
unsafe_split unsafe_split_with_sizes: it.split(x, sizes)
unsafe_chunk: it.chunk(x, n)
hsplit dsplit vsplit: it.tensor_split(x, sections, axis=...)
row_stack: it.vstack([a, b])
trapz: it.trapezoid(y)
std_mean: it.std(x, correction=1), it.mean(x)
var_mean: it.var(x, correction=1), it.mean(x)
sum_to_size: it.sum(x, axis=..., keepdims=True)
swapdims transpose transpose_copy: it.swapaxes(x, i, j)
t t_copy: x.T
unbind unbind_copy: it.unstack(x, axis=...)
unflatten: it.reshape(x, shape)
unfold_copy: x[..., starts[:, None] + it.arange(size)]
unsqueeze unsqueeze_copy: it.expand_dims(x, axis=...)
squeeze_copy: it.squeeze(x, axis=...)
vander: x[:, None] ** it.arange(n - 1, -1, -1)
view view_copy reshape_as view_as: it.reshape(x, shape)
view_as_real view_as_real_copy: it.stack([it.real(x), it.imag(x)], axis=-1)
view_as_complex view_as_complex_copy: x[..., 0] + 1j * x[..., 1]
expand expand_as expand_copy: it.broadcast_to(x, shape)
affine_grid_generator: it.affine_grid(theta, size)
cudnn_grid_sampler grid_sampler grid_sampler_2d grid_sampler_3d: it.grid_sample(x, grid)
convolution: it.conv(x, weight)
gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell: it.scan(step, state, xs)
multi_head_attention_forward: it.scaled_dot_product_attention(q, k, v)
adaptive_max_pool*_with_indices: it.adaptive_max_pool1d(x, size, return_indices=True)
fractional_max_pool*_with_indices: it.fractional_max_pool2d(x, size, return_indices=True)
max_pool*_with_indices: it.max_pool1d(x, size, return_indices=True)
upsample upsample_bilinear upsample_nearest: it.interpolate(x, size)
triplet_margin_with_distance_loss: it.relu(distance(a, p) - distance(a, n) + margin)
gumbel_softmax: it.softmax(x + it.random.gumbel(x.shape), axis=...)
pdist: it.cdist(x, x)[tuple(it.triu_indices(n, n, offset=1))]
linear_cross_entropy: it.cross_entropy(it.linear(x, w), y)
alias_copy clone detach_copy: x (tensors never change)
slice_copy: x[...]
diagonal_copy: it.diagonal(x)
copy_: x[...] = y
fill_ zero_: x[...] = v
fill_diagonal_: it.where(it.eye(n, dtype="bool"), v, x)
swapdims_: it.swapaxes(x, i, j)
data: x.detach(), of a parameter p.data
grad: grads = loss.backward(); grads[x]
requires_grad requires_grad_: x = x.require_grad(), of a parameter p.requires_grad
retain_grad: x = x.require_grad()
type: x.dtype, x.astype(dtype)
itemsize element_size: x.dtype.itemsize
numel nelement: x.size
dim ndimension: x.ndim
type_as: x.astype(y.dtype)
cpu: x.numpy(), x.to_device("cpu")
contiguous: x (how bytes lie in memory is the backend's affair)
to: x.astype(dtype), x.to_device(device)
Tensor.where: it.where(condition, x, y)
Tensor.unfold: it.sliding_window_view(x, size, axis=..., step=...)
Tensor.float: x.astype("float32")
Tensor.double: x.astype("float64")
Tensor.half: x.astype("float16")
Tensor.long: x.astype("int64")
Tensor.int: x.astype("int32")
Tensor.short: x.astype("int16")
char: x.astype("int8")
byte: x.astype("uint8")
cdouble: x.astype("complex128")
cfloat: x.astype("complex64")
torch.float: it.float32
torch.double: it.float64
torch.half: it.float16
torch.long: it.int64
torch.int: it.int32
torch.short: it.int16
torch.cdouble: it.complex128
torch.cfloat: it.complex64
dtype: it.DType
Size: tuple
manual_seed seed: it.random.seed(n)
initial_seed get_rng_state set_rng_state: it.random.default_generator().state
default_generator: it.random.default_generator()
Generator: it.random.Generator(seed)
autocast: with it.precision("bfloat16"): ...
amp: it.precision("bfloat16"), ingle.optim.LossScaler()
GradScaler: ingle.optim.LossScaler()
get_default_device: it.default_device()
set_default_device: with it.device(device): ...
get_default_dtype set_default_dtype: with it.default_dtypes(floating=...): ...
set_default_tensor_type: with it.default_dtypes(floating=...): ...
OutOfMemoryError: ingle.tensor.errors.OutOfMemoryError
no_grad set_grad_enabled inference_mode: ingle.autodiff.no_grad()
enable_grad is_grad_enabled: leave out ingle.autodiff.no_grad()
is_inference_mode_enabled: ingle.autodiff.no_grad()
vmap func: ingle.autodiff.vmap(f)
autograd: ingle.autodiff
compile compiler: ingle.fusion.compile(f)
save: ingle.nn.save(path, module)
load: ingle.nn.load(path, module)
nn: ingle.nn
optim: ingle.optim
functional: ingle.tensor
special: ingle.tensor
distributions: it.random, which draws; log_prob and entropy are formulas of yours
ModuleDict: ingle.nn.ModuleDict
ParameterDict: ingle.nn.ParameterDict
BufferDict: ingle.nn.Buffer in attributes
is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled: it.anomaly()
profiler: ingle.fusion.explain(f, x)
get_num_threads set_num_threads get_num_interop_threads set_num_interop_threads: INGLE_NUM_THREADS
set_printoptions: np.printoptions(...), which tensors print with
register_hook: ingle.autodiff.custom_gradient, or grads[x] behind backward
apply_ map_ map2_: it.asarray(function(x.numpy()))
quantize_per_tensor_dynamic choose_qparams_optimized: it.quantize_dynamic(x)
fused_moving_avg_obs_fake_quant: it.fake_quantize
int_repr q_scale q_zero_point q_per_channel_*: QuantizedTensor's attributes
nn.functional.grad: it.conv_input_gradient, it.conv_weight_gradient
"""
"""Lines of names and what to write; `it` is `ingle.tensor`, `x` a tensor."""

REFUSED = """
tensors never change and share no memory that a program sees:
    *_storage storage* storage_offset untyped_storage set_ resize resize_* resize_as*
    *Storage Storage* stride is_set_to is_contiguous is_pinned pin_memory share_memory_
    is_shared data_ptr const_data_ptr record_stream dim_order is_conj is_neg slice_inverse
    module_load as_subclass from_file is_storage memory_format channels_last*
    contiguous_format preserve_format legacy_contiguous_format layout strided
nothing is recorded in tensors; gradients are values (docs/gradients.md):
    grad_fn grad_dtype is_leaf retains_grad output_nr is_inference
    register_post_accumulate_grad_hook reinforce volatile name hash_tensor
    embedding_renorm_
there are no sparse tensors:
    *sparse* to_dense coalesce is_coalesced col_indices* crow_indices* ccol_indices*
    row_indices* indices indices_copy values values_copy dense_dim smm sspaddmm spmm hspmm
    hsmm dsmm saddmm to_mkldnn masked
there are no nested tensors; pad, and mask what is padded:
    is_nested to_padded_tensor nested jagged
nobody has written it so far:
    cumulative_trapezoid index is_mkldnn
LAPACK's own factors are not offered; see ingle.tensor.linalg:
    geqrf orgqr ormqr lobpcg lu_unpack svd_lowrank pca_lowrank
special functions and rare ones; write them with operations, or ask:
    airy_ai bessel_* chebyshev_* erfcx hermite_* laguerre_* legendre_* log_ndtr
    modified_bessel_* multigammaln scaled_modified_bessel_* shifted_chebyshev_*
    spherical_bessel_* zeta mvlgamma frexp renorm float4* conv_tbc alpha_dropout alpha_dropout_
    feature_alpha_dropout feature_alpha_dropout_ *grouped_mm scaled_mm
a dtype that Ingle does not have:
    complex32 chalf bits* bit int1 int3 int5 int6 int7 uint1 uint3 uint5 uint6 uint7
    float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu qint* quint* qscheme per_channel_*
    per_tensor_* is_quantized
a tensor's class is ingle.tensor.Tensor for every dtype and device:
    *Tensor TensorType
quantized layers are ingle.tensor.quantize and the functions on it:
    quantized_* fbgemm_* empty_quantized
a backend is a plugin, and its calls are its own:
    cudnn_* miopen_* mkldnn_* is_vulkan_available has_* is_distributed accelerator
    backends get_device_module Stream* Event DeviceObjType mps mtia cuda xpu cpu
mixed precision is a block or a decorator, it.precision (docs/mixed-precision.md):
    *autocast*
products of float32 are computed in float32:
    set_float32_matmul_precision get_float32_matmul_precision set_flush_denormal
results repeat bit for bit on one machine:
    *determinis* thread_safe_generator
distributed training is not offered:
    distributed AVG SUM futures fork wait RRefType Future* AwaitType
a part of PyTorch itself, not of computing with tensors:
    Alias* Any* Argument* Benchmark* Block Bool* Byte* CallStack Capsule Char* Class* Code
    CompilationUnit Complete* Complex* Concrete* DeepCopy* Deserial* Dict* Disable*
    Dispatch* Double* Enum* ErrorReport Exclude* Execution* Fatal* FileCheck Float*
    Function* Gradient Graph* Half* IODescriptor Inferred* Int* Interface* JIT* List*
    Lite* Locking* Logger* Long* Node None* Noop* Number* Operator* Optional* Py* QInt*
    QUInt* Script* Serialization* Short* Static* String* Sym* sym_* Tag Throughput*
    Tracing* Tuple* Type Typed* Union* Untyped* Use Value Accelerator* Aggregation* ao
    builtins classes cpp ctypes export fx hub onnx jit library monitor multiprocessing
    overrides package platform quantization quasirandom return_types serialization signal
    sparse testing torch torch_version types utils version windows functools glob
    importlib inspect math os sys textwrap threading warnings dataclasses np TYPE_CHECKING
    common_args multi_dim_common
    USE_* PRIVATE_OPS Callable Optional Broadcasting* GRID_SAMPLE_* ScalingType
    SwizzleType assert_int_or_pair boolean_dispatch handle_torch_function
    has_torch_function* *_notes classproperty compiled_with_cxx11_abi get_file_path
    import_ir_module* init_num_threads merge_type_from_type_comment parse_*
    prepare_multiprocessing_environment profiler_* typename unify_type_list
    is_warn_always_enabled set_warn_always get_autocast* storage
"""
"""Reasons, and indented below each the names it holds for, as patterns."""

_HOMES = {
    "it": "ingle.tensor",
    "it.linalg": "ingle.tensor.linalg",
    "it.fft": "ingle.tensor.fft",
    "it.random": "ingle.tensor.random",
}


def _refusals() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    reason = ""
    for line in REFUSED.strip().splitlines():
        if line.startswith(" "):
            found[reason] += line.split()
        else:
            reason = line.removesuffix(":")
            found[reason] = []
    return found


renamed = table(RENAMED)
refused = _refusals()


def home(name: str) -> str | None:
    """Where a public name of the same spelling is: `it.linalg.det`; None if nowhere."""
    for short, module in _HOMES.items():
        if name in vars(importlib.import_module(module)):
            return f"{short}.{name}"
    return None


def _of_x(code: str) -> str:
    """What an answer is for a method of `x`: called with all that it needs, of `x` and others."""
    path = code.split(".")
    if path[0] == "it" and all(part.isidentifier() for part in path):
        function = importlib.import_module("ingle.tensor")
        for part in path[1:]:
            function = getattr(function, part)
        if not inspect.isroutine(function):  # a module, a dtype, a number such as pi
            return code
        needed = [
            p for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]  # fmt: skip
        by_name = [f"{p.name}=..." for p in needed if p.kind is p.KEYWORD_ONLY]
        others = [p.name for p in needed[1:] if p.kind is not p.KEYWORD_ONLY]
        first = needed[0].name if "x" in others else "x"
        return f"{code}({', '.join([first, *('y' if n == 'x2' else n for n in others), *by_name])})"
    names = {"c": "x"} if re.search(r"\bc\b", code) else {"a": "x", "b": "y"}
    if not re.search(r"\bx\b", code):
        code = re.sub(r"(?<![\w.])[abc](?!\w)", lambda m: names.get(m[0], m[0]), code)
    return code


def _is_method(name: str) -> bool:
    # While the package is imported the class is not there yet.
    tensor = vars(importlib.import_module("ingle.tensor")).get("Tensor", object)
    return any(name in vars(c) for c in tensor.__mro__)


def missing(name: str) -> NoReturn:
    """What `ingle.tensor` raises for a name that it does not have; the message says what to write.

    Raises:
        AttributeError: always; it says what to write, where that is known.

    >>> import ingle.tensor as it
    >>> it.cat
    Traceback (most recent call last):
        ...
    AttributeError: ingle.tensor has no attribute 'cat'; write it.concat([a, b], axis=...)
    """
    said = f"ingle.tensor has no attribute {name!r}"
    told = None if name.startswith("_") else answer(name)
    raise AttributeError(said if told is None else f"{said}; {told}", name=name)


def answer(name: str, place: str = "torch") -> str | None:
    """What to write for one of PyTorch's public names, or why it is not offered.

    Args:
        name: as in `torch.Tensor`, `torch` or `torch.nn.functional`.
        place: which of the three, as `"Tensor"`, `"torch"` or `"nn.functional"`.

    Returns:
        A sentence, or None for a name that is not PyTorch's.

    >>> from ingle.tensor.pytorch_names import answer
    >>> answer("permute")
    'write it.permute_dims(x, axes)'
    >>> answer("relu_", "Tensor")
    'tensors never change; write x = it.relu(x)'
    >>> answer("exp")
    'write it.exp'
    """
    code = renamed.get(f"{place}.{name}") or renamed.get(name)
    same = None if code else home(name)
    if same is not None:
        return f"write {_of_x(same) if place == 'Tensor' else same}"
    if code is not None:
        return f"write {code}"
    if name.endswith("_") and not name.startswith("_"):
        base = name[:-1]
        told = answer(base, place)
        if told is not None:
            found = told.removeprefix("write ")
            return told if found == told else f"tensors never change; write x = {_of_x(found)}"
    if _is_method(name):
        return f"write x.{name}()"
    for pattern, code in renamed.items():
        if "*" in pattern and fnmatchcase(name, pattern):
            return f"write {code}"
    for reason, patterns in refused.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return f"not offered: {reason}"
    return None
