"""Run, observe and judge a reader's attempt."""
