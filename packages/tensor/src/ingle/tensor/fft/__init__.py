"""Fourier transforms: the extension `fft` of the Array API standard."""

from ..habits import install as _install_habits
from ..ops.signals.fourier import fft as fft
from ..ops.signals.fourier import fftn as fftn
from ..ops.signals.fourier import ifft as ifft
from ..ops.signals.fourier import ifftn as ifftn
from ..ops.signals.frequencies import fftfreq as fftfreq
from ..ops.signals.frequencies import fftshift as fftshift
from ..ops.signals.frequencies import ifftshift as ifftshift
from ..ops.signals.frequencies import rfftfreq as rfftfreq
from ..ops.signals.real_fourier import hfft as hfft
from ..ops.signals.real_fourier import ihfft as ihfft
from ..ops.signals.real_fourier import irfft as irfft
from ..ops.signals.real_fourier import irfftn as irfftn
from ..ops.signals.real_fourier import rfft as rfft
from ..ops.signals.real_fourier import rfftn as rfftn
from . import other_names as _other_names

_install_habits(globals(), __name__)
