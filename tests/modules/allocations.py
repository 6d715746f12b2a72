#!/usr/bin/env python3
"""allocations.py OBJECTS NM CC: the objects of the library allocate only through lib/base/allocator.c, and through nothing of the C library that
allocates for its caller. OBJECTS: a file with the path of one object a line.

ALLOWED is compared in both directions, so that it stays the whole truth; muster/allocator.h says what its lines are for."""
import pathlib
import re
import subprocess
import sys
import tempfile

ALLOCATE = """malloc calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc pvalloc free cfree mmap mmap64 munmap brk sbrk
strdup __strdup strndup __strndup wcsdup asprintf vasprintf __asprintf_chk __vasprintf_chk getline getdelim __getdelim open_memstream scandir
scandir64 get_current_dir_name tempnam canonicalize_file_name""".split()
ALLOWED = {
    "lib/base/allocator.c": {"aligned_alloc", "free"},
    "lib/device/host/host_blas.c": {"mmap", "munmap"},  # asks whether the address space has room for OpenBLAS's buffers, and keeps nothing
    "lib/device/opencl/opencl_prepare.c": {"malloc"},  # the array of the environment
    "lib/device/opencl/opencl_queue.c": {"malloc"},  # the list of objects that are not released
}


def allocating(nm, paths):
    """{object: the allocating functions that it calls}, for those that call any; those of C++ are the operators new and delete."""
    said = subprocess.run([nm, "-A", "--undefined-only", "--format=posix", *paths], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in said.splitlines():
        path, name = line.rsplit(":", 1)
        name = name.split()[0].split("@")[0]
        if name in ALLOCATE or re.match(r"_Zn[wa]|_Zd[la]", name):
            found.setdefault(path, set()).add(name)
    return found


def planted(nm, cc):
    """How many of the functions are noticed in an object that calls each of them."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "planted.c"), pathlib.Path(folder, "planted.o")
        calls = "".join(f"void {name}_(void) __asm__(\"{name}\"); void *take_{name}(void);\n"
                        f"void *take_{name}(void) {{ {name}_(); return 0; }}\n" for name in [*ALLOCATE, "_Znwm", "_ZdlPv"])
        source.write_text(calls)
        subprocess.run([cc, "-O0", "-c", source, "-o", target], check=True)
        return len(allocating(nm, [target])[str(target)])


def main(table, nm, cc):
    objects = [line for line in pathlib.Path(table).read_text().splitlines() if line]
    wrong = 0
    found = {re.search(r"\.dir/(?:\./)?(.*)\.o$", path).group(1): names for path, names in allocating(nm, objects).items()}
    for source in sorted(found.keys() | ALLOWED.keys()):
        if found.get(source, set()) != ALLOWED.get(source, set()):
            wrong += 1
            print(f"{source}: expected calls of {sorted(ALLOWED.get(source, set()))}, found {sorted(found.get(source, set()))}: "
                  "memory of the library comes from mst_alloc (lib/base/memory_impl.h)")
    noticed = planted(nm, cc)
    print(f"{len(objects)} objects, {len(found)} that allocate, {noticed} of {len(ALLOCATE) + 2} planted calls noticed")
    return 0 if wrong == 0 and len(objects) > 150 and noticed == len(ALLOCATE) + 2 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
