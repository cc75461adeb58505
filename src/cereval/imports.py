"""Import code when it is used: a user's own function, an optional package."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from cereval.errors import InvalidInput, Misuse, shown
from cereval.files import is_file
from cereval.text import did_you_mean

_loaded: dict[str, str] = {}
"""The digests of the modules that were loaded by name."""


def optional(module: str, extra: str) -> Any:
    """Return an optional package, or one line that says how to get it.

    >>> optional("json", "math").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Misuse(f"this needs the package `{module}`: pip install 'cereval[{extra}]'") from error


def load_function(field: str, spec: str) -> Callable[..., Any]:
    """Return the function that `module:function` or `path/file.py:function` names.

    >>> load_function("scorer", "math:sqrt")(9.0)
    3.0
    """
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise InvalidInput(
            field, "`python:module:function` or `python:path/file.py:function`", f"python:{spec}"
        )
    module = _file_module(field, Path(where)) if where.endswith(".py") else _named_module(field, where)
    function = getattr(module, name, None)
    if not callable(function):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InvalidInput(field, f"a function of {where} ({did_you_mean(name, public)})", name)
    found: Callable[..., Any] = function
    return found


def origin_of(spec: str) -> str:
    """Return the file behind `module:function` or `path/file.py:function`, resolved; no code is run to find it.

    `built-in` or `frozen` for modules inside Python itself, and nothing where no file is found.

    >>> origin_of("json.decoder:JSONDecoder").endswith("json/decoder.py"), origin_of("no_such_module:f")
    (True, '')
    """
    where = spec.rpartition(":")[0]
    try:
        if where.endswith(".py"):
            return str(Path(where).resolve())
        found = _find_module(where) if all(where.split(".")) else None
        if found is None or found.origin is None:
            return ""
        return str(Path(found.origin).resolve()) if found.has_location else found.origin
    except (OSError, ValueError):  # such as a name that no file can have
        return ""


def _find_module(name: str) -> ModuleSpec | None:
    """Find a module as `import` would, with the working folder first, but without importing its parents."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(loaded, ModuleSpec):
        return loaded
    # What Python has listed of a folder may be older than a file written a moment ago.
    importlib.invalidate_caches()
    top, *rest = name.split(".")
    found = _top_level(top)
    for part in rest:
        if found is None or found.submodule_search_locations is None:
            return None
        # By its last name alone, and in the places as they were found: namespace packages would work theirs out anew
        # from their parents, which are not imported here.
        places = getattr(found.submodule_search_locations, "_path", found.submodule_search_locations)
        found = PathFinder.find_spec(part, list(places))
    return found


def _top_level(name: str) -> ModuleSpec | None:
    try:
        return (
            BuiltinImporter.find_spec(name)
            or FrozenImporter.find_spec(name)
            or PathFinder.find_spec(name, [str(Path.cwd()), *sys.path])
            or importlib.util.find_spec(name)
        )
    except (ImportError, ValueError):
        return None


def _named_module(field: str, name: str) -> ModuleType:
    # A console script does not have the working folder on its path, where a user's own module lies. A module that
    # lies elsewhere does not need it, and must not meet whatever lies in a folder that came from somebody else.
    if PathFinder.find_spec(name.partition(".")[0], [str(Path.cwd())]) is not None:
        _look_in(Path.cwd())
    try:
        module = importlib.import_module(name)
        digest = code_digest(f"{name}:")
        # Code that was edited in the meantime, as beside a notebook, must not pass for what was loaded.
        if _loaded.setdefault(name, digest) != digest:
            _forget(_own_files(Path(origin_of(f"{name}:"))) - {Path(module.__file__ or "")})
            module = importlib.reload(module)
            _loaded[name] = digest
    except Exception as error:
        raise InvalidInput(field, f"an importable module ({_reason(error)})", name) from error
    return module


def _forget(files: Iterable[Path]) -> None:
    for name, module in list(sys.modules.items()):
        if (file := getattr(module, "__file__", None)) and Path(file) in files:
            del sys.modules[name]


def _look_in(folder: Path) -> None:
    """Put a folder on the import path as `python FILE` does, and for good: a user's function may import its
    neighbours when it is called.
    """
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _file_module(field: str, path: Path) -> ModuleType:
    if not is_file(path):
        raise InvalidInput(field, "an existing Python file", str(path))
    _look_in(path.parent.resolve())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    _forget(_own_files(path.resolve()))
    try:
        # Not by the loader: its cache takes a file of the same size and second for the same file.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except Exception as error:
        raise InvalidInput(field, f"an importable file ({_reason(error)})", str(path)) from error
    return module


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(str(error))}"


def name_of(function: str | Callable[..., Any]) -> str:
    """Name a function as `module:function`; a text is a name already.

    >>> name_of(hashlib.file_digest), name_of("bots.py:answer")
    ('hashlib:file_digest', 'bots.py:answer')
    """
    if isinstance(function, str):
        return function
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def code_digest(function: str | Callable[..., Any]) -> str:
    """Name the code of a function, or of `module:function`: edited code has another digest.

    It covers the file that the function lives in and what that imports from the same folder or package; of a function
    that is given directly also the plain values that it was made with (defaults, closures, attributes). In a notebook,
    where there is no file, it covers the function and the globals that it uses. Installed packages are not covered.

    >>> len(code_digest("json:dumps")), code_digest(partial(int, base=2)) == code_digest(partial(int, base=3))
    (16, False)
    """
    try:
        path = Path(_file_of(function))
        content, file = path.read_bytes(), True
        content += b"".join(one.read_bytes() for one in sorted(_own_files(path) - {path}))
    except (OSError, TypeError):
        content, file = name_of(function).encode(), False
    if not isinstance(function, str):
        content += repr(_state(function, globals_too=not file)).encode("utf-8", "replace")
    return hashlib.sha256(content).hexdigest()[:16]


INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _own_files(path: Path) -> set[Path]:
    """Return a file of Python code and what it imports, directly or not, from its own folder or package; runs none."""
    home = path.parent
    while (home / "__init__.py").is_file():
        home = home.parent
    if any(path.is_relative_to(place) for place in INSTALLED):
        return {path}
    found, waiting = set[Path](), [path]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += [file for file in _imported(one, home) if file.is_file()]
    return found


def _imported(path: Path, home: Path) -> Iterator[Path]:
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        level = node.level if isinstance(node, ast.ImportFrom) else 0
        start = path.parents[min(level, len(path.parents)) - 1] if level else home
        top = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
        for alias in node.names:
            parts = [part for part in (*top, *alias.name.split(".")) if part]
            for count in range(1, len(parts) + 1):
                where = start.joinpath(*parts[:count])
                yield from (where.with_suffix(".py"), where / "__init__.py")


def _file_of(function: str | Callable[..., Any]) -> str:
    if isinstance(function, str):
        return origin_of(function)
    while isinstance(function, partial):
        function = function.func
    return inspect.getfile(function if inspect.isroutine(function) else type(function).__call__)


def _state(value: Any, spare: int = 6, *, globals_too: bool) -> Any:
    """Return what decides what a function does: its source, and the plain values that it was made with."""
    inner = partial(_state, spare=spare - 1, globals_too=globals_too)
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if spare == 0 or isinstance(value, type | ModuleType):
        return ""
    if isinstance(value, dict):
        return [(repr(key), inner(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [inner(one) for one in value]
    if isinstance(value, partial):
        return [inner(value.func), inner(value.args), inner(value.keywords)]
    if isinstance(value, MethodType):
        return [inner(value.__func__), inner(value.__self__)]
    if isinstance(value, FunctionType):
        free = inspect.getclosurevars(value)
        used = [value.__defaults__, value.__kwdefaults__, dict(free.nonlocals)]
        return [_source(value), inner([*used, dict(free.globals)] if globals_too else used)]
    # Objects that are not called themselves, such as clients, may hold anything, clocks and counters too.
    return [name_of(value), inner(vars(value)) if callable(value) and hasattr(value, "__dict__") else ""]


def _source(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = function.__code__
        return repr(
            (code.co_code, code.co_names, [one for one in code.co_consts if not isinstance(one, CodeType)])
        )
