/* A planted overflow. */
#include <limits.h>

int main(int argc, char **argv) {
    (void)argv;
    return INT_MAX + argc > 0;
}
