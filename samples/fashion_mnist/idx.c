#include "idx.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

__attribute__((format(printf, 3, 4))) static int refuse(char *message, const char *path, const char *format, ...) {
    int length = snprintf(message, IDX_MESSAGE, "%s: ", path);
    if (length < 0 || length >= IDX_MESSAGE) return -1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + length, (size_t)(IDX_MESSAGE - length), format, arguments);
    va_end(arguments);
    return -1;
}

static int read_whole(const char *path, uint8_t **bytes, size_t *size, char *message) {
    FILE *file = fopen(path, "rb");
    if (!file) return refuse(message, path, "cannot be opened: %s", strerror(errno));
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    int result = -1;
    *bytes = NULL;
    if (end < 0 || fseek(file, 0, SEEK_SET) != 0)
        refuse(message, path, "cannot be read: %s", strerror(errno));
    else if (!(*bytes = malloc((size_t)end + 1)))
        refuse(message, path, "no memory for %ld bytes", end);
    else if (fread(*bytes, 1, (size_t)end, file) != (size_t)end)
        refuse(message, path, "cannot be read to its end");
    else
        result = 0;
    fclose(file);
    if (result) free(*bytes);
    *size = result ? 0 : (size_t)end;
    return result;
}

/* Inflates exactly `size` bytes more. zlib counts in 32 bits, hence the chunks. */
static int inflate_bytes(z_stream *z, uint8_t *to, int64_t size, const char *path, char *message) {
    int64_t done = 0;
    while (done < size) {
        int64_t chunk = size - done < (1 << 30) ? size - done : (1 << 30);
        z->next_out = to + done;
        z->avail_out = (uInt)chunk;
        int code = inflate(z, Z_NO_FLUSH);
        done += chunk - z->avail_out;
        if (done == size) break;
        if (code == Z_STREAM_END || code == Z_BUF_ERROR)
            return refuse(message, path, "is truncated: expected %lld more bytes, received %lld", (long long)size, (long long)done);
        if (code != Z_OK) return refuse(message, path, "is not a sound gzip file: %s", z->msg ? z->msg : zError(code));
    }
    return 0;
}

/* After the last element the gzip stream must end, with a correct checksum, and so must the
 * file. */
static int expect_end(z_stream *z, const char *path, char *message) {
    uint8_t extra;
    z->next_out = &extra;
    z->avail_out = 1;
    int code = inflate(z, Z_FINISH);
    if (z->avail_out == 0) return refuse(message, path, "has trailing bytes after the last element");
    if (code == Z_BUF_ERROR) return refuse(message, path, "is truncated: the end of the gzip stream is missing");
    if (code != Z_STREAM_END) return refuse(message, path, "is not a sound gzip file: %s", z->msg ? z->msg : zError(code));
    if (z->avail_in) return refuse(message, path, "has %u trailing bytes after the gzip stream", z->avail_in);
    return 0;
}

static int read_header(z_stream *z, const char *path, int ndim, idx_array *array, int64_t *count, char *message) {
    uint8_t magic[4] = {0}, size[4] = {0};
    if (inflate_bytes(z, magic, 4, path, message)) return -1;
    if (magic[0] || magic[1] || magic[2] != 8 || magic[3] != ndim)
        return refuse(message, path, "wrong magic number: expected 0000%02x%02x, received %02x%02x%02x%02x", 8u, (unsigned)ndim, magic[0],
                      magic[1], magic[2], magic[3]);
    array->ndim = ndim;
    *count = 1;
    for (int i = 0; i < ndim; i++) {
        if (inflate_bytes(z, size, 4, path, message)) return -1;
        array->shape[i] = (int64_t)size[0] << 24 | (int64_t)size[1] << 16 | (int64_t)size[2] << 8 | (int64_t)size[3];
        /* A corrupt size must not cause a huge allocation: no data set of this kind has more than 2
         * GB. */
        if (array->shape[i] && *count > INT32_MAX / array->shape[i])
            return refuse(message, path, "wrong sizes: more than 2 GB of elements");
        *count *= array->shape[i];
    }
    return 0;
}

static int decode(z_stream *z, const char *path, int ndim, idx_array *array, char *message) {
    int64_t count = 0;
    if (read_header(z, path, ndim, array, &count, message)) return -1;
    array->data = malloc((size_t)count + 1);
    if (!array->data) return refuse(message, path, "no memory for %lld bytes", (long long)count);
    if (inflate_bytes(z, array->data, count, path, message) || expect_end(z, path, message)) {
        idx_free(array);
        return -1;
    }
    return 0;
}

int idx_read(const char *path, int ndim, idx_array *array, char *message) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    memset(array, 0, sizeof *array);
    if (ndim < 1 || ndim > IDX_MAX_DIMS) return refuse(message, path, "expected 1 to %d dimensions, received %d", IDX_MAX_DIMS, ndim);
    if (read_whole(path, &bytes, &size, message)) return -1;
    z_stream z = {.next_in = bytes, .avail_in = (uInt)size};
    int result = -1;
    if (size > UINT32_MAX)
        refuse(message, path, "is larger than 4 GB");
    else if (inflateInit2(&z, MAX_WBITS + 16) != Z_OK) /* + 16: gzip, not raw zlib */
        refuse(message, path, "zlib cannot start: %s", z.msg ? z.msg : "no memory");
    else {
        result = decode(&z, path, ndim, array, message);
        inflateEnd(&z);
    }
    free(bytes);
    return result;
}

void idx_free(idx_array *array) {
    free(array->data);
    memset(array, 0, sizeof *array);
}

static int check_set(const char *images, const char *labels, int64_t height, int64_t width, int classes, const idx_set *set,
                     char *message) {
    const int64_t *shape = set->images.shape;
    if (shape[1] != height || shape[2] != width)
        return refuse(message, images, "wrong sizes: expected images of %lld x %lld, received %lld x %lld", (long long)height,
                      (long long)width, (long long)shape[1], (long long)shape[2]);
    if (shape[0] < 1) return refuse(message, images, "wrong sizes: expected at least one image, received none");
    if (set->labels.shape[0] != shape[0])
        return refuse(message, labels, "wrong sizes: expected %lld labels, one for each image, received %lld", (long long)shape[0],
                      (long long)set->labels.shape[0]);
    for (int64_t i = 0; i < shape[0]; i++)
        if (set->labels.data[i] >= classes)
            return refuse(message, labels, "label %lld is out of range: expected 0 to %d, received %d", (long long)i, classes - 1,
                          set->labels.data[i]);
    return 0;
}

int idx_read_set(const char *folder, const char *name, int64_t height, int64_t width, int classes, idx_set *set, char *message) {
    char images[4096], labels[4096];
    memset(set, 0, sizeof *set);
    int a = snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte.gz", folder, name);
    int b = snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte.gz", folder, name);
    if (a >= (int)sizeof images || b >= (int)sizeof labels) return refuse(message, name, "the folder's name is too long");
    if (idx_read(images, 3, &set->images, message)) return -1;
    if (idx_read(labels, 1, &set->labels, message) || check_set(images, labels, height, width, classes, set, message)) {
        idx_free_set(set);
        return -1;
    }
    return 0;
}

void idx_free_set(idx_set *set) {
    idx_free(&set->images);
    idx_free(&set->labels);
}
