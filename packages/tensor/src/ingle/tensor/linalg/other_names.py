"""What `torch.linalg` and `numpy.linalg` call what is here."""

from ..other_names import answering, table

OTHERS = table("""
norm: it.linalg.vector_norm(x, axis=...), it.linalg.matrix_norm(x)
cholesky_ex: it.linalg.cholesky(x), which raises LinearAlgebraError
inv_ex: it.linalg.inv(x), which raises LinearAlgebraError
solve_ex: it.linalg.solve(a, b), which raises LinearAlgebraError
lu_factor_ex: it.linalg.lu_factor(x)
vander: x[:, None] ** it.arange(n)
tensorinv: it.linalg.inv(x.reshape((n, n))).reshape(shape)
tensorsolve: it.linalg.solve(a.reshape((n, n)), b.ravel()).reshape(shape)
householder_product: it.linalg.qr(x), LAPACK's own factors are not offered
ldl_factor ldl_factor_ex ldl_solve: it.linalg.lu_factor(x), it.linalg.lu_solve(packed, pivots, b)
LinAlgError: ingle.tensor.errors.LinearAlgebraError
""")

answering("ingle.tensor.linalg", OTHERS)
