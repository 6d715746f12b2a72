"""The identifiers of C, C++ and CUDA files, without comments, strings, numbers and the names of included files."""
import re

TOKEN = re.compile(
    r"""//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/"""
    r"""|^[ \t]*\#[ \t]*include\b[^\n]*"""
    r"""|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'"""
    r"""|\b[0-9](?:[eEpP][+-]|[0-9a-zA-Z_.'])*|(?P<name>[A-Za-z_][A-Za-z0-9_]*)""",
    flags=re.S | re.M | re.X,
)


def identifiers(text):
    """[(name, line)] of each occurrence."""
    line, last, found = 1, 0, []
    for match in TOKEN.finditer(text):
        if match["name"]:
            line += text.count("\n", last, match.start())
            last = match.start()
            found.append((match["name"], line))
    return found


def words(name):
    """The words of an identifier: its parts between underscores and digits, and at a change from lower case to upper case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
