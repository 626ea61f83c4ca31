"""Run the checks on attempts, in processes of their own."""
