"""Programs to try Xoe with: ``xoe run -np 2 python -m xoe.examples.mnist``."""
