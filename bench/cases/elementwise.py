"""Elementwise functions, activations and losses."""

from __future__ import annotations

from .case import Case, N, between, case, cases, constant, flags, integers, normal

X = normal(512, N)
Y = normal(512, N)
POSITIVE = between(0.1, 4.0, 512, N)
INSIDE = between(-0.95, 0.95, 512, N)

ELEMENTWISE: tuple[Case, ...] = (
    *cases("abs exp expm1 sin cos tan sinh cosh tanh asinh atan erf sigmoid square sign", X),
    *cases("ceil floor trunc round isfinite isinf isnan signbit negative", X),
    *cases("log log1p log2 log10 sqrt rsqrt reciprocal", POSITIVE),
    *cases("acos asin atanh", INSIDE),
    case("acosh", between(1.1, 4.0, 512, N)),
    *cases("add subtract multiply divide maximum minimum atan2 copysign hypot logaddexp", X, Y),
    case("equal", X, Y, torch="eq"),  # PyTorch's `equal` is one answer for all elements
    *cases("less greater_equal remainder floor_divide fmod nextafter", X, Y),
    case("pow", POSITIVE, Y),
    case("pow/square", X, ingle=lambda it, x: x**2, torch=lambda torch, x: x**2),
    case("pow/cube", X, ingle=lambda it, x: x**3, torch=lambda torch, x: x**3),
    case("clip", X, min=-0.5, max=0.5),
    case("where", flags(512, N), X, Y),
    case("add/row", X, normal(N), torch="add"),
    case("multiply/column", X, normal(512, 1), torch="multiply"),
    *cases("logical_and logical_xor", flags(512, N), flags(512, N)),
    *cases("bitwise_and bitwise_or", integers(99, 512, N), integers(99, 512, N)),
    case("bitwise_invert", integers(99, 512, N), torch="bitwise_not"),
    case("astype/float64", X, ingle=lambda it, x: it.astype(x, it.float64),
         torch=lambda torch, x: x.to(torch.float64)),
    case("astype/float16", X, ingle=lambda it, x: it.astype(x, it.float16),
         torch=lambda torch, x: x.to(torch.float16)),
    case("isclose", X, Y), case("angle", X), case("deg2rad", X),
    *cases("exp2 sinc erfc lgamma digamma i0 nan_to_num", X),
    case("i1", X, torch=lambda torch, x: torch.special.i1(x)),
    case("erfinv", INSIDE), case("logit", between(0.05, 0.95, 512, N)),
    case("polygamma", POSITIVE, ingle=lambda it, x: it.polygamma(2, x),
         torch=lambda torch, x: torch.polygamma(2, x)),
    *cases("fmax fmin heaviside", X, Y), *cases("xlogy igamma igammac", POSITIVE, POSITIVE),
    case("lerp", X, Y, ingle=lambda it, x, y: it.lerp(x, y, 0.25),
         torch=lambda torch, x, y: torch.lerp(x, y, 0.25)),
    *cases("gcd lcm", integers(999, 512, N), integers(999, 512, N)),
    case("round/decimals", X, ingle=lambda it, x: it.round(x, decimals=2),
         torch=lambda torch, x: torch.round(x, decimals=2)),
    # Activations.
    *cases("relu relu6 leaky_relu elu celu selu hardtanh hardsigmoid hardswish hardshrink", X),
    *cases("softshrink logsigmoid softplus silu mish softsign tanhshrink gelu", X),
    case("gelu/tanh", X, approximate="tanh"),
    case("glu", X, torch=lambda torch, x: torch.nn.functional.glu(x, -1)),
    case("threshold", X, args=(0.1, 2.0)),
    case("prelu", normal(64, 64, N), normal(64), n=128),
    # Losses.
    *cases("mse_loss l1_loss smooth_l1_loss huber_loss", X, Y),
    *cases("soft_margin_loss hinge_embedding_loss", X, constant(Y)),
    case("binary_cross_entropy", between(0.05, 0.95, 512, N), between(0, 1, 512, N)),
    case("binary_cross_entropy_with_logits", X, between(0, 1, 512, N)),
    case("kl_div", X, between(0.1, 1, 512, N), reduction="sum"),
    case("poisson_nll_loss", X, POSITIVE),
    case("gaussian_nll_loss", X, Y, POSITIVE),
    case("cross_entropy", normal(N, 1000), integers(1000, N)),
    case("cross_entropy/smoothed", normal(N, 1000), integers(1000, N), label_smoothing=0.1),
    case("cross_entropy/probabilities", normal(N, 1000), between(0, 1e-3, N, 1000)),
    case("cross_entropy/image", normal(8, 21, N, 64), integers(21, 8, N, 64), n=64),
    case("nll_loss", normal(N, 1000), integers(1000, N)),
    case("multi_margin_loss", normal(N, 100), integers(100, N), n=4096),
    case("multilabel_margin_loss", normal(N, 100), integers(100, N, 100), n=512),
    case("multilabel_soft_margin_loss", X, between(0, 1, 512, N)),
    case("cosine_embedding_loss", X, Y, integers(1, 512)),
    case("margin_ranking_loss", X, Y, between(-1, 1, 512, N)),
    case("triplet_margin_loss", X, Y, normal(512, N)),
    *cases("cosine_similarity pairwise_distance", X, Y),
    case("cdist", normal(N, 64), normal(512, 64), n=512),
    case("normalize", X), case("softmin", X, axis=-1),
)  # fmt: skip
