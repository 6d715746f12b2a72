#!/usr/bin/env python3
"""filter.py HEADER: a public header as Doxygen reads it. Doxygen runs it on each header (INPUT_FILTER).

The headers have plain comments. Here a comment becomes the documentation of what follows it up to the next empty line; declarations that
share a comment each get it. The comment at the head becomes a group, with all of the header in it. To each function come the version that
brought it (lib/muster.abi) and what behaviour.txt says: whether it may block, and whether it may call back."""
import fnmatch
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


def escaped(text):
    """Without the characters that are commands to Doxygen."""
    return re.sub(r"::|[@\\<>#%&$]", r"\\\g<0>", text)


def words_of(comment):
    """The text of a /* comment */ or of // lines, without the frame."""
    if comment.lstrip().startswith("//"):
        return "\n".join(re.sub(r"^\s*// ?", "", line) for line in comment.splitlines())
    return re.sub(r"^\s*\* ?", "", re.sub(r"^\s*/\*\s?|\s*\*/\s*$", "", comment), flags=re.M)


def versions():
    lines = (line.split() for line in (SOURCE / "lib/muster.abi").read_text().splitlines() if line.startswith("MUSTER_"))
    return {name: node.removeprefix("MUSTER_") for node, name in lines}


def rules():
    """[(kind, patterns, sentence)]"""
    lines = [line for line in (HERE / "behaviour.txt").read_text().splitlines() if line and not line.startswith("#")]
    return [(kind.strip(), names.split(), sentence.strip()) for kind, names, sentence in (line.split("|") for line in lines)]


def facts_of(function, since, behaviour):
    """The paragraphs that a function's documentation ends with."""
    titles = {"blocks": "May block", "calls": "May call back"}
    named = function.removesuffix("_p")  # a twin (muster/pointers.h) does what its function does
    found = [f"\\par {titles[kind]}\n{sentence}." for kind, names, sentence in behaviour if any(fnmatch.fnmatch(named, name) for name in names)]
    return "\n\n" + "\n\n".join([f"\\since {since[function]}", *found]) if function in since else ""


def documented(comment, declaration, since, behaviour):
    function = re.search(r"\bMUSTER_API\b[^;{(]*?\b(muster_\w+)\s*\(", declaration)
    facts = facts_of(function[1], since, behaviour) if function else ""
    return f"/** {escaped(words_of(comment))}{facts} */\n{declaration}"


def statements(text):
    """The declarations of a block of lines, each to the end of its last line."""
    parts, depth, lines = [], 0, []
    for line in text.splitlines():
        lines.append(line)
        code = re.sub(r"/\*.*?\*/|/\*.*$|^ \*.*$", "", line)
        depth += code.count("{") - code.count("}")
        if depth == 0 and code.rstrip().endswith((";", "}")):
            parts.append("\n".join(lines))
            lines = []
    return parts + (["\n".join(lines)] if lines else [])


def fields(text):
    """Comments inside a struct or an enumeration: before a field, or behind it on its line."""
    def before(match):
        return f"{match[1]}/** {escaped(words_of(match[2]))} */"
    text = re.sub(r"^( +)(/\*(?!\*).*?\*/)(?=\n)", before, text, flags=re.M | re.S)
    return re.sub(r"(?<=\S)( +)/\*(?!\*)([^\n]*?)\*/$", lambda match: f"{match[1]}/**< {escaped(match[2].strip())} */", text, flags=re.M)


def converted(name, text):
    since, behaviour = versions(), rules()
    comment = r"/\*.*?\*/" if name.endswith(".h") else r"(?://[^\n]*\n)+"
    head = re.match(comment, text, flags=re.S)
    title, _, rest = words_of(head[0]).partition(":")
    group = re.sub(r"\W", "_", name)
    out = [f"/** \\file\n{escaped(title)}: \\ref {group} */", f"/** \\defgroup {group} {title}\n{escaped(rest.strip())}\n\\{{ */"]
    body = text[head.end():]
    pieces = re.split(r"^(/\*.*?\*/\n|(?://[^\n]*\n)+)", body, flags=re.M | re.S)
    out.append(pieces[0])
    for found, after in zip(pieces[1::2], pieces[2::2]):
        block, gap, rest = after.partition("\n\n")
        if block.lstrip().startswith("#define") or re.match(r"/\* (clang-format|----)|// ----", found) or not block.strip():
            out.append(found + after)
            continue
        parts = statements(block)
        out += [documented(found, part, since, behaviour) for part in parts]
        out.append(gap + rest)
    out.append("\n/** \\} */\n")
    return fields("\n".join(out))


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    sys.stdout.write(converted(path.name, path.read_text()))
