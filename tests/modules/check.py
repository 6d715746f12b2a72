#!/usr/bin/env python3
"""check.py SOURCE MODULES CC: in every module, includes of its own headers and of the exported headers of the modules to its left compile.
Includes of private headers of other modules, and of any header of a module to its right, do not compile.

A header <file>_loops.h is a template: loops that a source file includes once for each type, with the type as a macro. So it does not compile alone, and
its name is the same whether it is exported or private. Everything else is checked of it, too.

MODULES: a file with one line "name;folder;folder of exported headers;include path..." per module, leftmost first."""
import dataclasses
import pathlib
import re
import subprocess
import sys


def is_template(header):
    return header.endswith("_loops.h")


@dataclasses.dataclass
class Module:
    name: str
    folder: pathlib.Path
    export: pathlib.Path
    path: list  # folders of its include path
    exported: list  # as in #include "..."
    private: list

    def sees(self, other, modules):
        return modules.index(other) <= modules.index(self)


def read_modules(table):
    modules = []
    for line in pathlib.Path(table).read_text().splitlines():
        name, folder, export, *path = line.split(";")
        folder, export = pathlib.Path(folder), pathlib.Path(export)
        exported = sorted(str(file.relative_to(export)) for file in export.rglob("*.h"))
        headers = {str(file.relative_to(folder)) for file in folder.rglob("*.h") if "nvrtc" not in file.relative_to(folder).parts[:-1]}
        modules.append(Module(name, folder, export, path, exported, sorted(headers - set(exported))))
    return modules


def run(cc, options, source, path):
    command = [cc, "-std=gnu11", "-D_GNU_SOURCE", *options, "-x", "c", "-"] + [f"-I{folder}" for folder in path]
    return subprocess.run(command, input=source, text=True, capture_output=True, cwd="/")


def found(cc, headers, path):
    """Those of the headers to which the include path leads. A Muster installed on this machine is not asked: hence -nostdinc."""
    source = "".join(f'#if __has_include("{header}")\nfound {header}\n#endif\n' for header in headers)
    result = run(cc, ["-E", "-P", "-nostdinc"], source, path)
    if result.returncode:
        raise SystemExit(result.stderr)
    return {line.removeprefix("found ") for line in result.stdout.splitlines() if line.startswith("found ")}


def check_right_includes(cc, modules):
    """What a module may include does compile in it."""
    wrong = tried = 0
    for module in modules:
        headers = [header for other in modules if module.sees(other, modules) for header in other.exported] + module.private
        headers = [header for header in headers if not is_template(header)]
        result = run(cc, ["-fsyntax-only"], "".join(f'#include "{header}"\n' for header in headers), module.path)
        tried += len(headers)
        if result.returncode:
            print(f"module {module.name}: a right include fails\n{result.stderr}")
            wrong += 1
    print(f"{tried} right includes tried, {wrong} faults")
    return wrong == 0 and tried > 0


def check_exported(cc, modules):
    """Each module finds the exported headers of the modules to its left and its own, and no others."""
    wrong = tried = 0
    for module in modules:
        owner = {header: other for other in modules for header in other.exported}
        seen = found(cc, owner, module.path)
        for header, other in owner.items():
            if (header in seen) != module.sees(other, modules):
                print(f'module {module.name}: #include "{header}" of module {other.name} is {"found" if header in seen else "not found"}')
                wrong += 1
            tried += not module.sees(other, modules)
    print(f"{tried} exported headers of modules to the right tried, {wrong} faults")
    return wrong == 0 and tried > len(modules)


def check_private(cc, modules):
    """No other module finds a private header by its path, by its name alone or by way of an include folder ("../x" relative to the file itself is
    check_no_way_around's), and a file of another module that includes it does not compile."""
    wrong = tried = 0
    for owner in modules:
        for module in (module for module in modules if module is not owner):
            own = {way for header in module.private + module.exported for way in (header, pathlib.Path(header).name)}
            ways = {way for header in owner.private for way in (header, pathlib.Path(header).name, f"{owner.folder.name}/{header}")} - own
            around = {f"../{way}" for header in owner.private for way in (header, f"{owner.folder.name}/{header}", f"{owner.name}/{header}")}
            for way in sorted(found(cc, ways, module.path) | found(cc, around, module.path[1:])):
                print(f'module {module.name}: #include "{way}" finds a private header of module {owner.name}')
                wrong += 1
        other = next((module for module in reversed(modules) if module is not owner), None)
        for header in owner.private:
            result = run(cc, ["-fsyntax-only"], f'#include "{header}"\n', other.path)
            if result.returncode == 0 or f"{header}: No such file" not in result.stderr and f"'{header}' file not found" not in result.stderr:
                print(f'module {other.name}: #include "{header}", private to module {owner.name}, compiles or fails for another reason\n{result.stderr}')
                wrong += 1
            tried += 1
    print(f"{tried} private headers tried in the {len(modules) - 1} other modules, {wrong} faults")
    return wrong == 0 and tried > 0


def check_names(modules):
    """The suffix says who may include a header: _impl.h every module to the right, _private.h its own module alone. _abi.h is as _impl.h, and
    is also compiled by programs that are installed beside the library."""
    wrong = 0
    for module in modules:
        for header in module.exported:
            if not header.startswith("muster/") and not header.endswith(("_impl.h", "_abi.h")) and not is_template(header):
                print(f"module {module.name}: {header} is exported: expected the name <file>_impl.h or <file>_abi.h")
                wrong += 1
        for header in module.private:
            if not header.endswith("_private.h") and not is_template(header):
                print(f"module {module.name}: {header} is not exported: expected the name <file>_private.h")
                wrong += 1
    return wrong == 0


def check_no_way_around(modules):
    """A path with ".." would reach any module: it may only lead to the file's own module. An absolute path belongs to no module."""
    wrong = 0
    for module in modules:
        for file in sorted(module.folder.rglob("*.[ch]")):
            for path in re.findall(r'^\s*#\s*include\s*["<]([^">]*\.\./[^">]*|/[^">]*)', file.read_text(), flags=re.M):
                if path.startswith("/") or module.folder.resolve() not in (file.parent / path).resolve().parents:
                    print(f'{file}: #include "{path}" leaves the module')
                    wrong += 1
    return wrong == 0


def check_public_headers_have_a_module(source, modules):
    headers = {path.name for path in pathlib.Path(source, "include/muster").glob("*.h")}
    homes = {path.name for module in modules for path in (module.export / "muster").glob("*.h")}
    print("public headers that no module owns:", ", ".join(sorted(headers - homes)) or "none")
    return headers == homes


if __name__ == "__main__":
    source, table, compiler = sys.argv[1:]
    modules = read_modules(table)
    checks = [check_right_includes(compiler, modules), check_exported(compiler, modules), check_private(compiler, modules), check_names(modules), check_no_way_around(modules),
              check_public_headers_have_a_module(source, modules)]
    sys.exit(0 if all(checks) else 1)
