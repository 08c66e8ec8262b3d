"""What the public names of `torch.nn` are called here: data that errors, documentation and tests
share. Names that both have are in no table."""

from ingle.tensor.other_names import answering, table

NN = table("""
Container: nn.Module
NLLLoss2d: nn.NLLLoss
CrossMapLRN2d: nn.LocalResponseNorm
LinearCrossEntropyLoss LinearCrossEntropyOptions: nn.Linear, then nn.CrossEntropyLoss
DataParallel parallel: ingle.router, several devices as one
grad: it.conv_input_gradient, it.conv_weight_gradient
quantizable quantized: nn.quantize, ingle.tensor.quantize
qat intrinsic: nn.prepare(model, config, train=True)
""")

INIT = {
    name: f"nn.init.{name}_(parameter)"
    for name in (
        "uniform", "normal", "constant", "eye", "dirac", "orthogonal", "sparse", "xavier_uniform",
        "xavier_normal", "kaiming_uniform", "kaiming_normal",
    )
}  # fmt: skip

UTILS = table("""
clip_grad_norm clip_grad_norm_ clip_grads_with_norm_: optim.clip_grad_norm(grads, max_norm)
clip_grad_value_: optim.clip_grad_value(grads, max_value)
get_total_norm: grads.norm()
weight_norm: nn.utils.parametrizations.weight_norm
spectral_norm: nn.utils.parametrizations.spectral_norm
remove_weight_norm remove_spectral_norm: nn.utils.parametrize.remove_parametrizations
stateless: model.load_state_dict(state), or autodiff.grad of a function of values
""")

RNN = {"invert_permutation": "it.argsort(order)"}

PARAMETRIZE = table("""
type_before_parametrizations: type(module).__mro__[1]
transfer_parametrizations_and_params: copy.deepcopy(module)
""")

answering("ingle.nn", NN)
answering("ingle.nn.init", INIT)
answering("ingle.nn.utils", UTILS)
answering("ingle.nn.utils.rnn", RNN)
answering("ingle.nn.utils.parametrize", PARAMETRIZE)
