"""A job whose output a test reads while it runs."""

import re
import time

import ranks


class RunningJob:
    """`process` is the launcher's, `output` the file that it writes."""

    def text(self):
        return self.output.read_text()

    def until(self, pattern, times=1):
        """Waits until the output has it so often."""
        end = time.monotonic() + ranks.HANGS
        while len(re.findall(pattern, self.text())) < times:
            assert time.monotonic() < end and self.process.poll() is None, f"no {pattern}: {self.text()}"
            time.sleep(0.01)

    def begins(self, slot, size, times=1):
        """Waits until the rank of resize_training.py in this slot has begun in a world of this size; gives its pid."""
        pattern = rf"\[{slot}\] pid (\d+) rank \d+ of {size} from step"
        self.until(pattern, times)
        return int(re.findall(pattern, self.text())[-1])
