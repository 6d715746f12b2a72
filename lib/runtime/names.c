/* Names of devices. They have a lock of their own, so that they can be looked up during calls and
 * from inside a body. */
#include "runtime_impl.h"
#include "tensors_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct mst_device_name {
    struct mst_device_name *next; /* the next name, in the order in which the names were given */
    int32_t rank;
    char text[];
} mst_device_name;

muster_status mst_runtime_names_open(muster_runtime *runtime) {
    const int failed = pthread_mutex_init(&runtime->device_names_lock, NULL);
    if (failed) return mst_error(MUSTER_SYSTEM, "muster_runtime_open: the lock of the names of devices: %s", strerror(failed));
    runtime->device_names_open = true;
    return MUSTER_OK;
}

void mst_runtime_names_close(muster_runtime *runtime) {
    while (runtime->device_names) {
        mst_device_name *next = runtime->device_names->next;
        mst_free(runtime->device_names);
        runtime->device_names = next;
    }
    if (runtime->device_names_open) pthread_mutex_destroy(&runtime->device_names_lock);
}

static muster_status begin(muster_runtime *runtime, const char *where) {
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(runtime, where));
    pthread_mutex_lock(&runtime->device_names_lock);
    return MUSTER_OK;
}

static muster_status end(muster_runtime *runtime, muster_status status) {
    pthread_mutex_unlock(&runtime->device_names_lock);
    return status;
}

/* ---- how messages name a device; with the lock ---- */

static size_t add_text(char *text, size_t size, size_t at, const char *format, const char *word) {
    if (at >= size) return at;
    const int length = snprintf(text + at, size - at, format, word);
    return length < 0 ? at : at + (size_t)length;
}

/* "1 ('left', 'host cpu 1')": the rank, the names given by the user, and the device's own name. */
static size_t describe(const muster_runtime *runtime, int32_t rank, char *text, size_t size, size_t at) {
    if (at < size) at += (size_t)snprintf(text + at, size - at, "%d (", (int)(runtime->first + rank));
    for (const mst_device_name *name = runtime->device_names; name; name = name->next) {
        if (name->rank == rank) at = add_text(text, size, at, "'%.40s', ", name->text);
    }
    return add_text(text, size, at, "'%.64s')", runtime->devices[rank]->name);
}

static muster_status refuse_unknown(const muster_runtime *runtime, const char *name, const char *where, const char *what) {
    char list[MST_MESSAGE_SIZE / 2];
    size_t at = 0;
    for (int32_t r = 0; r < runtime->size; r++) {
        if (r > 0) at = add_text(list, sizeof list, at, "%s", ", ");
        at = describe(runtime, r, list, sizeof list, at);
    }
    if (at >= sizeof list) memcpy(list + sizeof list - 4, "...", 4);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected the name or number of a device, which are %s, received '%.100s'", where,
                     what, list, name);
}

const char *mst_runtime_device_text(muster_runtime *runtime, int32_t rank, char text[MST_DEVICE_TEXT]) {
    pthread_mutex_lock(&runtime->device_names_lock);
    (void)describe(runtime, rank, text, MST_DEVICE_TEXT, 0);
    pthread_mutex_unlock(&runtime->device_names_lock);
    return text;
}

/* ---- looking up; with the lock ---- */

/* The number that the name spells; negative: it is not a number. */
static int64_t number_of(const char *name) {
    int64_t value = 0;
    if (!*name) return -1;
    for (; *name >= '0' && *name <= '9'; name++) value = value < INT32_MAX ? 10 * value + (*name - '0') : INT32_MAX;
    return *name ? -1 : value;
}

/* The rank to which the user gave this name; -1: none. */
static int32_t given_to(const muster_runtime *runtime, const char *name) {
    for (const mst_device_name *known = runtime->device_names; known; known = known->next) {
        if (strcmp(known->text, name) == 0) return known->rank;
    }
    return -1;
}

/* The first rank from `from` on whose device has this own name; -1: none. Devices that share a core
 * or a GPU have equal own names. */
static int32_t own_name_of(const muster_runtime *runtime, const char *name, int32_t from) {
    for (int32_t r = from; r < runtime->size; r++) {
        if (strcmp(runtime->devices[r]->name, name) == 0) return r;
    }
    return -1;
}

/* The first rank from `from` on that "cuda:1" or "host:1" names: hardware by its number in the
 * machine, other devices by their place among those of their backend. -1: none. */
static int32_t listed_at(const muster_runtime *runtime, const char *name, int32_t from) {
    int64_t place = 0;
    for (int32_t r = 0; r < runtime->size; r++) {
        const mst_device *device = runtime->devices[r];
        const char *backend = device->table->backend;
        const size_t length = strlen(backend);
        if (strncmp(name, backend, length) != 0 || name[length] != ':') continue;
        const int64_t number = device->table->hardware ? device->physical - 1 : place++;
        if (r >= from && number_of(name + length + 1) == number) return r;
    }
    return -1;
}

static muster_status look_up(const muster_runtime *runtime, const char *name, const char *where, const char *what, int32_t *rank) {
    *rank = runtime->default_device;
    if (!name) return MUSTER_OK;
    if (!*name) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a name that is not empty, received \"\"", where, what);
    const int64_t number = number_of(name);
    if (number >= 0 && number < runtime->total) return mst_runtime_local_rank(runtime, (int32_t)number, where, what, rank);
    *rank = given_to(runtime, name);
    if (*rank >= 0) return MUSTER_OK;
    *rank = own_name_of(runtime, name, 0);
    if (*rank < 0) *rank = listed_at(runtime, name, 0);
    if (*rank < 0) return refuse_unknown(runtime, name, where, what);
    int32_t second = own_name_of(runtime, name, *rank + 1);
    if (second < 0) second = listed_at(runtime, name, *rank + 1);
    if (second < 0) return MUSTER_OK;
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "%s: %s: expected a name of one device, received '%.100s', which devices %d and %d have: give them names, or say the number", where,
        what, name, (int)(runtime->first + *rank), (int)(runtime->first + second));
}

muster_status mst_runtime_find(muster_runtime *runtime, const char *name, const char *where, const char *what, int32_t *rank) {
    int32_t found;
    MUSTER_TRY(begin(runtime, where));
    const muster_status status = look_up(runtime, name, where, what, &found);
    if (status == MUSTER_OK) *rank = found;
    return end(runtime, status);
}

muster_status mst_runtime_find_public(muster_runtime *runtime, const char *name, const char *where, const char *what, int32_t *rank) {
    const int64_t number = runtime && name ? number_of(name) : -1;
    int32_t local;
    if (number >= 0 && number < runtime->total) return *rank = (int32_t)number, MUSTER_OK;
    MUSTER_TRY(mst_runtime_find(runtime, name, where, what, &local));
    *rank = runtime->first + local;
    return MUSTER_OK;
}

muster_status muster_runtime_find_device(muster_runtime *runtime, const char *name, int32_t *rank) {
    static const char where[] = "muster_runtime_find_device";
    int32_t local;
    if (!rank) return mst_error_null(where, "rank", "the address of a number");
    MUSTER_TRY(mst_runtime_find(runtime, name, where, "name", &local));
    *rank = runtime->first + local;
    return MUSTER_OK;
}

/* ---- naming ---- */

/* Fails if another device has the name. *known: the device itself already has it. */
static muster_status check_free(const muster_runtime *runtime, const char *name, int32_t rank, const char *where, bool *known) {
    const int64_t number = number_of(name);
    const int64_t local = number - runtime->first;
    int32_t other = number >= 0 && local >= 0 && local < runtime->size ? (int32_t)local : given_to(runtime, name);
    *known = other == rank;
    if (*known) return MUSTER_OK;
    if (other < 0 && number >= 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a word, since numbers are ranks, received '%.100s'", where, name);
    for (int32_t r = own_name_of(runtime, name, 0); other < 0 && r >= 0; r = own_name_of(runtime, name, r + 1)) {
        if (r != rank) other = r;
    }
    *known = other < 0 && own_name_of(runtime, name, 0) == rank;
    if (other < 0) return MUSTER_OK;
    char text[MST_DEVICE_TEXT];
    (void)describe(runtime, other, text, sizeof text, 0);
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: name: expected one that no other device has, received '%.100s' for device %d, which is a name of device %s",
                     where, name, (int)rank, text);
}

static muster_status give_name(muster_runtime *runtime, const char *name, int32_t rank, const char *where) {
    bool known;
    MUSTER_TRY(check_free(runtime, name, rank, where, &known));
    if (known) return MUSTER_OK;
    const size_t bytes = strlen(name) + 1;
    mst_device_name **last = &runtime->device_names, *added = mst_alloc(sizeof *added + bytes);
    if (!added) return mst_out_of_memory(where, (int64_t)(sizeof *added + bytes));
    added->rank = rank;
    memcpy(added->text, name, bytes);
    while (*last) last = &(*last)->next;
    *last = added;
    return MUSTER_OK;
}

muster_status muster_runtime_name_device(muster_runtime *runtime, const char *name, int32_t rank) {
    static const char where[] = "muster_runtime_name_device";
    if (!name || !*name)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that is not empty, received %s", where,
                         name ? "\"\"" : "NULL");
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    MUSTER_TRY(begin(runtime, where));
    int32_t local;
    muster_status status = mst_runtime_local_rank(runtime, rank, where, "rank", &local);
    if (status == MUSTER_OK) status = give_name(runtime, name, local, where);
    return end(runtime, status);
}

muster_status muster_runtime_set_default_device(muster_runtime *runtime, const char *name) {
    static const char where[] = "muster_runtime_set_default_device";
    int32_t rank;
    if (!name) return mst_error_null(where, "name", "the name of a device");
    MUSTER_TRY(begin(runtime, where));
    const muster_status status = look_up(runtime, name, where, "name", &rank);
    if (status == MUSTER_OK) runtime->default_device = rank;
    return end(runtime, status);
}

/* ---- inferring ---- */

static muster_status refuse_two(const muster_runtime *runtime, const char *where, const char *what, int32_t first, int32_t first_rank,
                                int32_t second, int32_t second_rank) {
    char first_text[MST_DEVICE_TEXT], second_text[MST_DEVICE_TEXT];
    (void)describe(runtime, first_rank, first_text, sizeof first_text, 0);
    (void)describe(runtime, second_rank, second_text, sizeof second_text, 0);
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s[%d]: expected one on device %s, where %s[%d] is, received one on device %s; "
                     "muster_runtime_tensor_copy copies it to a tensor there",
                     where, what, (int)second, first_text, what, (int)first, second_text);
}

static muster_status infer(const muster_runtime *runtime, mst_tensor_list tensors, int32_t count, const char *where, const char *what,
                           int32_t *rank) {
    int32_t first = -1;
    for (int32_t i = 0; i < count; i++) {
        const muster_tensor *tensor = mst_tensor_of(tensors, i);
        if (tensor->dtype == MUSTER_DTYPE_NONE || tensor->device == MUSTER_DEVICE_HOST) continue;
        const int32_t device = tensor->device;
        if (device < 0 || device >= runtime->size)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: %s[%d]: expected memory of the host or of a device from 0 to %d, received device %d", where, what, (int)i,
                             (int)runtime->size - 1, (int)device);
        if (first < 0)
            first = i;
        else if (device != mst_tensor_of(tensors, first)->device)
            return refuse_two(runtime, where, what, first, mst_tensor_of(tensors, first)->device, i, device);
    }
    *rank = first < 0 ? runtime->default_device : mst_tensor_of(tensors, first)->device;
    return MUSTER_OK;
}

muster_status mst_runtime_infer_device(muster_runtime *runtime, mst_tensor_list tensors, int32_t count, const char *where, const char *what,
                                       int32_t *rank) {
    MUSTER_TRY(begin(runtime, where));
    return end(runtime, infer(runtime, tensors, count, where, what, rank));
}

muster_status muster_runtime_infer_device(muster_runtime *runtime, const muster_tensor *tensors, int32_t count, int32_t *rank) {
    static const char where[] = "muster_runtime_infer_device";
    if (!rank) return mst_error_null(where, "rank", "the address of a number");
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, (int)count);
    if (count > 0 && !tensors)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tensors: expected %d tensors, received NULL", where, (int)count);
    int32_t local;
    MUSTER_TRY(mst_runtime_infer_device(runtime, (mst_tensor_list){tensors, sizeof *tensors}, count, where, "tensors", &local));
    *rank = runtime->first + local;
    return MUSTER_OK;
}
