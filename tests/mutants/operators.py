"""The faults of tests/mutants: what a line of C can be turned into. A fault changes one line, and what it makes mostly compiles."""
import re

# A pattern of code without texts and comments, what takes the place of its first group, and the name of the kind.
SWAPS = (
    (r"[^<\-=] (<) [^<]", "<=", "bound"),
    (r" (<=) ", "<", "bound"),
    (r"[^>] (>) [^>]", ">=", "bound"),
    (r" (>=) ", ">", "bound"),
    (r" (==) ", "!=", "equality"),
    (r" (!=) ", "==", "equality"),
    (r" (&&) ", "||", "logic"),
    (r" (\|\|) ", "&&", "logic"),
    (r" (\+) ", "-", "sum"),
    (r"[\w)\]] (-) ", "+", "sum"),
    (r"[\w)\]] (\*) ", "+", "product"),
    (r" (/) ", "*", "product"),
    (r" (\+=) ", "-=", "sum"),
    (r" (-=) ", "+=", "sum"),
    (r"(\+\+)", "--", "step"),
    (r"\w(--)", "++", "step"),
    (r"\b(true)\b", "false", "constant"),
    (r"\b(false)\b", "true", "constant"),
    (r"[^\w.](\d+)\b(?![.\w])", None, "constant"),  # one more
    (r"(?<![\w.])(INT64_MAX)\b", "0", "constant"),
    (r"^ +(return mst_error\w*\(.*\);)$", "return MUSTER_OK;", "error left out"),
    (r"^ +(?:else )?(MUSTER_TRY\(.*\);)$", ";", "statement left out"),
    (r"^ +([a-z]\w*\([^=]*\);)$", ";", "statement left out"),
    (r"^ +(\*?[a-z][\w.>\-\[\]]* [-+*/|&]?= [^{]*;)$", ";", "statement left out"),
)
CONDITION = re.compile(r"\b(?:if|while) (\()")
# Lines that are no code of functions, or whose faults no suite can see: texts of messages, and assertions of the compiler.
PASSED_OVER = re.compile(r"^\s*(#|_Static_assert|static_assert|typedef|enum|case .*:$|default:)|__attribute__|^\w.*[^;{]$")


def blanked(text):
    """The lines without comments and without what stands in texts and characters, each as long as before."""
    blank = lambda match: match.group()[0] + re.sub(r"[^\n]", "~", match.group()[1:-1]) + match.group()[-1]
    gone = lambda match: re.sub(r"[^\n]", " ", match.group())
    both = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return both.sub(lambda match: gone(match) if match.group().startswith("/") else blank(match), text).split("\n")


def closing(code, opening):
    """The place of the parenthesis that closes the one at `opening`, or -1 where it is on another line."""
    depth = 0
    for place in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return -1


def faults_of(text):
    """(number of the line from 0, kind, the line with the fault) for each fault, in the order of the text."""
    found = []
    lines = text.split("\n")
    for number, code in enumerate(blanked(text)):
        line = lines[number]
        if not line.startswith(" ") or PASSED_OVER.search(code):
            continue
        made = []
        for pattern, new, kind in SWAPS:
            for match in re.finditer(pattern, code):
                if kind.endswith("left out") and code.count("(") != code.count(")"):
                    continue  # a part of a statement
                old = line[match.start(1) : match.end(1)]
                made.append((kind, line[: match.start(1)] + (str(int(old, 10) + 1) if new is None else new) + line[match.end(1) :]))
        for match in CONDITION.finditer(code):
            end = closing(code, match.start(1))
            if end > 0:
                made.append(("condition", f"{line[: match.start(1)]}(!{line[match.start(1) : end + 1]}){line[end + 1 :]}"))
        found += [(number, kind, changed) for kind, changed in made]
    return found
