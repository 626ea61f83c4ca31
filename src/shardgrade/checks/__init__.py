"""What a right answer to each problem must show."""
