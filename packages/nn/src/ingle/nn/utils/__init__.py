"""What PyTorch has in `torch.nn.utils`."""

from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import rnn as rnn
from .fusing import fuse_batch_norms as fuse_batch_norms
from .fusing import fuse_conv_bn_eval as fuse_conv_bn_eval
from .fusing import fuse_conv_bn_weights as fuse_conv_bn_weights
from .fusing import fuse_linear_bn_eval as fuse_linear_bn_eval
from .fusing import fuse_linear_bn_weights as fuse_linear_bn_weights
from .fusing import parameters_to_vector as parameters_to_vector
from .fusing import vector_to_parameters as vector_to_parameters
