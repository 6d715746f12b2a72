/* A planted leak. */
#include <stdlib.h>

static void *volatile block;

int main(void) {
    block = malloc(100);
    block = NULL;
    return 0;
}
