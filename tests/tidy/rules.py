"""The house rules as functions: each takes text or paths and returns what is wrong with them.

They are apart from the tests so that every rule is shown to fail on a bad example as well as to
pass on the tree.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
# A test is a story, told in one piece; a file of tests is read one story at a time.
TEST_FUNCTION_LINES_MAX = 100
TEST_FILE_LINES_MAX = 1000

CPP = {".cpp", ".h"}
SOURCE = CPP | {".py", ".sh", ".cmake"}


def tree(root: Path = ROOT) -> list[Path]:
    """Every file of the project, relative to its root: what git tracks, or an unpacked archive."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if listing.returncode == 0 and listing.stdout:
        names = [Path(name) for name in listing.stdout.split("\0") if name]
    else:
        skip = {".venv", "build", "dist", "__pycache__", ".git"}
        names = [path.relative_to(root) for path in root.rglob("*")
                 if path.is_file() and not skip & set(path.relative_to(root).parts)]
    return sorted(name for name in names if (root / name).is_file())


# --- arrows --------------------------------------------------------------------------------------

CPP_STANDARD = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfloat charconv chrono
    cinttypes climits cmath compare complex concepts condition_variable coroutine csetjmp csignal
    cstdarg cstddef cstdint cstdio cstdlib cstring ctime cwchar deque exception execution filesystem
    forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream
    iterator latch limits list locale map memory memory_resource mutex new numbers numeric optional
    ostream queue random ranges ratio regex semaphore set shared_mutex source_location span sstream
    stack stdexcept stop_token streambuf string string_view syncstream system_error thread tuple
    type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
    version""".split())
# Time, threads, files and chance enter core through core/env only.
NOT_IN_CORE = set(
    """barrier chrono condition_variable ctime csignal execution filesystem fstream future iostream
    latch mutex random semaphore shared_mutex stop_token syncstream thread""".split())
TORCH = ("ATen/", "c10/", "torch/", "caffe2/", "pybind11/")
TESTING = ("gtest/", "gmock/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# Which of our own folders a folder may include, besides itself.
ARROWS: dict[str, tuple[str, ...]] = {
    "core": ("core/",),
    "predictors": ("core/",),
    "planners": ("core/",),
    "traces": ("core/", "traces/"),
    "platforms": ("core/", "traces/", "platforms/", "predictors/", "planners/"),
    "sim": ("core/", "traces/", "sim/", "predictors/", "planners/"),
    "adapter": ("core/", "platforms/", "adapter/", "outsize/"),
    # The simulators' module: of its own folder the one header that the bindings share.
    "python": ("core/", "traces/", "sim/", "predictors/", "planners/", "python/bindings/reading.h"),
    "include": ("outsize/",),
    "examples": ("outsize/", "common.h"),  # their users copy them: no path of ours
    "bench": ("core/", "traces/", "platforms/", "sim/", "predictors/", "planners/", "outsize/"),
    "bench/gpu": ("bench/gpu/native/",),  # it probes PyTorch, and knows nothing of ours
}
TEST_NAMES = ("_test.cpp", "_test_rig.h")
# A test may use what its binary is linked with: planners and predictors are in the core library.
TEST_ARROWS = {"core": ("predictors/", "planners/"), "predictors": ("predictors/", "planners/"),
               "planners": ("predictors/", "planners/")}
# Within core, from the ground up: a folder may include itself and what stands before it.
CORE_ORDER = ("base", "env", "residency", "transfer", "plan", "trace", "engine")
# Plain values that every folder may name: what goes into the engine and what comes out.
CORE_VALUES = ("core/engine/input.h",)
# Judges share no code with what they judge: they see values, never the machinery.
CHECK_MAY_INCLUDE = ("core/base/", "core/check/", *CORE_VALUES)


def _own_folders(path: Path) -> tuple[str, ...]:
    """What a file may include because of where it lies: a plug-in its own folder and what planners,
    or predictors, share, and the table that lists the plug-ins all of them."""
    if path.parts[0] not in ("predictors", "planners"):
        return ()
    if path.parts[1] == "registry":
        return ("predictors/", "planners/")
    shared = ("planners/ahead/",) if path.parts[0] == "planners" else ("predictors/steps/",)
    return (f"{path.parts[0]}/{path.parts[1]}/", *shared)


def _core_order_broken(path: Path, name: str) -> bool:
    source, target = path.parts[1], Path(name).parts[1]
    if path.name.endswith(TEST_NAMES) or name in CORE_VALUES:
        return False
    if source == "check":
        return not name.startswith(CHECK_MAY_INCLUDE)
    if source not in CORE_ORDER or target not in CORE_ORDER:
        return target == "check"
    return CORE_ORDER.index(target) > CORE_ORDER.index(source)


def wrong_includes(path: Path, text: str) -> list[str]:
    """Includes that go against the arrows of ARCHITECTURE.md."""
    top = path.parts[0]
    if top not in ARROWS:
        return []
    top = "/".join(path.parts[:2]) if path.parts[:2] == ("bench", "gpu") else top
    is_test = path.name.endswith(TEST_NAMES)
    allowed = ARROWS[top] + _own_folders(path) + (TEST_ARROWS.get(top, ()) if is_test else ())
    pure = top in ("core", "predictors", "planners") and not is_test
    wrong = []
    for bracket, name in INCLUDE.findall(text):
        if name.startswith(TORCH):
            bad = top not in ("adapter", "bench/gpu", "examples", "python") or (
                top == "python" and not name.startswith("pybind11/"))
        elif is_test and name.startswith(TESTING):
            bad = False
        elif bracket == "<" and not name.startswith("outsize/"):
            bad = pure and (name not in CPP_STANDARD or name in NOT_IN_CORE)
        else:
            bad = not name.startswith(allowed)
            bad = bad or (top == "core" and name.startswith("core/") and
                          _core_order_broken(path, name))
        if bad:
            wrong.append(f"{path}: includes {name}")
    return wrong


# --- symbols -------------------------------------------------------------------------------------

# What a function of time, threads, files and devices looks like in libstdc++: not for core.
STD_FORBIDDEN = re.compile(
    r"std::(chrono|thread|this_thread|condition_variable|random_device|filesystem|basic_[io]?fstream"
    r"|basic_filebuf|cout|cerr|cin|__basic_file|mutex|future|system_error|timed_mutex)")
SYMBOL_ALLOWED = re.compile(
    r"""^(
      (\S+\ )?std::.* | .*\bstd::.*            # the C++ library; what is forbidden of it: above
    | operator\ (new|delete).*
    | (vtable|typeinfo|typeinfo\ name|VTT|guard\ variable)\ for\ .*
    | __cxa_\w+ | __gxx_personality_v0 | _Unwind_Resume | __dso_handle | _GLOBAL_OFFSET_TABLE_
    | __stack_chk_fail | __assert_fail | __tls_get_addr
    | mem(cpy|move|set|cmp|chr) | __mem(cpy|move|set)_chk
    | str(len|cmp|ncmp|chr|toll|toull|tod|tol|toul)
    | (v?snprintf|__v?snprintf_chk) | abort | bcmp
    | (floor|ceil|round|lround|llround|sqrt|log|log2|exp|pow)f?
    )$""", re.X)


def foreign_symbols(archive: Path) -> list[str]:
    """Symbols that an archive or object needs from outside itself and outside the C++ library."""
    def names(*flags: str) -> set[str]:
        output = subprocess.run(["nm", "-C", *flags, str(archive)], capture_output=True, text=True,
                                check=True).stdout
        found = re.findall(r"^[0-9a-f ]{16} ([A-Za-z]) (.+)$", output, re.M)
        return {name.split("@")[0].strip() for _, name in found}

    defined = names("--defined-only")
    assert defined, f"{archive} cannot be read: compiled for link-time optimisation?"
    needed = names("--undefined-only") - defined
    return sorted(name for name in needed
                  if STD_FORBIDDEN.search(name) or not SYMBOL_ALLOWED.match(name))


# --- shape ---------------------------------------------------------------------------------------

def strip_cpp(text: str) -> str:
    """C++ without comments, strings and preprocessor lines; line numbers stay."""
    pattern = re.compile(
        r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
        re.S)
    text = pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: "\n" * m.group().count("\n"), text,
                  flags=re.M)


def long_cpp_functions(text: str, limit: int = FUNCTION_LINES_MAX) -> list[tuple[str, int]]:
    """(head, lines) of each function body over the limit. Roughly: by braces."""
    long: list[tuple[str, int]] = []
    scopes: list[tuple[bool, str, int]] = []  # (is an outermost function, head, first line)
    head, line, inside = "", 1, 0
    for char in strip_cpp(text):
        line += char == "\n"
        if char == "{":
            scope = re.search(r"\b(namespace|class|struct|enum|union)\b[^()]*$", head)
            function = not inside and not scope and "(" in head
            scopes.append((function, " ".join(head.split()), line))
            inside += function
            head = ""
        elif char == "}":
            if scopes:
                function, name, first = scopes.pop()
                inside -= function
                if function and line - first + 1 > limit:
                    long.append((name, line - first + 1))
            head = ""
        elif char == ";":
            head = ""
        else:
            head += char
    return long


def long_python_functions(text: str, limit: int = FUNCTION_LINES_MAX) -> list[tuple[str, int]]:
    return [(node.name, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.end_lineno - node.lineno + 1 > limit]


# --- words ---------------------------------------------------------------------------------------

# Put together from pieces, so that this file does not break its own rules.
BANNED_WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|WI" r"P)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.$}{*-])/(work|root|home|Users)/\w|/tmp/(?:brief|bash_jobs)")
URL = re.compile(r"https?://([\w.-]+)")
URL_HOSTS = {"www.apache.org", "arxiv.org", "doi.org", "github.com", "pytorch.org",
             "docs.kernel.org", "man7.org", "keepachangelog.com", "semver.org", "www.w3.org"}


def bad_words(text: str) -> list[str]:
    found = [match.group() for match in BANNED_WORDS.finditer(text)]
    found += [match.group() for match in MACHINE_PATHS.finditer(text)]
    found += [host for host in URL.findall(text) if host.rstrip(".") not in URL_HOSTS]
    return found


# --- documents -----------------------------------------------------------------------------------

def slug(heading: str) -> str:
    """The anchor that a Markdown heading gets."""
    text = re.sub(r"[`*_]|\[([^]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading.lower())
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def broken_links(path: Path, root: Path = ROOT) -> list[str]:
    """Relative links of one Markdown file that lead nowhere."""
    text = (root / path).read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (root / path).parent / name if name else root / path
        if not file.exists():
            broken.append(f"{path}: {target}")
        elif anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.M)
            if anchor not in {slug(heading) for heading in headings}:
                broken.append(f"{path}: {target} (no such heading)")
    return broken


def glossary_rows(text: str) -> list[tuple[str, list[str]]]:
    """(word, places) of each row of the glossary's tables that name places."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("**"):
            rows.append((cells[0].strip("* "), re.findall(r"`([^`]+)`", cells[2])))
    return rows


def word_is_in(word: str, place: Path) -> bool:
    """Whether a folder or file uses a word of the glossary, in prose or as part of a name."""
    pattern = re.compile(r"[\s_-]?".join(map(re.escape, word.split())), re.I)
    files = [place] if place.is_file() else [path for path in place.rglob("*")
                                             if path.suffix in SOURCE | {".md"}]
    return any(pattern.search(path.read_text(errors="replace")) for path in files)
