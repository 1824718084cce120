"""The houses of the source tree (docs/developing/map.md), from the lowest up: a house sees those before it."""

HOUSES = ("core", "data", "launch", "frameworks", "train", "pool", "measure")
