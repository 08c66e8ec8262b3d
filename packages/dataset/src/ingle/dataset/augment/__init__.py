"""Augmentations of batches, on tensors and so on their device: of images and of sounds.

Each is a function of a batch and, if it is random, of a generator; each example of a batch gets a
draw of its own. Needs `ingle-tensor`.
"""

from importlib.util import find_spec

if find_spec("ingle.tensor") is None:
    raise ModuleNotFoundError(
        'ingle.dataset.augment computes on tensors: pip install "ingle-dataset[tensor]"',
        name="ingle.tensor",
    )

from .audio import AddNoise as AddNoise
from .audio import FrequencyMasking as FrequencyMasking
from .audio import LogMelSpectrogram as LogMelSpectrogram
from .audio import MelSpectrogram as MelSpectrogram
from .audio import Resample as Resample
from .audio import TimeMasking as TimeMasking
from .audio import mel_filters as mel_filters
from .base import Compose as Compose
from .base import RandomApply as RandomApply
from .colors import ColorJitter as ColorJitter
from .colors import Normalize as Normalize
from .colors import RandomGrayscale as RandomGrayscale
from .geometry import CenterCrop as CenterCrop
from .geometry import RandomAffine as RandomAffine
from .geometry import RandomCrop as RandomCrop
from .geometry import RandomErasing as RandomErasing
from .geometry import RandomHorizontalFlip as RandomHorizontalFlip
from .geometry import RandomResizedCrop as RandomResizedCrop
from .geometry import RandomRotation as RandomRotation
from .geometry import RandomVerticalFlip as RandomVerticalFlip
from .geometry import Resize as Resize
from .mixing import CutMix as CutMix
from .mixing import MixUp as MixUp
from .rand_augment import RandAugment as RandAugment
