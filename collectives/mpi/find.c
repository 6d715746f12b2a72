/* Which shim, and why: named by the program or the environment, else by the MPI that is in the
 * process already, else by the launcher, else the only one there is. Shims lie beside libmuster.so,
 * and in the user's cache folder, where muster-mpi-shim puts what it has compiled: these are
 * preferred, since somebody has asked for them. */
#include "mpi/mpi_private.h"

#include "code_impl.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct find_family {
    const char *name, *text; /* in the names of files; for people */
} families[] = {{"openmpi", "Open MPI"}, {"mpich", "MPICH"}};
enum { FAMILIES = sizeof families / sizeof *families };

/* The family of an MPI by its own words, or a shim's; -1: another one. Intel MPI and MVAPICH have
 * the binary interface of MPICH. */
static int find_family_of(const char *text) {
    if (strstr(text, "Open MPI")) return 0;
    return strstr(text, "MPICH") || strstr(text, "Intel") || strstr(text, "MVAPICH") ? 1 : -1;
}

static int find_family_named(const char *name) {
    for (int i = 0; name && i < FAMILIES; i++)
        if (!strcmp(families[i].name, name)) return i;
    return -1;
}

/* ---- an MPI that is in the process already ---- */

typedef int (*find_version)(char *text, int *length);

/* Libraries of an extension of Python are not among the symbols of the whole process. */
static int find_in_object(struct dl_phdr_info *info, size_t size, void *argument) {
    char *path = argument;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (!name || (strncmp(name, "/libmpi.so", 10) != 0 && strncmp(name, "/libmpich", 9) != 0 && strncmp(name, "/libmpi-", 8) != 0))
        return 0;
    return (size_t)snprintf(path, MPI_PATH, "%s", info->dlpi_name) < MPI_PATH;
}

static find_version find_in_libraries(void) {
    char path[MPI_PATH];
    find_version version = NULL;
    if (!dl_iterate_phdr(find_in_object, path)) return NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD), *symbol = handle ? dlsym(handle, "MPI_Get_library_version") : NULL;
    memcpy(&version, &symbol, sizeof version);
    if (handle) dlclose(handle); /* somebody else has it open, too */
    return version;
}

/* Is there an MPI in the process? text: what it says of itself, up to the first comma. */
static bool find_in_process(int *family, char text[MPI_WHY]) {
    static char all[8192]; /* an MPI may say much; the caller holds the lock of opening */
    find_version version = NULL;
    int length = 0;
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    memcpy(&version, &symbol, sizeof version);
    if (!version) version = find_in_libraries();
    if (!version || version(all, &length) != 0) return false;
    snprintf(text, MPI_WHY, "%.*s", (int)strcspn(all, ",\n"), all);
    for (char *at = text; *at; at++)
        if (*at == '\t') *at = ' ';
    *family = find_family_of(all);
    return true;
}

/* ---- the folders ---- */

/* Where shims may lie, by preference. */
typedef struct find_folders {
    char paths[2][MPI_PATH];
    int count;
} find_folders;

/* That of the library that this code is in. */
static bool find_own_folder(char path[MPI_PATH]) {
    static const char anchor;
    Dl_info info;
    if (!dladdr(&anchor, &info) || !info.dli_fname) return false;
    const char *end = strrchr(info.dli_fname, '/');
    const int length = end ? snprintf(path, MPI_PATH, "%.*s", (int)(end - info.dli_fname), info.dli_fname) : snprintf(path, MPI_PATH, ".");
    return length > 0 && length < MPI_PATH;
}

static bool find_is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* A shim of the family in one of the folders. */
static bool find_shim_of(const find_folders *folders, int family, char path[MPI_PATH]) {
    for (int i = 0; i < folders->count; i++) {
        const int length = snprintf(path, MPI_PATH, "%.4000s/libmuster-mpi-%s.so", folders->paths[i], families[family].name);
        if (length > 0 && length < MPI_PATH && find_is_file(path)) return true;
    }
    return false;
}

static bool find_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* ---- the choice ---- */

static muster_status find_none(const char *whose, const find_folders *folders) {
    char where[2 * 120 + 16] = "";
    for (int i = 0; i < folders->count; i++) {
        const size_t length = strlen(where);
        snprintf(where + length, sizeof where - length, "%s%.120s", i ? " or " : "", folders->paths[i]);
    }
    return mst_error(MUSTER_UNAVAILABLE,
                     "muster_runtime_open: nodes: there is no libmuster-mpi-*.so%s in %s: \"muster-mpi-shim [MPICC]\" compiles one, and "
                     "MUSTER_MPI_SHIM names one",
                     whose, where);
}

static muster_status find_choose(const find_folders *folders, char path[MPI_PATH], char why[MPI_WHY]) {
    char text[MPI_WHY], whose[MPI_WHY + 16];
    int family = -1;
    if (find_in_process(&family, text)) {
        snprintf(why, MPI_WHY, "%.150s is in the process already", text);
        if (family >= 0 && find_shim_of(folders, family, path)) return MUSTER_OK;
        snprintf(whose, sizeof whose, " for %.100s, which is in the process,", text);
        return find_none(whose, folders);
    }
    family = find_family_named(mpi_launch_find().family);
    if (family >= 0 && find_shim_of(folders, family, path)) {
        snprintf(why, MPI_WHY, "the launcher is that of %s", families[family].text);
        return MUSTER_OK;
    }
    int count = 0;
    for (int i = FAMILIES; i-- > 0;) count += find_shim_of(folders, i, path);
    if (!count) return find_none("", folders);
    for (int i = FAMILIES; i-- > 0;) /* the last that is found is the first of the table */
        if (find_shim_of(folders, i, path)) family = i;
    (void)find_shim_of(folders, family, path);
    snprintf(why, MPI_WHY, count == 1 ? "the only one here" : "the first of %d here", count);
    return MUSTER_OK;
}

/* ---- opening ---- */

static muster_status find_refuse(const char *path, const char *why) {
    return mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: nodes: %.200s %.400s", path, why);
}

/* where: what names the path, for messages. Never closed: an MPI leaves threads and handlers
 * behind. Its symbols stay local: MPIs bring libraries, such as hwloc, under names that others
 * use. */
static muster_status find_open(const char *where, mpi_shim *shim) {
    struct stat status;
    if (stat(shim->path, &status) != 0)
        return mst_error(MUSTER_UNAVAILABLE,
                         "muster_runtime_open: %s: expected a shim (libmuster-mpi-*.so) or a folder of shims, received \"%.200s\": %s",
                         where, shim->path, strerror(errno));
    shim->identity[0] = (int64_t)status.st_dev;
    shim->identity[1] = (int64_t)status.st_ino;
    void *handle = dlopen(shim->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        char why[400];
        snprintf(why, sizeof why, "cannot be opened, whose MPI must be installed, or its module loaded: %.300s", dlerror());
        return find_refuse(shim->path, why);
    }
    muster_wire_entry entry = NULL;
    void *symbol = dlsym(handle, MUSTER_WIRE_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry)
        return find_refuse(shim->path, "is no shim of this version of Muster, since it lacks " MUSTER_WIRE_SYMBOL
                                       ": muster-mpi-shim compiles it again");
    shim->table = entry(MUSTER_WIRE_ABI);
    if (!shim->table || shim->table->abi != MUSTER_WIRE_ABI || shim->table->bytes != (int32_t)sizeof *shim->table)
        return find_refuse(shim->path, "was compiled for another version of Muster: muster-mpi-shim compiles it again");
    char version[MPI_WHY], text[MPI_WHY + 160];
    shim->table->version(version, sizeof version);
    if (find_family_of(version) == find_family_of(shim->table->name)) return MUSTER_OK;
    snprintf(text, sizeof text, "was compiled for %.60s, but its calls go to %.100s, which is in the process already", shim->table->name,
             version);
    return find_refuse(shim->path, text);
}

muster_status mpi_shim_find(const char *asked, mpi_shim *shim) {
    find_folders folders = {.count = 0};
    memset(shim, 0, sizeof *shim);
    const char *named = asked ? asked : secure_getenv("MUSTER_MPI_SHIM");
    const char *by = asked ? "named by nodes" : "named by MUSTER_MPI_SHIM", *where = asked ? "nodes" : "MUSTER_MPI_SHIM";
    if (!named || !named[0]) {
        folders.count = mst_code_cache_folder(folders.paths[0], MPI_PATH);
        folders.count += find_own_folder(folders.paths[folders.count]);
        MUSTER_TRY(find_choose(&folders, shim->path, shim->why));
        return find_open(where, shim);
    }
    if (strlen(named) >= MPI_PATH) return find_refuse(named, "is too long");
    if (find_is_folder(named)) {
        snprintf(folders.paths[0], MPI_PATH, "%s", named);
        folders.count = 1;
        MUSTER_TRY(find_choose(&folders, shim->path, shim->why));
        return find_open(where, shim);
    }
    snprintf(shim->path, MPI_PATH, "%s", named);
    snprintf(shim->why, MPI_WHY, "%s", by);
    return find_open(where, shim);
}
