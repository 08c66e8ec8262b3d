"""Creation: tensors from nothing but sizes and numbers."""
