#!/usr/bin/env python3
"""Counts the instructions of a call on one device, which do not depend on what else the machine does.

usage: count.py MUSTER-BENCH-COUNT [--primitives]

Each case runs twice under callgrind, with FEW and with MANY calls: the difference is what the calls took, and its parts by function
show where. The loop around them is counted in the same way and taken off.

--primitives: only how many instructions oneDNN takes to make its primitives in the first step of ResNet-50 with an image of 64 x 64. Callgrind
also runs the step, which takes a while.
"""
import os
import re
import subprocess
import sys
import tempfile

FEW, MANY = 1000, 21000
LIMITS = {'empty': 350, 'two-in-one-out': 650, 'two-in-none-out': 650, 'mean-of-products': 3300}  # instructions a call
# An expression may take so many instructions more than the hand-written function before it.
MORE = {'expression-of-nothing': ('two-in-none-out', 300), 'expression-of-mean-of-products': ('mean-of-products', 0)}
# Making a graph of about so many expressions with gradients, and compiling it: at most so many million instructions, and twice the graph
# at most so many times those.
COMPILE, COMPILE_MILLIONS, COMPILE_GROWTH = 2000, 80, 2.3
# ResNet-50 with its gradients and updates (bench/count/resnet50.c). The first call makes the primitives of oneDNN, which are apart.
RESNET50_MILLIONS = 150
# The function of the adapter (lib/nn/convolution/onednn_convolution.c) that makes all that oneDNN needs for a convolution, on a thread of its own.
MAKES_PRIMITIVES = 'state_task'
LEAST = 4  # instructions a call: functions below are not listed


def instructions(program, case, calls, inside=None):
    """The instructions of each function of a run, without those of the functions that it calls; `inside`: only while this function runs."""
    only = [f'--toggle-collect={inside}'] if inside else []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'out')
        subprocess.run(['valgrind', '--tool=callgrind', f'--callgrind-out-file={out}', *only, program, case, str(calls)],
                       check=True, stderr=subprocess.DEVNULL)
        text = subprocess.run(['callgrind_annotate', '--threshold=100', '--show-percs=no', out], check=True,
                              capture_output=True, text=True).stdout
    counts = {}
    for line in text.splitlines():
        found = re.match(r'\s*([\d,]+)\s+\S*?:(.+?)(?: \[.*\])?$', line)
        if found:
            name = found[2].split("'")[0]
            counts[name] = counts.get(name, 0) + int(found[1].replace(',', ''))
    if not counts:
        sys.exit(f'count.py: callgrind_annotate said nothing about {case}')
    return counts


def per_call(program, case, few_calls=FEW, many_calls=MANY):
    few, many = instructions(program, case, few_calls), instructions(program, case, many_calls)
    return {name: (count - few.get(name, 0)) / (many_calls - few_calls) for name, count in many.items()}


def compile_missed(program):
    """Is compiling dearer than it may be, or not linear?"""
    parts = per_call(program, f'compile-{COMPILE}', 1, 3)
    once, twice = sum(parts.values()), sum(per_call(program, f'compile-{2 * COMPILE}', 1, 3).values())
    missed = once > COMPILE_MILLIONS * 1e6 or twice > COMPILE_GROWTH * once
    print(f'compile-{COMPILE}: {once / 1e6:.1f} million instructions, at most {COMPILE_MILLIONS}; twice the graph takes {twice / once:.2f} '
          f'times those, at most {COMPILE_GROWTH}{": MISSED" if missed else ""}')
    for name, count in sorted(parts.items(), key=lambda part: -part[1])[:12]:
        print(f'{count:10.0f}  {name}')
    return missed


def resnet50_missed(program):
    """Is compiling ResNet-50 dearer than it may be? The variables, which the first makes, are taken off."""
    parts = per_call(program, 'compile-resnet50', 1, 3)
    once = sum(parts.values())
    missed = once > RESNET50_MILLIONS * 1e6
    print(f'compile-resnet50: {once / 1e6:.1f} million instructions, at most {RESNET50_MILLIONS}{": MISSED" if missed else ""}')
    for name, count in sorted(parts.items(), key=lambda part: -part[1])[:12]:
        print(f'{count:10.0f}  {name}')
    return missed


def print_primitives(program):
    """What oneDNN takes in the first step. It has no limit: these are oneDNN's instructions, of the version and the processor that are here."""
    parts = instructions(program, 'step-resnet50', 1, MAKES_PRIMITIVES)
    if MAKES_PRIMITIVES not in parts:
        sys.exit(f'count.py: {MAKES_PRIMITIVES} has not run, so oneDNN has made nothing: is it here, and does the library have its symbols?')
    print(f'step-resnet50: {sum(parts.values()) / 1e6:.1f} million instructions to make the primitives of oneDNN')
    for name, count in sorted(parts.items(), key=lambda part: -part[1])[:12]:
        print(f'{count:10.0f}  {name}')


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ['--primitives']):
        sys.exit(__doc__)
    program = sys.argv[1]
    if sys.argv[2:]:
        print_primitives(program)
        return 0
    loop = sum(per_call(program, 'loop').values())
    print(f'the loop alone: {loop:.0f} instructions')
    missed, totals = 0, {}
    for case in [*LIMITS, *MORE]:
        parts = per_call(program, case)
        total = totals[case] = sum(parts.values()) - loop
        if case in LIMITS:
            over, bound = total > LIMITS[case], f'at most {LIMITS[case]}'
        else:
            than, more = MORE[case]
            over, bound = total > totals[than] + more, f'{total - totals[than]:.0f} more than {than}, at most {more}'
        missed += over
        print(f'{case}: {total:.0f} instructions, {bound}{": MISSED" if over else ""}')
        for name, count in sorted(parts.items(), key=lambda part: -part[1]):
            if count >= LEAST:
                print(f'{count:10.0f}  {name}')
    missed += compile_missed(program) + resnet50_missed(program)
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
