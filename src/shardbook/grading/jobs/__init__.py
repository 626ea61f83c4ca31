"""Run attempts in processes of their own, whatever they do there."""
