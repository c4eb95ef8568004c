"""Looking at targets: each check observes, none alerts."""
