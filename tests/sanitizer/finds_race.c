/* A planted data race: the second access comes after the first, for certain, yet nothing orders
 * them for the sanitizer, since a relaxed flag synchronises nothing. Accesses at the very same
 * moment are missed now and then. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static int counter;
static atomic_int is_counted;

static void *count(void *argument) {
    (void)argument;
    counter++;
    atomic_store_explicit(&is_counted, 1, memory_order_relaxed);
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, count, NULL) != 0) return 0;
    while (!atomic_load_explicit(&is_counted, memory_order_relaxed)) {}
    counter++;
    pthread_join(thread, NULL);
    return counter == 0;
}
