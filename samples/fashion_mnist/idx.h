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
    uint8_t *data; /* freed by idx_free */
} idx_array;

/* Images (rows, height, width) and one label for each image. */
typedef struct idx_set {
    idx_array images, labels;
} idx_set;

/* Reads the file, which must have `ndim` dimensions. Returns 0, or -1 with the reason in
 * message[IDX_MESSAGE]; there is nothing to free then. */
int idx_read(const char *path, int ndim, idx_array *array, char *message);
void idx_free(idx_array *array);

/* Reads <folder>/<name>-images-idx3-ubyte.gz and <folder>/<name>-labels-idx1-ubyte.gz. There must
 * be as many labels as images and at least one, images of height x width, and labels below
 * `classes`. Returns as idx_read. */
int idx_read_set(const char *folder, const char *name, int64_t height, int64_t width, int classes, idx_set *set, char *message);
void idx_free_set(idx_set *set);

#endif
