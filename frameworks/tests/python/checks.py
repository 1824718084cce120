"""What the tests of every framework check in the same way."""


def raises(kind, call, *words):
    """The error of this kind that the call raises, whose message has all of these words."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return error
    raise AssertionError(f"{kind} was not raised")


def operations():
    """How many operations the engine has completed."""
    import xoe

    lines = [line for line in xoe.metrics().splitlines() if line.startswith("xoe_operations_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
