"""Operations on lists of tensors, derived from those on one tensor."""
