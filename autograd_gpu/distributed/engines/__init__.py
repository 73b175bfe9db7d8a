"""What moves arrays between processes: one small interface, `base.Engine`, and what implements it."""
