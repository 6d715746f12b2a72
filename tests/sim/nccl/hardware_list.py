"""hardware_list.py LIST HEADER...: the list names every symbol of the headers' lists, each once, and no other."""
import re
import sys

listed = [line.split()[0] for line in open(sys.argv[1]) if line.strip() and not line.startswith("#")]
wanted = [name for path in sys.argv[2:] for name in re.findall(r"^\s*X\([^,]*, *(\w+)", open(path).read(), re.M)]
problems = [f"{name}: not listed" for name in wanted if name not in listed] + [f"{name}: no such symbol" for name in listed if name not in wanted]
problems += [f"{name}: listed twice" for name in set(listed) if listed.count(name) > 1]
print("\n".join(problems) or f"{len(listed)} symbols")
sys.exit(bool(problems or not wanted))
