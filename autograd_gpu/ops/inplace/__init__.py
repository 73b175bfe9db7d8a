"""Operations that write into their first operand."""
