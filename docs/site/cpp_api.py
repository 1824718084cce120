"""Pages for the headers: one per header and language, which Breathe fills from Doxygen's XML."""

# Title, introduction, headers: paths below include/ or frameworks/libtorch/include/.
CPP = {
    "cpp-core": (
        "C++: communicator and errors",
        "`#include <xoe/xoe.h>`, link `xoe::comm`. One thread at a time per communicator; every function returns a `Status` or a `Result`.",
        ["xoe/communicator.h", "xoe/collective.h", "xoe/tensor.h", "xoe/reduce_op.h", "xoe/memory.h", "xoe/status.h"],
    ),
    "cpp-engine": (
        "C++: engine",
        "`#include <xoe/engine.h>`, link `xoe::engine`: named tensors in any order, from any thread.",
        ["xoe/engine.h"],
    ),
    "cpp-torch": (
        "C++: libtorch",
        "`#include <xoe/torch.h>`, link `xoe::torch`.",
        ["xoe/torch/optimizer.h", "xoe/torch/broadcast.h", "xoe/torch/tensors.h"],
    ),
    "cpp-data": (
        "C++: input pipeline",
        "`#include <xoe/data.h>`, link `xoe::data`. It needs no other part of Xoe.",
        [
            "xoe/data/images.h",
            "xoe/data/image_transform.h",
            "xoe/data/pixels.h",
            "xoe/data/augment.h",
            "xoe/data/stage.h",
            "xoe/data/stages.h",
            "xoe/data/map_and_batch.h",
            "xoe/data/records.h",
            "xoe/data/record_writer.h",
            "xoe/data/example.h",
            "xoe/data/files.h",
            "xoe/data/report.h",
            "xoe/data/opened.h",
            "xoe/data/on_error.h",
        ],
    ),
    "cpp-stats": (
        "C++: quality of scores",
        "`#include <xoe/stats.h>`, link `xoe::stats`: AUROC with DeLong's variance, ROC curves. It needs no other part of Xoe.",
        ["xoe/stats.h"],
    ),
}
C = {
    "c-core": ("C: engine", "`#include <xoe/c.h>`, link `-lxoe`. [The C interface](c.md) is the guide to it.", ["xoe/c.h"]),
    "c-data": ("C: input pipeline", "`#include <xoe/c_data.h>`, link `-lxoe`.", ["xoe/c_data.h"]),
}


def page(title, introduction, headers):
    parts = [f"# {title}", introduction]
    for header in headers:
        if len(headers) > 1:
            parts.append(f"## {header}")
        parts.append(f"```{{doxygenfile}} {header.rsplit(chr(47), 1)[-1]}\n:project: xoe\n```")
    return "\n\n".join(parts) + "\n"


def index(title, text, pages):
    entries = "\n".join(pages)
    return f"# {title}\n\n{text}\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"


def pages(_root):
    made = {f"reference/{name}.md": page(*parts) for name, parts in {**CPP, **C}.items()}
    made["reference/cpp.md"] = index(
        "The C++ interface",
        "Generated from the public headers, which are contracts: what a function does, units, ownership, threads, errors.",
        CPP,
    )
    made["reference/c-api.md"] = index(
        "The C functions", "Generated from the public headers. Read [the C interface](c.md) first.", C
    )
    return made
