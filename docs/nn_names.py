"""Writes nn-names.md: an answer for each module, initializer, optimizer and schedule of PyTorch's
and of Burn's. `nox -f nox.py -s names`.
"""

from __future__ import annotations

import importlib
from fnmatch import fnmatchcase
from pathlib import Path

from ingle.nn import pytorch_names as nn_tables
from ingle.nn.porting import INSTEAD
from ingle.optim import pytorch_names as optim_tables

PAGE = Path(__file__).with_name("nn-names.md")

HOMES = {
    "torch.nn": "ingle.nn",
    "torch.nn.init": "ingle.nn.init",
    "torch.nn.utils": "ingle.nn.utils",
    "torch.nn.utils.rnn": "ingle.nn.utils.rnn",
    "torch.nn.utils.parametrize": "ingle.nn.utils.parametrize",
    "torch.nn.utils.parametrizations": "ingle.nn.utils.parametrizations",
    "torch.nn.Module": "ingle.nn.Module",
    "torch.optim": "ingle.optim",
    "torch.optim.lr_scheduler": "ingle.optim.schedule",
    "torch.optim.swa_utils": "ingle.nn",
}
"""Where PyTorch has names, and where they are here."""

RENAMED = {
    "torch.nn": nn_tables.NN,
    "torch.nn.init": nn_tables.INIT,
    "torch.nn.utils": nn_tables.UTILS,
    "torch.nn.utils.rnn": nn_tables.RNN,
    "torch.nn.utils.parametrize": nn_tables.PARAMETRIZE,
    "torch.nn.Module": INSTEAD,
    "torch.optim": optim_tables.OPTIM,
    "torch.optim.lr_scheduler": optim_tables.SCHEDULES,
    "torch.optim.swa_utils": optim_tables.AVERAGES,
}
"""What to write, by PyTorch's place and name."""

REFUSED = """
gradients are values, which hooks on modules do not see; see autodiff.custom_gradient:
    torch.nn.Module.register_*backward* torch.optim.swap_in_optimizer_params_and_state
a state is a mapping that can be changed before it is loaded:
    torch.nn.Module.register_*state_dict*
a part of PyTorch itself, not of building networks:
    torch.nn.common_types torch.nn.factory_kwargs torch.nn.modules
    torch.nn.Module.T_destination torch.nn.Module.call_super_init torch.nn.Module.dump_patches
    torch.nn.Module.share_memory torch.nn.utils.skip_init torch.nn.utils.convert_conv*
"""
"""Reasons, and indented below each the names it holds for, as patterns."""

BURN = """
Linear Embedding Dropout GaussianNoise Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
ConvTranspose3d DeformConv2d MaxPool1d MaxPool2d AvgPool1d AvgPool2d AdaptiveAvgPool1d
AdaptiveAvgPool2d AdaptiveAvgPool3d LayerNorm GroupNorm LocalResponseNorm PixelShuffle
PixelUnshuffle CosineSimilarity PairwiseDistance TransformerEncoder TransformerEncoderLayer
TransformerDecoder TransformerDecoderLayer PositionWiseFeedForward
Identity: nn.Identity
Unfold4d: nn.Unfold
Fold4d: nn.Fold
BatchNorm: nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d
InstanceNorm: nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d
RmsNorm: nn.RMSNorm
Normalization: nn.Module
Interpolate1d Interpolate2d: nn.Upsample
MultiHeadAttention CrossAttention: nn.MultiheadAttention
TensorCache: nn.KVCache
RotaryEncoding: nn.RotaryEmbedding
PositionalEncoding: nn.SinusoidalEncoding
Rnn BiRnn: nn.RNN
Gru BiGru: nn.GRU
Lstm BiLstm: nn.LSTM
GateController: nn.LSTMCell, nn.GRUCell
Celu: nn.CELU
Elu: nn.ELU
Gelu: nn.GELU
HardShrink: nn.Hardshrink
HardSigmoid: nn.Hardsigmoid
HardSwish: nn.Hardswish
LeakyRelu: nn.LeakyReLU
PRelu: nn.PReLU
Relu: nn.ReLU
Relu6: nn.ReLU6
RRelu: nn.RReLU
Selu: nn.SELU
Shrink SoftShrink: nn.Softshrink
SwiGlu: nn.SwiGLU
ThresholdedRelu: nn.ThresholdedReLU
Activation: nn.Module
GLU Hardtanh LogSigmoid Mish Sigmoid SiLU Softplus Softsign Tanh Tanhshrink Threshold
BinaryCrossEntropyLoss: nn.BCELoss, nn.BCEWithLogitsLoss
CosineEmbeddingLoss CrossEntropyLoss CTCLoss GaussianNLLLoss HingeEmbeddingLoss HuberLoss
KLDivLoss LpLoss MarginRankingLoss MultiMarginLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss
TripletMarginLoss GramMatrixLoss RNNTLoss
MseLoss: nn.MSELoss
Constant Ones Zeros Uniform Normal KaimingUniform KaimingNormal XavierUniform XavierNormal
Orthogonal: nn.init.Orthogonal
apply_lora: nn.apply_lora
apply_qlora: nn.apply_lora(model, quantize="int4")
apply_reparameterization: nn.utils.parametrize.register_parametrization
quantize_weights: nn.quantize
ParamGroup: nn.select, optim.param_groups
Sgd: optim.SGD
Adam: optim.Adam
AdamW: optim.AdamW
AdaGrad: optim.Adagrad
RMSProp: optim.RMSprop
Adan: optim.Adan
Muon: optim.Muon
LBFGS: optim.LBFGS
ConstantLr: optim.schedule.Constant
LinearLr: optim.schedule.Linear
CosineAnnealingLr: optim.schedule.Cosine, optim.schedule.CosineAnnealing
ExponentialLr: optim.schedule.Exponential
NoamLr: optim.schedule.Noam
StepLr: optim.schedule.Step
ComposedLr: optim.schedule.Composed
SequentialLr: optim.schedule.Sequential
GradientsAccumulator: grads_a + grads_b
"""
"""Burn's names (version 0.22): lines of names that are the same, or of names and what to write."""


def refusals() -> dict[str, list[str]]:
    """Patterns of full names by reason."""
    found: dict[str, list[str]] = {}
    reason = ""
    for line in REFUSED.strip().splitlines():
        if line.startswith(" "):
            found[reason] += line.split()
        else:
            reason = line.removesuffix(":")
            found[reason] = []
    return found


def of_burn() -> dict[str, str]:
    """What to write, by name."""
    found = {}
    for line in BURN.strip().splitlines():
        names, colon, code = line.partition(": ")
        found.update(dict.fromkeys(names.split(), code if colon else ""))
    return found


def home(place: str) -> object:
    """The object that has the names of a place of PyTorch's here."""
    path = HOMES[place]
    if path.endswith(".Module"):
        return getattr(importlib.import_module("ingle.nn"), "Module")  # noqa: B009
    return importlib.import_module(path)


def answer(place: str, name: str) -> str | None:
    """`"the same"`, what to write, or why not; None if nobody thought of it."""
    if hasattr(home(place), name):
        return "the same"
    renamed = RENAMED.get(place, {})
    if name in renamed:
        return renamed[name]
    full = f"{place}.{name}"
    for reason, patterns in refusals().items():
        if any(fnmatchcase(full, p) for p in patterns):
            return reason
    return None


def nn_names() -> str:
    """The page."""
    lines = [
        "# Modules, optimizers and schedules by PyTorch's and Burn's names",
        "",
        "Names that are not here are the same in `ingle.nn` and `ingle.optim` as in `torch.nn` and",
        "`torch.optim`, with the same arguments, defaults and state-dict keys. `size_average`,",
        "`reduce` are left out; `inplace` and `sparse` are taken and change nothing.",
    ]
    for place, names in RENAMED.items():
        by_code: dict[str, list[str]] = {}
        for name, code in names.items():
            by_code.setdefault(code, []).append(f"`{name}`")
        lines += ["", f"## `{place}`", "", "| PyTorch | Ingle |", "|---|---|"]
        lines += [f"| {', '.join(found)} | {_code(code)} |" for code, found in by_code.items()]
    lines += ["", "## Not offered", ""]
    for reason, patterns in refusals().items():
        lines.append(f"- **{reason}:** {', '.join(f'`{p}`' for p in patterns)}")
    burn = of_burn()
    same = ", ".join(f"`{n}`" for n, code in burn.items() if not code)
    lines += ["", "## Burn", "", f"The same: {same}.", "", "| Burn | Ingle |", "|---|---|"]
    lines += [f"| `{name}` | {_code(code)} |" for name, code in burn.items() if code]
    return "\n".join([*lines, ""])


def _code(text: str) -> str:
    plain = text.startswith(("the same", "leave", "any", "nobody", "for each"))
    return text if plain else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(nn_names(), "utf-8")
