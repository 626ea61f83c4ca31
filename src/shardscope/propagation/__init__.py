"""How each value of a program is sharded, and what decided it."""
