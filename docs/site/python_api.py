"""The reference of the Python package: signatures and docstrings, read from the source without importing it."""

import ast
import re
import textwrap

PACKAGE = "frameworks/python"
# Title, module as users import it, and the names that come first; the others follow in the order of the source.
MODULES = (
    (
        "xoe.torch",
        "PyTorch, with Horovod's names",
        (
            "init",
            "shutdown",
            "rank",
            "size",
            "local_rank",
            "local_size",
            "cross_rank",
            "cross_size",
            "DistributedOptimizer",
            "broadcast_parameters",
            "broadcast_optimizer_state",
            "broadcast_object",
            "allgather_object",
        ),
    ),
    ("xoe.torch.optim", "Optimizers for large batches", ("LARS", "LAMB")),
    ("xoe.torch.elastic", "Elastic training", ("run", "TorchState")),
    ("xoe.torch.data", "The input pipeline as tensors", ()),
    ("xoe.torch.distributed", "The backend of torch.distributed", ()),
    ("xoe.jax", "JAX", ("init", "allreduce", "DistributedOptimizer", "ShardedOptimizer", "broadcast_parameters")),
    ("xoe.jax.data", "Images as arrays of JAX", ()),
    ("xoe.tensorflow", "TensorFlow, with Horovod's names", ("init", "allreduce", "DistributedGradientTape", "DistributedOptimizer")),
    ("xoe.tensorflow.data", "Images as a tf.data.Dataset", ()),
    ("xoe.keras", "Keras 3", ("init", "DistributedOptimizer", "load_model")),
    ("xoe.keras.callbacks", "Callbacks", ()),
    ("xoe.keras.data", "Images as a PyDataset", ()),
    ("xoe.mxnet", "MXNet, with Horovod's names", ("init", "DistributedTrainer", "broadcast_parameters")),
    ("xoe.ray", "Ranks as actors of Ray", ("run", "Executor", "report")),
    ("xoe.spark", "Ranks in tasks of Spark", ("run",)),
    ("xoe.spark.torch", "An estimator for PyTorch on Spark", ()),
    ("xoe.spark.lightning", "An estimator for Lightning on Spark", ()),
    ("xoe.spark.keras", "An estimator for Keras on Spark", ()),
    ("xoe.spark.store", "Where estimators keep their data", ("Store",)),
    ("xoe", "Without a framework", ("init", "run")),
    ("xoe.data", "The input pipeline as arrays", ()),
    ("xoe.records", "Plain records in elastic training", ()),
    ("xoe.ledger", "Which records each step consumed", ()),
    ("xoe.stats", "AUROC and its uncertainty", ()),
    ("xoe.errors", "Exceptions", ()),
)
# Where the names of `xoe` itself are, which imports them on first use.
HOMES = ("xoe.errors", "xoe.process_sets", "xoe.world", "xoe.initialize", "xoe.runner", "xoe.topology")
FRAMEWORKS = ("xoe.torch", "xoe.jax", "xoe.tensorflow", "xoe.keras", "xoe.mxnet")
QUIET = {"xoe": ("xoe.errors",), **dict.fromkeys(FRAMEWORKS, ("xoe.errors", "xoe.build_info"))}  # described elsewhere, or of no interest


class Source:
    """The syntax trees of the package's modules."""

    def __init__(self, root):
        self.root = root / PACKAGE
        self.trees = {}

    def tree(self, module):
        if module not in self.trees:
            base = self.root / module.replace(".", "/")
            path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            self.trees[module] = ast.parse(path.read_text())
        return self.trees[module]

    def definition(self, module, name):
        """The module and the node that define a name, through imports; None for what is neither function, class nor value."""
        for node in self.tree(module).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return module, node
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in assigned(node):
                return module, node
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xoe"):
                for alias in node.names:
                    if alias.name == "*" and (found := self.definition(node.module, name)):
                        return found
                    if (alias.asname or alias.name) == name and not self.is_module(f"{node.module}.{alias.name}"):
                        return self.definition(node.module, alias.name)
        return None

    def is_module(self, module):
        base = self.root / module.replace(".", "/")
        return base.is_dir() or base.with_suffix(".py").exists()

    def imported(self, module):
        """The names that a module imports for its users, those of another module's ``*`` too."""
        for node in ast.walk(self.tree(module)):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if alias.name == "*":
                    yield from self.imported(node.module)
                elif alias.asname:
                    yield alias.asname

    def public(self, module):
        """The public names of a module, each with its definition, in the order of the source."""
        tree = self.tree(module)
        listed = next(
            (
                ast.literal_eval(node.value)
                for node in tree.body
                if isinstance(node, ast.Assign) and assigned(node) == ["__all__"]
            ),
            None,
        )
        if module == "xoe":
            found = {name: next(filter(None, (self.definition(home, name) for home in HOMES)), None) for name in listed}
        elif listed is not None:
            found = {name: self.definition(module, name) for name in listed}
        elif module in FRAMEWORKS:
            found = {name: self.definition(module, name) for name in self.imported(module)}
        else:
            found = {
                node.name: (module, node)
                for node in tree.body
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
            }
        return {name: place for name, place in found.items() if place and place[0] not in QUIET.get(module, ())}


def assigned(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def signature(node):
    arguments = ast.unparse(node.args)
    for first in ("self, ", "cls, ", "self", "cls"):
        if arguments.startswith(first):
            arguments = arguments.removeprefix(first)
            break
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({arguments}){returns}"


PARAMETER = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): +(.*)")


def unindented(node):
    """The lines of a docstring without the indentation of the code around it, which inspect.cleandoc would have to guess."""
    text = ast.get_docstring(node, clean=False)
    first, *others = (text or "").rstrip().split("\n")
    column = node.body[0].col_offset if text else 0
    return [first, *(line[column:].rstrip() for line in others)]


def docstring(node):
    """A docstring as reStructuredText: paragraphs of `name: text`, with hanging indents, become lists of parameters."""
    lines = []
    inside = False
    for line in unindented(node):
        parameter = PARAMETER.fullmatch(line)
        if parameter and (inside or not lines or not lines[-1]):
            lines.append(f":param {parameter[1]}: {parameter[2]}")
            inside = True
        elif inside and line and not line.startswith(" "):
            lines.append(f"    {line}")  # its continuation lines are not indented
        else:
            inside = inside and bool(line)
            lines.append(line)
    return "\n".join(lines)


def directive(kind, name, text, body, options=()):
    lines = [f".. py:{kind}:: {name}{text}", *(f"   {option}" for option in options), ""]
    return "\n".join(lines) + "\n" + textwrap.indent(body.rstrip() + "\n", "   ") + "\n"


def methods(source, module, node):
    parts = []
    for item in node.body:
        if not isinstance(item, ast.FunctionDef) or item.name.startswith("_") or not docstring(item):
            continue
        decorators = [ast.unparse(decorator) for decorator in item.decorator_list]
        if "property" in decorators:
            parts.append(directive("property", item.name, "", docstring(item)))
        elif not any(decorator.endswith(".setter") for decorator in decorators):
            options = [f":{kind}:" for kind in ("staticmethod", "classmethod") if kind in decorators]
            parts.append(directive("method", item.name, signature(item), docstring(item), options))
    for base in node.bases:  # of private bases the public methods too
        if not isinstance(base, ast.Name) or not base.id.startswith("_"):
            continue
        place = source.definition(module, base.id)
        if place and isinstance(place[1], ast.ClassDef):
            parts += methods(source, *place)
    return parts


def description(source, name, module, node):
    if isinstance(node, ast.FunctionDef):
        return directive("function", name, signature(node), docstring(node))
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases if not ast.unparse(base).startswith("_")]
        text = f"Based on {', '.join(f'``{base}``' for base in bases)}.\n\n" if bases else ""
        init = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
        dataclass = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
        body = text + docstring(node) + "\n\n" + "\n".join(methods(source, module, node))
        kind = "exception" if name.endswith(("Error", "Interrupt")) else "class"
        return directive(kind, name, signature(init).removesuffix(" -> None") if init and not dataclass else "", body)
    value = ast.unparse(node.value) if node.value else ""
    return directive("data", name, "", "", [f":value: {value}"] if 0 < len(value) < 60 else [])


def page(source, module, title, first):
    heading = f"{module}: {title}"
    parts = [heading, "=" * len(heading), "", docstring(source.tree(module)), "", f".. py:module:: {module}", ""]
    found = source.public(module)
    for name in [*(name for name in first if name in found), *(name for name in found if name not in first)]:
        parts.append(description(source, name, *found[name]))
    text = "\n".join(parts)
    # Several modules have this class; their submodules do not, and Sphinx would not know which one is meant.
    return text if module in FRAMEWORKS or module == "xoe" else re.sub(r"(?<![.\w])ProcessSet\b", "xoe.ProcessSet", text)


def pages(root):
    source = Source(root)
    made = {f"reference/python/{module}.rst": page(source, module, title, first) for module, title, first in MODULES}
    entries = "\n".join(f"python/{module}" for module, _, _ in MODULES)
    made["reference/python.md"] = (
        "# The Python package\n\nGenerated from the docstrings. The guides explain how the parts work together: "
        "[training with PyTorch](../guide/pytorch.md), [torch.distributed](../guide/torch-distributed.md), [data](../guide/data.md).\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"
    )
    return made
