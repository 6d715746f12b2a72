/* A program that loads the library with dlopen, as a plugin or a language binding does, and gives
 * it back while a runtime is open: workers of the runtime, and threads of the libraries that it has
 * opened, still run its code. Usage: unload LIBRARY */
#include <muster/muster.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;

static void *find(const char *name) {
    void *address = dlsym(library, name);
    if (!address) fprintf(stderr, "expected the symbol %s, received: %s\n", name, dlerror());
    return address;
}

static int64_t runs;
static muster_status count(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
    return MUSTER_OK;
}

static muster_function *open_and_call(muster_runtime **runtime) {
    muster_runtime_options options = {.struct_size = sizeof options, .devices = "host:4"};
    muster_function *f = NULL;
    __typeof__(muster_runtime_open) *open;
    __typeof__(muster_function_create) *create;
    __typeof__(muster_function_set_runs_without_rows) *runs_without_rows;
    *(void **)&open = find("muster_runtime_open");
    *(void **)&create = find("muster_function_create");
    *(void **)&runs_without_rows = find("muster_function_set_runs_without_rows");
    if (open(&options, runtime) || create(*runtime, "count", count, NULL, &f) || runs_without_rows(f, 1)) return NULL;
    return f;
}

int main(int argc, char **argv) {
    muster_runtime *runtime;
    library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "expected the library, received: %s\n", argc == 2 ? dlerror() : "no argument");
        return 1;
    }
    muster_function *f = open_and_call(&runtime);
    __typeof__(muster_function_call) *call;
    __typeof__(muster_runtime_close) *close;
    *(void **)&call = find("muster_function_call");
    *(void **)&close = find("muster_runtime_close");
    if (!f || call(f, NULL, 0, NULL, 0, NULL) || runs != 4) return 2;
    if (dlclose(library) != 0) return 3;
    if (call(f, NULL, 0, NULL, 0, NULL) || runs != 8) return 4; /* the workers go on */
    if (close(runtime)) return 5;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    f = library ? open_and_call(&runtime) : NULL;
    if (!f || call(f, NULL, 0, NULL, 0, NULL) || runs != 12) return 6;
    if (dlclose(library) != 0) return 7;
    puts("OK"); /* and the process ends with a runtime open */
    return 0;
}
