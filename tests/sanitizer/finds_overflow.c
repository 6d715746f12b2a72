/* A planted overflow. */
#include <limits.h>

static volatile int largest = INT_MAX;

int main(void) {
    largest = largest + 1;
    return 0;
}
