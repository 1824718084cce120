"""What the figures were measured on."""

import os
import platform
import re
from pathlib import Path


def machine():
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "transparent_hugepage": pages.read_text(encoding="utf-8").strip() if pages.exists() else "",
    }
