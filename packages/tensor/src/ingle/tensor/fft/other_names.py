"""What `torch.fft` and `numpy.fft` call what is here."""

from ..other_names import answering, table

OTHERS = table("""
fft2: it.fft.fftn(x, axes=(-2, -1))
ifft2: it.fft.ifftn(x, axes=(-2, -1))
rfft2: it.fft.rfftn(x, axes=(-2, -1))
irfft2: it.fft.irfftn(x, axes=(-2, -1))
hfft2 hfftn: it.fft.hfft(it.fft.fftn(x, axes=others), axis=last)
ihfft2 ihfftn: it.fft.ifftn(it.fft.ihfft(x, axis=last), axes=others)
""")

answering("ingle.tensor.fft", OTHERS)
