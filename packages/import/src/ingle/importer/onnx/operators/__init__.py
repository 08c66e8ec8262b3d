"""The operators by family; importing this package fills the table."""

from . import activations as activations
from . import arithmetic as arithmetic
from . import attention as attention
from . import casting as casting
from . import comparison as comparison
from . import control as control
from . import convolution as convolution
from . import creation as creation
from . import images as images
from . import indexing as indexing
from . import losses as losses
from . import movement as movement
from . import normalization as normalization
from . import pooling as pooling
from . import products as products
from . import quantization as quantization
from . import recurrent as recurrent
from . import reductions as reductions
from . import regions as regions
from . import sequences as sequences
from . import signals as signals
from . import strings as strings
from . import traditional as traditional
from . import training as training
from . import trees as trees
