"""The error function, which NumPy lacks, by polynomials within 2 ulp.

Below 1 it is x + x P(x²); above, 1 - exp(-x²) Q(t) with t = (x - 2) / (x + 2), after Shepherd and
Laframboise: Chebyshev approximation of (1 + 2x) exp(x²) erfc(x) (Mathematics of Computation 36,
1981). The coefficients interpolate P and Q at Chebyshev nodes, computed with 50 digits; the
highest power comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import in_blocks
from .selecting import select

_P64 = (
    -7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07,
    1.6447424703317362e-06, -1.492473690741966e-05, 0.00012055294904839707,
    -0.0008548325975389692, 0.0052239776071164225, -0.02686617064323777, 0.11283791670945006,
    -0.37612638903183543, 0.12837916709551256,
)  # fmt: skip
_Q64 = (
    -4.215301054238321e-07, -5.322696855655786e-07, 1.1780775215625583e-06,
    3.789215643758464e-06, 1.392621183618803e-06, -1.396807230177146e-05,
    -2.7579864674305787e-05, 2.7525480361206068e-05, 0.00017436116545392264,
    4.355560219515472e-05, -0.000981977026567889, -0.0008471432509203844, 0.006997461739200444,
    0.003732892404327764, -0.07897858101573213, 0.24165819424246646, -0.4271858474139584,
    0.25539567631050575,
)  # fmt: skip
_P32 = (
    -0.0005648059866, 0.004921762028, -0.02671505423, 0.1128031665, -0.3761234378, 0.1283791262,
)  # fmt: skip
_Q32 = (
    4.987674193e-05, -0.0009395269022, -0.0008476555787, 0.006993954025, 0.003732908027,
    -0.07897847315, 0.2416581941, -0.4271858483, 0.2553956763,
)  # fmt: skip


@in_blocks
def erf(x: Any) -> Any:
    """Of a float32 or float64 array; beyond the clipped end the result is 1 in its dtype."""
    p, q, end = (_P64, _Q64, 6.0) if x.dtype == np.float64 else (_P32, _Q32, 4.0)
    number = x.dtype.type
    a = np.minimum(np.absolute(x), number(end))
    z = a * a
    near = _polynomial(z, p)
    near *= a
    near += a
    far = _polynomial((a - number(2)) / (a + number(2)), q)
    far *= np.exp(-z)
    return np.copysign(select(a < 1, near, number(1) - far), x)


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    number = x.dtype.type
    total = x * number(coefficients[0]) + number(coefficients[1])
    for c in coefficients[2:]:
        total *= x
        total += number(c)
    return total
