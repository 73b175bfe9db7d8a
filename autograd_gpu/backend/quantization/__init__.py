"""Arrays as float16, bfloat16 and float8 codes with a scale."""
