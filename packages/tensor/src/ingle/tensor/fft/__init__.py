"""Fourier transforms: the extension `fft` of the Array API standard."""

from ..habits import install as _install_habits
from ..ops.fourier import fft as fft
from ..ops.fourier import fftn as fftn
from ..ops.fourier import hfft as hfft
from ..ops.fourier import ifft as ifft
from ..ops.fourier import ifftn as ifftn
from ..ops.fourier import ihfft as ihfft
from ..ops.fourier import irfft as irfft
from ..ops.fourier import irfftn as irfftn
from ..ops.fourier import rfft as rfft
from ..ops.fourier import rfftn as rfftn
from ..ops.frequencies import fftfreq as fftfreq
from ..ops.frequencies import fftshift as fftshift
from ..ops.frequencies import ifftshift as ifftshift
from ..ops.frequencies import rfftfreq as rfftfreq

_install_habits(globals(), __name__)
