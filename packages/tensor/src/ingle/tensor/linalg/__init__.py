"""Linear algebra: the extension `linalg` of the Array API standard."""

from ..habits import install as _install_habits
from ..ops.cholesky import cholesky as cholesky
from ..ops.cholesky import cholesky_inverse as cholesky_inverse
from ..ops.cholesky import cholesky_solve as cholesky_solve
from ..ops.determinants import adjugate as adjugate
from ..ops.determinants import det as det
from ..ops.determinants import slogdet as slogdet
from ..ops.eigen import eigh as eigh
from ..ops.eigen import eigvalsh as eigvalsh
from ..ops.eigen_general import eig as eig
from ..ops.eigen_general import eigvals as eigvals
from ..ops.least_squares import cond as cond
from ..ops.least_squares import lstsq as lstsq
from ..ops.least_squares import multi_dot as multi_dot
from ..ops.linear_algebra import matmul as matmul
from ..ops.linear_algebra import matrix_transpose as matrix_transpose
from ..ops.linear_algebra import outer as outer
from ..ops.linear_algebra import tensordot as tensordot
from ..ops.linear_algebra import vecdot as vecdot
from ..ops.linear_systems import inv as inv
from ..ops.linear_systems import solve as solve
from ..ops.lu import lu as lu
from ..ops.lu import lu_factor as lu_factor
from ..ops.lu import lu_permutation as lu_permutation
from ..ops.lu import lu_solve as lu_solve
from ..ops.matrix_exponential import matrix_exp as matrix_exp
from ..ops.matrix_products import cross as cross
from ..ops.matrix_products import matrix_power as matrix_power
from ..ops.matrix_products import trace as trace
from ..ops.norms import matrix_norm as matrix_norm
from ..ops.norms import vector_norm as vector_norm
from ..ops.pseudo_inverse import matrix_rank as matrix_rank
from ..ops.pseudo_inverse import pinv as pinv
from ..ops.qr import qr as qr
from ..ops.singular_values import svd as svd
from ..ops.singular_values import svdvals as svdvals
from ..ops.triangular import diagonal as diagonal
from ..ops.triangular_systems import solve_triangular as solve_triangular

_install_habits(globals(), __name__)
