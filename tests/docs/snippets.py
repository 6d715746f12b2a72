#!/usr/bin/env python3
"""snippets.py [--write] SOURCE: every block of C, C++ or Python code in README.md and docs/ is a part of a program that a test runs.

A program marks such a part by the lines "/* snippet: NAME */" and "/* end of snippet */" ("# snippet: NAME" in Python). On the
page the line before the block names it: "<!-- PROGRAM NAME -->", with PROGRAM a path from the source folder; without NAME the
block is the whole program. Both have the same characters, but for the indentation that all lines of the part share. --write copies
the parts into the pages. Every part must be on a page, and no statement of a part may drop a status. Every word of the pages that
begins with muster_ or MUSTER_ stands in the sources, so that a renamed function is found here."""
import pathlib
import re
import sys
import textwrap

BEGIN = re.compile(r"^\s*(?:/\* snippet: (\w+) \*/|# snippet: (\w+))$")
END = re.compile(r"^\s*(/\* end of snippet \*/|# end of snippet)$")
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".py"}
BLOCK = re.compile(r"(?:^ *<!-- (\S+?)(?: (\w+))? -->\n)?^( *)```(c|cpp|python)\n(.*?)^ *```$", flags=re.M | re.S)


def parts(path):
    """{name: text} of the marked parts of one program."""
    found, name, lines = {}, None, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        begin = BEGIN.match(line)
        if begin:
            assert name is None, f"{path}:{number}: a snippet in a snippet"
            name, lines = begin[1] or begin[2], []
            assert name not in found, f"{path}:{number}: two snippets {name}"
        elif END.match(line):
            assert name is not None, f"{path}:{number}: the end of no snippet"
            found[name], name = textwrap.dedent("\n".join(lines)).strip("\n"), None
        elif name is not None:
            lines.append(line)
    assert name is None, f"{path}: snippet {name} has no end"
    return found


def dropped(text, with_status):
    """Names of functions whose status a statement drops."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    called = re.findall(r"(?:^|[;{}]\s*\n)\s*(muster_\w+)\(", code)
    return [name for name in called if name in with_status]


class Check:
    def __init__(self, source, write):
        self.source, self.write, self.wrong, self.blocks, self.shown = source, write, 0, 0, set()
        self.programs = {}

    def fail(self, message):
        print(message)
        self.wrong += 1

    def text(self, program, name):
        path = self.source / program
        if not path.is_file():
            return None
        if name is None:
            return path.read_text().strip("\n")
        self.programs.setdefault(program, parts(path))
        return self.programs[program].get(name)

    def block(self, page, match):
        """What stands on the page in place of this block."""
        self.blocks += 1
        program, name, indent, language, found = match.groups()
        line = page.read_text().count("\n", 0, match.start()) + 1
        place = f"{page.relative_to(self.source)}:{line}"
        wanted = self.text(program, name) if program else None
        if wanted is None:
            self.fail(f"{place}: the line before the block names no part of a program")
            return match[0]
        self.shown.add((program, name))
        if textwrap.dedent(found).strip("\n") == wanted:
            return match[0]
        if not self.write:
            self.fail(f"{place}: differs from {program} {name or ''}; tests/docs/snippets.py --write copies it")
        head = f"{indent}<!-- {program}{' ' + name if name else ''} -->\n{indent}```{language}\n"
        return head + textwrap.indent(wanted, indent) + f"\n{indent}```"

    def page(self, page):
        text = BLOCK.sub(lambda match: self.block(page, match), page.read_text())
        if self.write:
            page.write_text(text)

    def names(self, pages):
        """Words that end in an underscore, or in a star behind it, stand for several names."""
        folders = ("include", "lib", "scheduler", "collectives", "samples", "bench", "script", "tests/sim", "tests/adding", "cmake")
        files = [path for folder in folders for path in (self.source / folder).rglob("*") if path.is_file() and not {"build", "__pycache__"} & set(path.parts)]
        text = "".join(path.read_text(errors="ignore") for path in [*files, self.source / "CMakeLists.txt"])
        known = set(re.findall(r"\b(?:muster|MUSTER)_\w+", text))
        count = 0
        for page in pages:
            for name in sorted(set(re.findall(r"\b(?:muster|MUSTER)_\w+", page.read_text()))):
                count += 1
                if name not in known and not (name.endswith("_") and any(other.startswith(name) for other in known)):
                    self.fail(f"{page.relative_to(self.source)}: {name} is nowhere in the sources")
        return count

    def whole(self):
        """Every part is on a page and keeps every status."""
        headers = "".join(path.read_text() for path in (self.source / "include").rglob("*.h"))
        with_status = set(re.findall(r"\bmuster_status (muster_\w+)\(", headers))
        assert len(with_status) > 100
        folders = ("tests/docs", "tests/adding", "samples")
        for path in sorted(path for folder in folders for path in (self.source / folder).rglob("*") if path.suffix in SUFFIXES):
            program = str(path.relative_to(self.source))
            for name, text in parts(path).items():
                if (program, name) not in self.shown:
                    self.fail(f"{program}: no page shows the snippet {name}")
                for function in dropped(text, with_status):
                    self.fail(f"{program}: the snippet {name} drops the status of {function}")


def main(arguments):
    write = "--write" in arguments
    source = pathlib.Path(arguments[-1]).resolve()
    check = Check(source, write)
    pages = [source / "README.md", *sorted((source / "docs").glob("*.md"))]
    for page in pages:
        check.page(page)
    check.whole()
    names = check.names(pages)
    print(f"{check.blocks} blocks of code and {names} names on {len(pages)} pages, {check.wrong} faults")
    return 0 if check.wrong == 0 and check.blocks >= 25 and names >= 200 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
