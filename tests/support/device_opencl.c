/* Programs on CPU cores are compiled by PoCL and LLVM, which leak a little of their own each time;
 * not with a cache of theirs that has everything already. Leaks of Muster's stay seen: these names
 * are those of libraries in which an allocation was made. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\n";
}
