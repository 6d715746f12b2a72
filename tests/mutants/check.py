#!/usr/bin/env python3
"""What operators.py makes of a text: each fault that it should, once, and none of comments, texts, declarations, tables and the preprocessor."""
import sys

from operators import faults_of

TEXT = """#define MOST (3 + 4) /* a < b */
typedef struct row { int place; } row;
static const char *const texts[] = {"a < b", "i++"};

/* if (a < b) return false; */
static int first(const row *rows, int count) {
    // count + 1
    char quote = '"', word[] = "x == y";
    for (int i = 0; i < count; i++)
        if (rows[i].place >= 2 && !rows[i].place) return i;
    log_write("(a) + b", quote, word);
    MUSTER_TRY(mst_check(rows, count));
    rows->place = count * 3;
    return mst_error(MUSTER_USER, "no row < %d", count);
}
"""
EXPECTED = """bound: for (int i = 0; i <= count; i++)
step: for (int i = 0; i < count; i--)
constant: for (int i = 1; i < count; i++)
bound: if (rows[i].place > 2 && !rows[i].place) return i;
logic: if (rows[i].place >= 2 || !rows[i].place) return i;
constant: if (rows[i].place >= 3 && !rows[i].place) return i;
condition: if (!(rows[i].place >= 2 && !rows[i].place)) return i;
statement left out: ;
statement left out: ;
product: rows->place = count + 3;
constant: rows->place = count * 4;
statement left out: ;
error left out: return MUSTER_OK;"""


def main():
    made = [f"{kind}: {line.strip()}" for _, kind, line in faults_of(TEXT)]
    expected = EXPECTED.split("\n")
    for line in sorted(set(made) | set(expected)):
        if made.count(line) != expected.count(line):
            print(f"expected {expected.count(line)} times, received {made.count(line)} times: {line}")
    lines = TEXT.split("\n")
    unchanged = sum(1 for number, _, line in faults_of(TEXT) if line == lines[number])
    print(f"{len(made)} faults, {unchanged} of which change nothing")
    return 0 if sorted(made) == sorted(expected) and unchanged == 0 else 1


sys.exit(main())
