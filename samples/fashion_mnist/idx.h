/* idx.h: reads gzipped IDX files (the format of MNIST and Fashion-MNIST) and refuses damaged ones.
 *
 * IDX: two zero bytes, a type byte (8: unsigned byte, the only one taken here), the number of
 * dimensions, each size as a big-endian 32-bit number, then the elements in row-major order.
 * http://yann.lecun.com/exdb/mnist/ */
#ifndef IDX_H
#define IDX_H

#include <stddef.h>
#include <stdint.h>

enum { IDX_MAX_DIMS = 3, IDX_MESSAGE = 512 };

typedef struct idx_array {
    int ndim;
    int64_t shape[IDX_MAX_DIMS];
    uint8_t *data; /* ends with idx_free */
} idx_array;

/* Images (rows, height, width) and one label for each. */
typedef struct idx_set {
    idx_array images, labels;
} idx_set;

/* Reads the file, which must have `ndim` dimensions. 0, or -1 with the reason in
 * message[IDX_MESSAGE] and nothing to free. */
int idx_read(const char *path, int ndim, idx_array *array, char *message);
void idx_free(idx_array *array);

/* Reads <folder>/<name>-images-idx3-ubyte.gz and <folder>/<name>-labels-idx1-ubyte.gz; as many
 * labels as images, at least one, images of height x width, labels below `classes`. */
int idx_read_set(const char *folder, const char *name, int64_t height, int64_t width, int classes, idx_set *set, char *message);
void idx_free_set(idx_set *set);

#endif
