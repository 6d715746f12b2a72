#!/usr/bin/env python3
"""sample_texts.py OUTPUT SAMPLE.c ...: the kernel texts of sample programs, as rows {"function", text}. A text is an array
`static const char NAME[] = "..." ...;` that says KERNEL void FUNCTION(."""
import pathlib
import re
import sys

output, *samples = sys.argv[1:]
rows = []
for sample in samples:
    text = pathlib.Path(sample).read_text()
    for array in re.findall(r'static const char \w+\[\] =((?:\s*"(?:[^"\\]|\\.)*")+);', text):
        function = re.search(r"KERNEL void (\w+)\(", array)
        if function:
            rows.append(f'{{"{function.group(1)}",{array}}},')
    if not rows:
        sys.exit(f"{sample}: no kernel text was found")
pathlib.Path(output).write_text("\n".join(rows) + "\n")
