"""Operations that CuPy computes where no kernel is generated."""
